"""Cars196."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.data.matlab import read_matlab
from holdfast.data.readers.base import TreeReader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree
from holdfast.errors import DataError, described

TRAINING_CLASSES = 98
NUMBERED = re.compile(r"(\d{3})\..+")
"""A class folder that says the model's number: `099.Dodge_Caliber`."""


@register("cars")
@dataclass(frozen=True, kw_only=True)
class Cars(TreeReader):
    """16,185 photographs of 196 car models; models 1-98 train, 99-196 test.

    Args:
        root: folder with `cars_annos.mat` and `car_ims`, or with one folder of images per model, be it on disk or in
            `cars*.zip` (also inside `train` and `test`, which are then put together). Such folders count by their
            number, `001.NAME`, or, where one has none, in alphabetical order.

    Relations: `cub` and `sop` are its usual companions.
    Reference: Krause et al., 2013; the split: Song et al., CVPR 2016.
    """

    layout: ClassVar[str] = "Cars196 as published (cars_annos.mat, car_ims/), or a folder per model, also in cars*.zip"
    archives: ClassVar[tuple[str, ...]] = ("cars*.zip",)

    def read_tree(self, tree: Tree) -> ImageTable:
        """All photographs."""
        annotations = tree.find("cars_annos.mat")
        names, numbers, models = self._annotated(tree, annotations) if annotations else _class_folders(tree)
        if not names:
            raise self.refused("does not hold Cars196")
        splits = ["train" if number <= TRAINING_CLASSES else "test" for number in numbers]
        return self.table_of(tree, names, classes=models, splits=splits, within="")

    def _annotated(self, tree: Tree, annotations: str) -> tuple[list[str], list[int], list[str]]:
        """Image, class number and model from the published file."""
        content = tree.content(annotations)
        prefix = annotations.removesuffix("cars_annos.mat").removesuffix("devkit/")
        try:
            found = read_matlab(content, wanted=("relative_im_path", "class"))
            rows, titles = found["annotations"], found["class_names"]
            names = [prefix + row["relative_im_path"] for row in rows]
            numbers = [int(number) for row in rows for (number,) in [row["class"]]]
            if not all(1 <= number <= len(titles) for number in numbers):
                raise ValueError("a class without a name")
            models = [str(titles[number - 1]) for number in numbers]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            where = Path(self.root) / annotations
            raise DataError(f"'{where}' is not Cars196's list ({described(error)}); fetch it again") from error
        self.require(tree, names)
        return names, numbers, models


def _class_folders(tree: Tree) -> tuple[list[str], list[int], list[str]]:
    """Image, class number and model from the folder an image lies in."""
    names = sorted((name for name in tree.images() if "/" in name), key=lambda name: name.split("/")[-2:])
    models = [name.split("/")[-2] for name in names]
    said = {model: NUMBERED.fullmatch(model) for model in sorted(set(models))}
    known = {model: int(found[1]) for model, found in said.items() if found}
    number = known if len(known) == len(said) else {model: i + 1 for i, model in enumerate(said)}
    return names, [number[model] for model in models], models
