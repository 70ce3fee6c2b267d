"""Pulling an embedding onto drawn targets (TMA; MDProp's single-target, multi-target and unadversarial data)."""

from __future__ import annotations

import dataclasses

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References
from holdfast.errors import DataError, RecipeError
from holdfast.mining.draw import sample
from holdfast.mining.known import known_of
from holdfast.sphere import Mask, distance, precise, row_mean


@dataclasses.dataclass(eq=False)
class _BoundMismatchedPair(BoundGoal):
    target: Tensor

    per_group = ("target",)

    def loss(self, z: Tensor) -> Tensor:
        """One minus the cosine."""
        return 1 - self._cosine(z)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`cosine`: with the target."""
        return {"cosine": self._cosine(z)}

    def _cosine(self, z: Tensor) -> Tensor:
        return torch.nn.functional.cosine_similarity(precise(z), self.target, dim=1)


@register("tma")
class TargetedMismatch(Goal):
    """Make a query look like an arbitrary image (TMA).

    L = 1 - cos(q', t), t uniform in the gallery

    Relations: `single-target` uses the distance and only targets of another class.
    Reference: Tolias et al., ICCV 2019; HM, Section 4.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw a target for each image."""
        drawn = references.draw_any(len(references.rows(rows)), generator)
        return _BoundMismatchedPair(references.vectors[drawn])


@dataclasses.dataclass(eq=False)
class BoundTargets(BoundGoal):
    """Mean distance to some targets, drawn in whatever way.

    Args:
        references: the gallery.
        targets: gallery items, shape (images, T).
        real: which of them count; an image without any stays clean.
    """

    references: References
    targets: Tensor
    real: Mask

    per_group = ("targets", "real")

    def loss(self, z: Tensor) -> Tensor:
        """The mean distance."""
        return row_mean(self._lengths(z), self.real)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`distance`: the mean distance to the targets; `farthest`: the distance to the farthest, 0 without any."""
        return {"distance": self.loss(z), "farthest": torch.where(self.real, self._lengths(z), 0).amax(1)}

    def _lengths(self, z: Tensor) -> Tensor:
        return distance(z[:, None], self.references.vectors[self.targets])


@register("single-target")
class SingleTarget(Goal):
    """Make an image look like one image of another class (MDProp's STAX).

    L = ||f(x') - f(t)||, t uniform among the references of other classes

    Requirements: labels of two or more classes.
    Relations: `multi-target` aims between several classes; `gtm` at the nearest wrong image.
    Reference: MDProp, Section 3.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw a target of another class for each image."""
        target = references.draw(references.rows(rows), same=False, generator=generator)[:, None]
        known = known_of(references.labels)
        if not (known is not None and known.complete) and bool((target < 0).any()):
            raise DataError("an attacked image has no reference of another label; give references of two classes")
        return BoundTargets(references, target, target >= 0)


@register("multi-target")
class MultiTarget(Goal):
    """Make an image look like several other classes at once (MDProp's MTAX).

    L = (1/T) Σ_t ||f(x') - f(t)||, one target from each of T other classes

    Args:
        targets: T.

    Requirements: labels of more than T classes. With a relevance matrix, T different irrelevant images.
    Relations: `single-target` for T = 1, but for the draw, which here gives every class the same chance.
    Reference: MDProp, Section 3; Amada et al., 2021.
    """

    def __init__(self, targets: int = 5) -> None:
        if targets < 1:
            raise RecipeError(f"goal.targets must be 1 or more, got {targets}")
        self.targets = targets
        self.least_classes = targets + 1

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw targets of different other classes for each image."""
        rows = references.rows(rows)
        known = known_of(references.labels)
        classes = None if known is None else known.classes
        by_class, start, count = _by_class(references.labels, classes)
        drawn = []
        for part in references.parts(rows):
            chosen, real = _several(references.negatives(rows[part])[:, by_class[start]], self.targets, generator)
            enough = bool(real.all()) if classes is None else classes > self.targets
            if chosen.shape[1] < self.targets or not enough:
                raise DataError(f"multi-target needs {self.targets} other classes per image; ask for fewer targets")
            within = sample(torch.rand, chosen.shape, device=references.device, generator=generator) * count[chosen]
            drawn.append(by_class[start[chosen] + torch.minimum(within.long(), count[chosen] - 1)])
        targets = torch.cat(drawn)
        return BoundTargets(references, targets, torch.ones_like(targets, dtype=torch.bool))


def _several(allowed: Mask, count: int, generator: Generator | None) -> tuple[Tensor, Mask]:
    """Different allowed columns per row, uniformly, and which of them are real: a row may allow fewer."""
    keys = sample(torch.rand, allowed.shape, device=allowed.device, generator=generator).masked_fill(~allowed, -1)
    key, chosen = keys.topk(min(count, allowed.shape[1]), dim=1)
    return chosen, key >= 0


def _by_class(labels: Tensor, classes: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Items sorted by class, and where each class starts and how many it has; irrelevant images are classes of one.

    Args:
        labels: classes, or a relevance matrix.
        classes: how many there are, if that is known; otherwise the device is asked.
    """
    if labels.dtype == torch.bool:
        items = torch.arange(labels.shape[1], device=labels.device)
        return items, items, torch.ones_like(items)
    ordered, order = labels.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[:-1] != ordered[1:]
    if classes is None:
        ends = last.nonzero().squeeze(1)
    else:
        ends = last.to(torch.uint8).argsort(descending=True, stable=True)[:classes]
    count = torch.diff(ends, prepend=torch.full_like(ends[:1], -1))
    return order, ends + 1 - count, count


@register("unadversarial")
class Unadversarial(Goal):
    """Make an image look more like its own class (MDProp's UX).

    L = mean over T targets of ||f(x') - f(t)||, t other images of the same class

    Args:
        targets: T, drawn without repeats; all there are where a class has fewer.

    Requirements: labels. An image that is alone in its class stays as it is.
    Relations: `single-target` in the other direction; `alignment` pushes the other way.
    Reference: MDProp, Section 3.
    """

    def __init__(self, targets: int = 1) -> None:
        if targets < 1:
            raise RecipeError(f"goal.targets must be 1 or more, got {targets}")
        self.targets = targets

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw targets of the own class for each image."""
        rows = references.rows(rows)
        parts = references.parts(rows)
        drawn = [_several(references.positives(rows[part]), self.targets, generator) for part in parts]
        targets, real = (torch.cat(columns) for columns in zip(*drawn, strict=True))
        return BoundTargets(references, targets, real)
