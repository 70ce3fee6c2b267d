"""How a test set is cut into batches whose images are attacked together."""

from __future__ import annotations

import dataclasses
import re

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError

PUBLISHED_BATCH = 112
"""Images in a batch."""
DRAWS = 20
"""How often batches are drawn again where one has nothing to tell apart."""
BALANCED = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})")
DRAWN = ("shuffled", "ordered")


@dataclasses.dataclass(frozen=True)
class MakeUp:
    """What batches are made of: `56x2` (classes × images of each), `shuffled`, or `ordered` as the data lists images.

    Args:
        name: as written.
        classes: classes in a batch; 0 where classes do not matter.
        per_class: images of each.
    """

    name: str
    classes: int = 0
    per_class: int = 0

    @classmethod
    def of(cls, name: str) -> MakeUp:
        """Read a make-up; one that cannot be had is refused."""
        found = BALANCED.fullmatch(name)
        if found is None and name not in DRAWN:
            raise RecipeError(f"batches: expected 56x2 (classes × images), 28x4, shuffled or ordered, got '{name}'")
        classes, per_class = (int(number) for number in found.groups()) if found else (0, 0)
        if found and (classes < 2 or per_class < 2):
            raise RecipeError(f"batches: {name} leaves images without a positive or a negative; take 2x2 or more")
        return cls(name, classes, per_class)

    @property
    def size(self) -> int:
        """Images in a batch."""
        return self.classes * self.per_class or PUBLISHED_BATCH

    def cut(self, labels: Tensor, generator: Generator) -> Cut:
        """Batches of all images, each in one of them.

        A batch without any positive pair, or without any negative one, gives attacks on classes no gradient. The last,
        which may be small, then joins the one before; else batches are drawn again, and refused where that does not
        help.

        Args:
            labels: class of each image.
            generator: of the draws.
        """
        for _ in range(1 if self.name == "ordered" else DRAWS):
            order = self._order(labels, generator)
            cuts = [slice(a, min(a + self.size, len(order))) for a in range(0, len(order), self.size)]
            if len(cuts) > 1 and _lack(labels[order[cuts[-1]]]):
                cuts[-2:] = [slice(cuts[-2].start, cuts[-1].stop)]
            lacking = {lack for cut in cuts if (lack := _lack(labels[order[cut]]))}
            if not lacking:
                return Cut(order, cuts)
        raise RecipeError(
            f"batches: {self.name} makes a batch of {self.size} without any {' or '.join(sorted(lacking))} pair, which "
            "attacks on classes cannot move; give another --batches, or other images"
        )

    def _order(self, labels: Tensor, generator: Generator) -> Tensor:
        if self.name == "ordered":
            return torch.arange(len(labels))
        if self.name == "shuffled":
            return torch.randperm(len(labels), generator=generator)
        return _balanced(labels, self.classes, self.per_class, generator)


@dataclasses.dataclass(frozen=True)
class Cut:
    """Batches.

    Args:
        order: the images, batch after batch.
        cuts: where each batch begins and ends in it.
    """

    order: Tensor
    cuts: list[slice]


def _balanced(labels: Tensor, classes: int, per_class: int, generator: Generator) -> Tensor:
    """Again and again some images each of those classes that have most left, so that classes run out together."""
    mixed = torch.randperm(len(labels), generator=generator)
    left: dict[int, list[int]] = {}
    for row, label in zip(mixed.tolist(), labels[mixed].tolist(), strict=True):
        left.setdefault(label, []).append(row)
    order: list[int] = []
    while left:
        names = list(left)
        ties = torch.rand(len(names), generator=generator).tolist()
        ranked = sorted(zip(names, ties, strict=True), key=lambda pair: (-len(left[pair[0]]), pair[1]))
        for name, _ in ranked[:classes]:
            order += left[name][:per_class]
            left[name] = left[name][per_class:]
            if not left[name]:
                del left[name]
    return torch.tensor(order)


def _lack(labels: Tensor) -> str | None:
    """Which kind of pair a batch has none of."""
    classes = len(torch.unique(labels))
    return "negative" if classes == 1 else "positive" if classes == len(labels) else None
