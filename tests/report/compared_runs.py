"""Run folders made by hand, with figures that look like real ones."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import yaml

DATA = {"name": "glyphs", "validation": 0.1, "validation_seed": 0, "labels": "fine", "per_class": 10, "seed": 0}
ABOVE = {"CA+": -3, "CA-": 2, "QA+": -3, "QA-": 1, "TMA": -1, "ES:D": 2, "ES:R": -2, "LTM": 0, "GTM": 1, "GTT": 3}
"""How far each attack's share lies above ERS; the mean is 0."""
RECIPE: dict[str, Any] = {
    "data": DATA,
    "model": {"backbone": "conv-small", "dim": 64},
    "batch": {"classes": 28, "per_class": 4},
    "loss": {"name": "multi-similarity", "alpha": 2.0},
    "regime": {"name": "standard"},
    "epochs": 24,
    "seed": 0,
}
AUDIT: dict[str, Any] = {
    "schema": 1,
    "protocol": "ers",
    "mode": "fixed",
    "data": {"name": "glyphs"},
    "split": "test",
    "images": 500,
    "gallery": 3150,
    "limit": 500,
    "budget": {"eps_pixel": 8 / 255, "steps": 32, "norm": "linf", "method": "pgd"},
    "flags": [],
    "seed": 0,
}


def make_run(
    folder: Path,
    recall: float = 79.0,
    ers: float | None = 20.0,
    regime: str = "standard",
    seed: int = 0,
    speed: float = 500.0,
    passes: float = 1.0,
    audit: dict[str, Any] | None = None,
    flags: list[dict[str, str]] | None = None,
    robust: float | None = None,
) -> Path:
    """A finished run: recipe, log, evaluation, weights' header, and an ERS audit unless `ers` is None.

    Args:
        folder: where; made.
        recall: clean R@1.
        ers: its score.
        regime: of the recipe.
        seed: of the recipe.
        speed: images per second.
        passes: per step.
        audit: what differs from the usual audit, keys of `budget` laid over its own.
        flags: of the audit.
        robust: robust R@1, in an audit of schema 2.
    """
    (folder / "model").mkdir(parents=True)
    recipe = {**RECIPE, "regime": {"name": regime}, "seed": seed}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    metrics = {"R@1": recall, "R@2": recall + 8, "mAP@R": recall - 36, "NMI": recall + 6, "collapsed": False}
    evaluation = {"schema": 1, "data": DATA, "split": "test", "images": 3150, "metrics": metrics, "undefined": {}}
    _write(folder / "evaluation.json", evaluation)
    lines: list[dict[str, Any]] = [{"step": 0, "epoch": 0, "validation": {"R@1": 22.0}}]
    for step in range(100, 601, 100):
        lines.append({"step": step, "epoch": step / 25, "loss": 1.0, "passes": passes, "images_per_second": speed})
        grown = 22 + (recall - 3) * (1 - 0.5 ** (step / 100))
        lines.append({"step": step, "epoch": step // 25, "validation": {"R@1": min(99.0, grown)}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shapes = {"head.weight": [64, 512], "bn.running_mean": [64], "bn.weight": [64]}
    header = json.dumps({k: {"dtype": "F32", "shape": s, "data_offsets": [0, 0]} for k, s in shapes.items()}).encode()
    (folder / "model" / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    if ers is not None:
        _write(folder / "audit.json", with_robust(ers_audit(ers, audit or {}, flags or []), robust))
    return folder


def with_robust(document: dict[str, Any], robust: float | None, **told: Any) -> dict[str, Any]:
    """The audit with robust R@1, give or take two, and what else is told of how that was measured."""
    if robust is None:
        return document
    usual = {"eps": 8 / 255, "norm": "linf", "queries": 500, "broken_by": {"margin": 9}, "attacks": ["margin", "es"]}
    metrics = {**document["metrics"], "robust R@1": robust}
    intervals = {**document["intervals"], "robust R@1": [max(0, robust - 2), robust + 2]}
    return {**document, "schema": 2, "metrics": metrics, "intervals": intervals, "robust": {**usual, **told}}


def ers_audit(ers: float, changes: dict[str, Any], flags: list[dict[str, str]]) -> dict[str, Any]:
    """The document of an ERS audit."""
    document = {**copy.deepcopy(AUDIT), "flags": flags, **{k: v for k, v in changes.items() if k != "budget"}}
    document["budget"] |= changes.get("budget", {})
    share = {key: ers + more for key, more in ABOVE.items()}
    scores = {key: value / 2 if key in ("CA+", "QA+") else value for key, value in share.items()}
    scores |= {key: 100 - share[key] for key in ("CA-", "QA-")}
    scores |= {"TMA": 1 - share["TMA"] / 100, "ES:D": 2 - share["ES:D"] / 50}
    document["metrics"] = {"R@1": 78.0, **scores, "ERS": ers}
    document["intervals"] = {"ERS": [ers - 1.5, ers + 1.5]}
    return document


def add_exhibits(folder: Path, right: int, after: int, radius: list[float], queries: int = 2) -> None:
    """Strips whose query pictures are the same in every folder, and a curve over radii.

    Args:
        folder: of the run.
        right: matches of six that are right.
        after: the same under attack.
        radius: R@1 at six radii.
        queries: how many strips.
    """
    pictures = folder / "artifacts" / "pictures"
    pictures.mkdir(parents=True)
    for number in range(queries + 2):
        (pictures / f"{number}.png").write_bytes(png(number))

    def picture(number: int) -> dict[str, Any]:
        return {"file": f"pictures/{number}.png", "width": 8, "height": 8, "alt": f"picture {number}"}

    def matches(hits: int) -> list[dict[str, Any]]:
        return [
            {"picture": picture(queries + (i >= hits)), "label": "abc"[i % 3], "right": i < hits, "distance": 0.1 * i}
            for i in range(6)
        ]

    strips = [
        {
            "query": picture(number),
            "label": f"class {number}",
            "matches": matches(right),
            "attacked": {"picture": picture(number), "matches": matches(after)},
        }
        for number in range(queries)
    ]
    eps = [0, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255]
    curve = {"goal": "shift", "images": 128, "steps": 10, "eps_pixel": eps, "R@1": radius}
    _write(folder / "artifacts" / "exhibits.json", {"schema": 1, "made": {}, "strips": strips, "radius": curve})


def png(number: int) -> bytes:
    """An 8-pixel picture of its own for every number."""
    rows = b"".join(
        b"\0" + bytes(v for x in range(8) for v in ((x * 30) % 256, (y * 30 + 70 * number) % 256, 50 * number % 256))
        for y in range(8)
    )

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content))
