"""A run folder with everything a page can show, made by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

BLOCKS = ("data_card", "classes", "failures", "strips", "distances", "map", "confusions", "triplet", "radius", "drift")
DAMAGES = ("jpeg", "blur", "noise", "brightness", "contrast", "saturation", "crop", "padding", "rotation", "flip")
DAMAGES += ("downscaling", "overlay")
POINTS, CLASSES, TILE, COLUMNS = 60, 6, 48, 25
SCORES = {
    "CA+": 10.0, "CA-": 60.0, "QA+": 12.0, "QA-": 55.0, "TMA": 0.5,
    "ES:D": 1.2, "ES:R": 20.0, "LTM": 10.0, "GTM": 12.0, "GTT": 15.0,
}  # fmt: skip
FLAG = {"name": "randomised", "level": "warning", "why": "vectors differ", "advice": "average several passes"}


def run_folder(folder: Path, name: str = "runs/full", label: str = "class") -> Path:
    """Write a run; `label` is put into every class name."""
    run = folder / name
    (run / "artifacts" / "pictures").mkdir(parents=True)
    write(run / "recipe.yaml", yaml.safe_dump(recipe(), sort_keys=False))
    write(run / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in log()))
    write(run / "evaluation.json", evaluation())
    write(run / "audit.json", audit())
    write(run / "artifacts" / "exhibits.json", exhibits(run / "artifacts", label))
    return run


def write(file: Path, content: Any) -> None:
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def change(file: Path, **values: Any) -> None:
    """Replace top-level keys of a JSON file."""
    write(file, {**json.loads(file.read_text("utf-8")), **values})


def recipe() -> dict[str, Any]:
    return {
        "data": {"name": "glyphs", "validation": 0.1},
        "model": {"backbone": "conv-small", "dim": 64, "weights": None},
        "batch": {"classes": 28, "per_class": 4},
        "augment": {"name": "random-crop", "padding": 2},
        "loss": {"name": "margin", "beta": 1.2, "miner": {"name": "distance"}},
        "regime": {"name": "mdprop", "distributions": [{"name": "stax", "budget": {"eps": 8 / 255, "steps": 2}}]},
        "optimizer": {"name": "adam", "lr": 0.003},
        "schedule": {"name": "cosine"},
        "epochs": 4,
        "seed": 3,
    }


def log() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"step": 0, "epoch": 0, "validation": {"R@1": 21.9}}]
    for step in range(10, 101, 10):
        shift = {"shift/stax": 0.3 + step / 500, "loss/clean": 1 - step / 200, "loss/stax": 1.2 - step / 200}
        line = {"step": step, "epoch": step / 25, "lr": 0.003, "loss": 2 - step / 100, "images_per_second": 112.0}
        lines.append({**line, "passes": 4.0, **shift})
    return [*lines, {"step": 100, "epoch": 4, "validation": {"R@1": 78.25}}]


def evaluation() -> dict[str, Any]:
    metrics = {"R@1": 78.84, "R@2": 88.0, "mAP@R": 43.0, "NMI": 85.2, "NMI+": None, "distance_positive": 0.8}
    metrics |= {"collapsed": False, "coarse/R@1": 87.0}
    return {
        "schema": 1, "data": {"name": "glyphs"}, "split": "test", "images": 3150, "model": "full", "metrics": metrics,
        "undefined": {"NMI+": "more clusters than images"}, "seed": 3, "recipe": "abc",
        "versions": {"holdfast": "0.1.0"},
    }  # fmt: skip


def audit(flags: list[dict[str, str]] | None = None) -> dict[str, Any]:
    metrics = {"R@1": 77.0, **SCORES, "ERS": 37.95, "collapsed": False}
    return {
        "schema": 1, "protocol": "ers", "mode": "fixed", "data": {"name": "glyphs"}, "split": "test", "model": "full",
        "images": 200, "gallery": 3150, "limit": 200, "skipped": [],
        "budget": {"eps_pixel": 8 / 255, "eps_normalized": 0.0627, "step": 3 / 255, "steps": 32, "start": "zero"},
        "metrics": metrics, "intervals": {"ERS": [36.04, 39.96], "CA-": [55.0, 65.0], "ES:R": [15.0, 25.0]},
        "undefined": {}, "flags": [FLAG] if flags is None else flags, "seconds": {"es": 30.0, "ca+": 60.0}, "seed": 5,
        "versions": {"holdfast": "0.1.0", "torch": "2.0"},
    }  # fmt: skip


def robust_audit(robust: float = 3.5, flags: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """The same as schema 2 has it: 154 of 200 queries right when clean, 7 whatever the attack."""
    document = audit([] if flags is None else flags)
    figures = {"robust R@1": robust, "gallery enters@10": 61.5, "gallery leaves@10": 84.0}
    broken = {"es": 120, "ltm": 0, "apgd-misrank": 20, "apgd-soft-misrank": 0, "square": 7}
    told = {"eps": 8 / 255, "norm": "linf", "queries": 200, "broken_by": broken, "attacks": [*broken]}
    return {
        **document,
        "schema": 2,
        "metrics": {"R@1": 77.0, **figures, **document["metrics"]},
        "intervals": {**document["intervals"], "robust R@1": [1.5, 6.5], "gallery leaves@10": [79.0, 89.0]},
        "robust": {**told, "passes": 123456, "seconds": 200.0},
    }


def natural_audit(mean: float = 61.2) -> dict[str, Any]:
    """Everyday damage."""
    cells = {kind: [77.0 - 2 * n - 4 * place for place in range(5)] for n, kind in enumerate(DAMAGES)}
    return {
        **audit([]), "schema": 2, "protocol": "natural", "natural": cells,
        "natural_intervals": {kind: [[value - 5, value + 5] for value in row] for kind, row in cells.items()},
        "budget": {"eps_pixel": 1.0, "eps_normalized": 2.0, "step": 2.0, "steps": 20, "start": "zero"},
        "patch": {"area": 0.05, "by": "gradient", "steps": 20},
        "metrics": {"R@1": 77.0, "natural R@1": mean, "natural loss": 77.0 - mean, "patch R@1": 6.5},
        "intervals": {"R@1": [70.0, 83.0], "natural R@1": [mean - 6, mean + 6], "patch R@1": [3.0, 10.0]},
    }  # fmt: skip


def exhibits(folder: Path, label: str) -> dict[str, Any]:
    draw = random.Random(0)
    names = [f"{label} {n}" for n in range(CLASSES)]
    sheet = Image.new("RGB", (TILE * COLUMNS, TILE * -(-POINTS // COLUMNS)), (90, 120, 200))
    sheet.save(folder / "pictures" / "map.jpg")
    count = 0

    def picture(alt: str) -> dict[str, Any]:
        nonlocal count
        count += 1
        file = f"pictures/{count:04d}.png"
        Image.new("RGB", (32, 32), tuple(draw.randrange(256) for _ in range(3))).save(folder / file)
        return {"file": file, "width": 32, "height": 32, "alt": alt}

    def matches(right: int) -> list[dict[str, Any]]:
        return [
            {"picture": picture("match"), "label": names[n % CLASSES], "right": n < right, "distance": 0.3 + n / 10}
            for n in range(6)
        ]

    strips = [
        {
            "query": picture("query"), "label": names[n % CLASSES], "matches": matches(3),
            "attacked": {"picture": picture("attacked"), "change": picture("change"), "amplified": 16.0,
                         "goal": "misrank", "eps_pixel": 8 / 255, "matches": matches(n % 2)},
        }
        for n in range(8)
    ]  # fmt: skip
    classes = [
        {
            "name": name,
            "images": 10,
            "R@1": 40.0 + 10 * n,
            "mAP@R": 30.0 + 10 * n,
            "taken_for": names[n - 1],
            "times": 6 - n,
        }
        for n, name in enumerate(names)
    ]
    failures = {
        "searches": 3150, "wrong": 667,
        "listed": [{"image": f"{names[n % CLASSES]}/{n}.jpg", "label": names[n % CLASSES], "found": names[0],
                    "distance": 0.4, "place": 90 - n} for n in range(30)],
        "cards": [{"query": picture("query"), "image": f"{names[n]}/{n}.jpg", "label": names[n], "place": 90 - n,
                   "matches": matches(0)[:4], "should": matches(1)[0]} for n in range(CLASSES)],
    }  # fmt: skip
    low, high = [0.05] * 20 + [0.0] * 20, [0.0] * 20 + [0.05] * 20
    gaps = {"weight": 0.1, "bias": 0.2, "running_mean": 0.5, "running_var": 0.4}
    return {
        "schema": 1,
        "made": {
            "model": "full", "data": {"name": "glyphs"}, "split": "test", "seed": 3, "versions": {"timm": "1.0"},
            "images": True, "attack": {"goal": "misrank", "eps_pixel": 8 / 255, "steps": 16},
        },
        "data_card": {
            "name": "glyphs", "images": 6260, "classes": 626, "per_class": {"least": 10, "median": 10.0, "most": 10},
            "splits": {"train": {"images": 2800, "classes": 280}, "test": {"images": 3150, "classes": 315}},
            "samples": [{"label": name, "pictures": [picture("sample") for _ in range(4)]} for name in names],
        },
        "classes": classes,
        "failures": failures,
        "strips": strips,
        "damage": {
            "label": names[0], "strength": 3, "query": picture("query"), "matches": matches(1)[:1],
            "kinds": [{"kind": kind, "picture": picture(kind), "matches": matches(n % 2)[:1]}
                      for n, kind in enumerate((*DAMAGES, "patch"))],
        },
        "outcomes": {"fooled": 120, "held": 30, "wrong": 50},
        "distances": {"edges": [n / 20 for n in range(41)], "positive": low, "negative": high,
                      "attacked_positive": high, "attacked_negative": low},
        "map": {"method": "t-SNE", "points": [[draw.random(), draw.random()] for _ in range(POINTS)],
                "labels": [n % CLASSES for n in range(POINTS)], "names": names,
                "sprite": {"file": "pictures/map.jpg", "tile": TILE, "columns": COLUMNS}},
        "confusions": [{"a": names[0], "b": names[1], "times": 7, "share": 70.0,
                        "pictures": [picture("a"), picture("b")]}],
        "triplet": {"anchor": picture("anchor"), "positive": picture("positive"), "negative": picture("negative"),
                    "labels": [names[0], names[0], names[1]], "before": {"ap": 0.5, "an": 0.7},
                    "after": {"ap": 1.8, "an": 0.1}, "eps_pixel": 8 / 255},
        "radius": {"goal": "misrank", "images": 200, "steps": 16,
                   "eps_pixel": [0, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255],
                   "R@1": [76.0, 60.0, 40.0, 20.0, 4.04, 0.0]},
        "drift": {"stax": {f"layer{n}": gaps for n in range(3)}},
        "missing": {},
    }  # fmt: skip
