"""Cars196."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.data.reader import Reader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree, open_tree, require
from holdfast.errors import DataError

LAYOUT = "Cars196 as published (cars_annos.mat beside car_ims/), or one folder of images per model"
TRAINING_CLASSES = 98


@register("cars")
@dataclass(frozen=True, kw_only=True)
class Cars(Reader):
    """16,185 photographs of 196 car models; models 1-98 train, 99-196 test.

    Args:
        root: folder with `cars_annos.mat` and `car_ims`, or with one folder of images per model (also inside `train`
            and `test`, which are then put together); such folders count in alphabetical order.

    Requirements: scipy for `cars_annos.mat`.
    Relations: `cub` and `sop` are its usual companions.
    Reference: Krause et al., 2013; the split: Song et al., CVPR 2016.
    """

    root: str

    def read(self) -> ImageTable:
        """All photographs."""
        tree = open_tree(self.root, LAYOUT)
        annotations = tree.find("cars_annos.mat")
        names, numbers, models = self._annotated(tree, annotations) if annotations else _class_folders(tree)
        if not names:
            raise DataError(f"'{self.root}' does not hold Cars196; expected {LAYOUT}")
        return ImageTable.of(
            tree.source(names),
            classes=models,
            splits=["train" if number <= TRAINING_CLASSES else "test" for number in numbers],
            ids=names,
            name="cars",
        )

    def _annotated(self, tree: Tree, annotations: str) -> tuple[list[str], list[int], list[str]]:
        """Image, class number and model from the published file."""
        try:
            from scipy.io import loadmat  # type: ignore[import-untyped]
        except ImportError as error:
            raise DataError("reading cars_annos.mat needs scipy; install scipy") from error
        try:
            content = loadmat(io.BytesIO(tree.content(annotations)), squeeze_me=True)
            rows = np.atleast_1d(content["annotations"])
            titles = [str(title) for title in np.atleast_1d(content["class_names"])]
            prefix = annotations.removesuffix("cars_annos.mat").removesuffix("devkit/")
            names = [prefix + str(row["relative_im_path"]) for row in rows]
            numbers = [int(row["class"]) for row in rows]
            models = [titles[number - 1] for number in numbers]
        except (ValueError, KeyError, IndexError, TypeError, NotImplementedError) as error:
            raise DataError(
                f"'{Path(self.root) / annotations}' is not Cars196's list ({error}); fetch it again"
            ) from error
        if not self.skip_bad:
            require(tree, names, self.root)
        return names, numbers, models


def _class_folders(tree: Tree) -> tuple[list[str], list[int], list[str]]:
    """Image, class number and model from the folder an image lies in."""
    names = [name for name in tree.images() if "/" in name]
    models = [name.split("/")[-2] for name in names]
    number = {model: i + 1 for i, model in enumerate(sorted(set(models)))}
    return names, [number[model] for model in models], models
