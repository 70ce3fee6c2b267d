"""Adversarial images as files, checked to still work as files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast import attacks
from holdfast.attacks import Budget
from holdfast.audit.sampling import balanced_rows
from holdfast.audit.subject import Subject
from holdfast.files import new_folder, write_json


def save_examples(subject: Subject, budget: Budget, folder: Path, count: int) -> Path:
    """Attack a few queries, store clean, attacked and amplified-change PNGs, and say whether the files still fool.

    Rounding to 8 bits changes an attack; each stored image is therefore embedded again as a reader of the file would.

    Args:
        subject: the model and its images.
        budget: in pixel units.
        folder: where the images go, with `examples.json` beside them; an older one is replaced.
        count: how many queries.
    """
    from PIL import Image

    chosen = balanced_rows(subject.labels[subject.rows].cpu(), count, subject.seed).to(subject.rows.device)
    rows = subject.rows[chosen]
    images = subject.images(rows)
    goal = attacks.build("misrank").bind(subject.references, rows)
    found = subject.attack(images, goal, budget, subject.generator("examples"))
    stored = rounded(images, found.images, budget.eps)
    hits = {
        "clean": goal.measure(subject.references.clean(rows))["hit"],
        "attacked": found.measures["hit"],
        "stored": goal.measure(subject.encode(stored))["hit"],
    }
    entries: list[dict[str, Any]] = []
    with new_folder(folder) as aside:  # so that no link that lies in a stranger's folder is written through
        for position, row in enumerate(rows.tolist()):
            files = {
                "clean": images[position],
                "attacked": stored[position],
                "change": amplified(stored[position] - images[position]),
            }
            names = {kind: f"{position:03d}-{kind}.png" for kind in files}
            for kind, image in files.items():
                Image.fromarray(as_bytes(image).permute(1, 2, 0).cpu().numpy()).save(aside / names[kind])
            entries.append(
                {
                    "image": subject.store.table.ids[row],
                    "files": names,
                    "finds_its_class": {kind: _found(values[position]) for kind, values in hits.items()},
                }
            )
        write_json(aside / "examples.json", {"schema": 1, "eps_pixel": budget.eps, "examples": entries})
    return folder / "examples.json"


def rounded(images: Tensor, attacked: Tensor, eps: float) -> Tensor:
    """Attacked images as 8-bit files hold them, rounded without leaving the ball."""
    levels = math.floor(eps * 255 + 1e-6)
    clean = (images * 255).round()
    change = ((attacked * 255).round() - clean).clamp(-levels, levels)
    return ((clean + change) / 255).clamp(0, 1)


def _found(hit: Tensor) -> bool | None:
    """Whether a query finds its class; None where it has no positive in the gallery."""
    return None if bool(hit.isnan()) else bool(hit > 0)


def amplified(change: Tensor) -> Tensor:
    """The change around mid-grey, stretched to full contrast."""
    return 0.5 + 0.5 * change / change.abs().max().clamp_min(1e-8)


def as_bytes(image: Tensor) -> Tensor:
    """An image in [0, 1] as an 8-bit file holds it."""
    return (image * 255).round().clamp(0, 255).to(torch.uint8)
