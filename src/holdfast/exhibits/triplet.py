"""One triplet, before and after an attack that moves all three images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast import attacks
from holdfast.audit.examples import rounded
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import NO_GRADIENTS, Scene
from holdfast.sphere import distance


def triplet(scene: Scene) -> dict[str, Any]:
    """A query that finds its class, with its nearest positive and its nearest negative, made as hard as the budget can.

    The seed draws the query among those that are right before the attack; where none is, among those with a positive.
    Distances after the attack are those of the three images as 8-bit files hold them.
    """
    subject = scene.subject
    if not subject.differentiable:
        raise Missing(NO_GRADIENTS)
    references = subject.references
    row = _drawn(scene)
    vector = references.clean(row)
    near, _ = references.extreme(vector, lambda block: references.positives(row, block))
    far, there = references.extreme(vector, lambda block: references.negatives(row, block))
    if not bool(there):
        raise Missing("the gallery holds no image of another class")
    images = torch.cat([subject.images(row), scene.pictures.seen(scene.searched, torch.cat([near, far]))])
    goal = attacks.build("hardness").bind(references, row.expand(3))
    moved = subject.attack(images, goal, scene.budget, subject.generator("triplet"))
    after = subject.encode(rounded(images, moved.images, scene.budget.eps))
    before = torch.cat([vector, references.vectors[near], references.vectors[far]])
    labels = [subject.labels[row], references.labels[near], references.labels[far]]
    names = [scene.name_of(label) for label in labels]
    picture, searched = scene.pictures.of, scene.searched
    return {
        "anchor": picture(subject.store, int(row), f"anchor, {names[0]}"),
        "positive": picture(searched, int(near), f"positive, {names[1]}"),
        "negative": picture(searched, int(far), f"negative, {names[2]}"),
        "labels": names,
        "before": _sides(before),
        "after": _sides(after),
        "eps_pixel": scene.budget.eps,
    }


def _drawn(scene: Scene) -> Tensor:
    """The anchor, as a list of one row."""
    rows = scene.subject.rows
    hits = scene.subject.references.hits(scene.subject.references.clean(rows), rows)
    fit = rows[hits > 0] if bool((hits > 0).any()) else rows[hits == 0]
    if not len(fit):
        raise Missing("no query has another image of its class to find")
    return fit[torch.randint(len(fit), (1,), generator=scene.subject.generator("anchor")).to(fit.device)]


def _sides(vectors: Tensor) -> dict[str, float]:
    anchor, positive, negative = vectors
    return {"ap": float(distance(anchor, positive)), "an": float(distance(anchor, negative))}
