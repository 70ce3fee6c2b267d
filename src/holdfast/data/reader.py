"""The contract of a dataset reader and the registry of the family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from holdfast.data.splits import thinned, with_validation
from holdfast.data.table import ImageTable
from holdfast.errors import RecipeError
from holdfast.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Reader(ABC):
    """Turns a dataset as it lies on disk into an `ImageTable`.

    A reader's fields are the keys of a recipe's `data` block; the first one of its own, if it is text, is what
    `name:PATH` fills in.

    Args:
        validation: share of the training classes to hold out for choosing a model; at least two classes, none when
            fewer than four would be left or the dataset brings its own `val` images.
        validation_seed: of that choice.
        train_fraction: share of the images of each training class to learn from, two at least; all other splits stay
            whole. A smaller share is part of a larger one.
        fraction_seed: of that choice.
        labels: which labels training learns from; with "coarse" the splits are still by fine class.
        skip_bad: leave out images that are missing or unreadable instead of stopping.
    """

    validation: float = 0.1
    validation_seed: int = 0
    train_fraction: float = 1.0
    fraction_seed: int = 0
    labels: Literal["fine", "coarse"] = "fine"
    skip_bad: bool = False

    def __post_init__(self) -> None:
        share("validation", self.validation, below=1.0)
        if not 0 < self.train_fraction <= 1:
            raise RecipeError(
                f"data.train_fraction is a share of each class's images, above 0 and at most 1; got "
                f"{self.train_fraction:g}"
            )

    @abstractmethod
    def read(self) -> ImageTable:
        """The dataset with its own splits."""

    def table(self) -> ImageTable:
        """The dataset with its validation split, and as much of its training images as is asked for."""
        table = self.read()
        table.labels_for(self.labels)  # refuses coarse labels where there are none
        table = with_validation(table, self.validation, self.validation_seed)
        return thinned(table, self.train_fraction, self.fraction_seed)


def share(field: str, value: float, below: float | None = None) -> None:
    """Refuse a share of classes outside [0, 1], or not under `below`."""
    if not 0 <= value <= 1 or (below is not None and value >= below):
        limit = "0 to 1" if below is None else f"0 to under {below:g}"
        raise RecipeError(f"data.{field} is a share of the classes, {limit}; got {value:g}")


registry: Registry[Reader] = Registry("dataset", Reader, "holdfast.data.readers")
register = registry.register
