"""One triplet at its distances, before and after an attack that changes all three images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.report import formatting as fmt
from holdfast.report.context import NO_POSITIVE, Absent, CollectContext, PageContext, Section

if TYPE_CHECKING:
    from torch import Tensor

FARTHEST = 2.0
"""Two opposite points of the unit sphere."""
PARTS = ("anchor", "positive", "negative")


def collect(context: CollectContext) -> dict[str, Any]:
    """A query that finds its class, with its nearest positive and its nearest negative, made as hard as the budget can.

    The seed draws the query among those that are right before the attack; where none is, among those with a positive.
    Distances after the attack are those of the three images as 8-bit files hold them.
    """
    import torch

    from holdfast import attacks
    from holdfast.audit.examples import rounded

    context.require_gradients()
    subject, references = context.subject, context.subject.references
    row = _drawn(context)
    vector = references.clean(row)
    pos, _ = references.extreme(vector, lambda block: references.positives(row, block))
    neg, there = references.extreme(vector, lambda block: references.negatives(row, block))
    if not bool(there):
        raise Absent("the gallery holds no image of another class")
    images = torch.cat([subject.images(row), context.searched.inputs(torch.cat([pos, neg]).cpu())])
    goal = attacks.build("hardness").bind(references, row.expand(3))
    adversarial = subject.attack(images, goal, context.budget, subject.generator("triplet")).images
    after = subject.encode(rounded(images, adversarial, context.budget.eps))
    before = torch.cat([vector, references.vectors[pos], references.vectors[neg]])
    labels = [subject.labels[row], references.labels[pos], references.labels[neg]]
    names = [context.name_of(label) for label in labels]
    stores = (subject.store, context.searched, context.searched)
    files = {
        part: context.images.of(store, int(item), f"{part}, {name}")
        for part, store, item, name in zip(PARTS, stores, (row, pos, neg), names, strict=True)
    }
    return {
        **files,
        "labels": names,
        "before": _lengths(before),
        "after": _lengths(after),
        "eps_pixel": context.budget.eps,
    }


def _drawn(context: CollectContext) -> Tensor:
    """The anchor, as a list of one row."""
    import torch

    rows = context.subject.rows
    hits = context.subject.references.hits(context.subject.references.clean(rows), rows)
    fit = rows[hits > 0] if bool((hits > 0).any()) else rows[hits == 0]
    if not len(fit):
        raise Absent(NO_POSITIVE)
    return fit[torch.randint(len(fit), (1,), generator=context.subject.generator("anchor")).to(fit.device)]


def _lengths(vectors: Tensor) -> dict[str, float]:
    from holdfast.sphere import distance

    anchor, positive, negative = vectors
    return {"ap": float(distance(anchor, positive)), "an": float(distance(anchor, negative))}


def show(context: PageContext) -> dict[str, Any]:
    """Two rulers that start at the anchor."""
    stored = context.exhibit("triplet")
    before, after = ({key: float(stored[when][key]) for key in ("ap", "an")} for when in ("before", "after"))
    strength = fmt.eps(stored.get("eps_pixel"))
    wrong_before, wrong_after = (ruler["an"] < ruler["ap"] for ruler in (before, after))
    if not wrong_after:
        title = f"The right image stays nearer, even after changes of {strength} per pixel"
    elif wrong_before:
        title = "The wrong image is nearer than the right one, before the attack and after"
    else:
        title = f"Changes of at most {strength} per pixel bring the wrong image nearer than the right one"
    return {
        "title": title,
        "images": {name: context.images.tag(stored[name]) for name in PARTS},
        "labels": dict(zip(PARTS, stored["labels"], strict=True)),
        "rulers": [("Before", before), ("After the attack", after)],
        "longest": min(FARTHEST, 1.1 * max(*before.values(), *after.values())),
    }


SECTION = Section("triplet", "Triplet", show, {"triplet": collect}, of_images=True)
