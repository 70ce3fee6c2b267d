"""The contract of a dataset reader, the registry of the family, and datasets by name: `glyphs`, `folder:DIR`."""

from __future__ import annotations

import dataclasses
import os
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from holdfast.config import instantiate
from holdfast.data.formats import needed
from holdfast.data.splits import thinned, with_validation
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree, TreeSource, leads_out, open_tree, refuse_missing
from holdfast.errors import DataError, RecipeError, plural
from holdfast.registry import Registry
from holdfast.yaml_files import NotYaml, read_yaml


@dataclass(frozen=True, kw_only=True)
class Reader(ABC):
    """Turns a dataset as it lies on disk into an `ImageTable`.

    A reader's fields are the keys of a recipe's `data` block; the first one of its own, if it is text, is what
    `name:PATH` fills in.

    Args:
        validation: fraction of the training classes to hold out for choosing a model; at least two classes and no more
            than leave four; none where both cannot be, or where the dataset brings its own `val` images.
        validation_seed: of that choice.
        train_fraction: fraction of the images of each training class to learn from, two at least; all other splits stay
            whole. A smaller fraction is part of a larger one.
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
        check_fraction("validation", self.validation, below=1.0)
        if not 0 < self.train_fraction <= 1:
            raise RecipeError(f"data.train_fraction must be above 0 and at most 1, got {self.train_fraction:g}")

    @abstractmethod
    def read(self) -> ImageTable:
        """The dataset with its own splits."""

    def table(self) -> ImageTable:
        """The dataset with its validation split, and as much of its training images as is asked for."""
        table = self.read()
        table.labels_for(self.labels)  # refuses coarse labels where there are none
        table = with_validation(table, self.validation, self.validation_seed)
        return thinned(table, self.train_fraction, self.fraction_seed)


@dataclass(frozen=True, kw_only=True)
class TreeReader(Reader):
    """A dataset of image files in a folder or in zip archives.

    Args:
        root: the folder or zip file.
        follow_links: read what links lead to outside of the folder.
    """

    root: str
    follow_links: bool = False
    layout: ClassVar[str]
    """What is expected there, for messages."""
    archives: ClassVar[tuple[str, ...]] = ()
    """Patterns of zip files; those of the first that a folder holds any of stand for its content."""

    @abstractmethod
    def read_tree(self, tree: Tree) -> ImageTable:
        """The dataset out of the files under its root; see `table_of`."""

    def read(self) -> ImageTable:
        """The dataset with its own splits."""
        tree = open_tree(self.root, self.layout, self.archives, self.follow_links)
        if not self.skip_bad:
            tree.refuse_unnamed()
        try:
            return self.read_tree(tree)
        except DataError as error:
            hint = self._hint(tree)
            if not hint:
                raise
            raise DataError(f"{error}; {hint}") from error

    @property
    def _own_name(self) -> str:
        """What the reader is called in recipes."""
        return next((name for name in registry.names() if registry.get(name) is type(self)), type(self).__name__)

    def _hint(self, tree: Tree) -> str:
        """What may be why images were not found."""
        found = [needed(tree.names)]
        if tree.links:
            follow = f"--data '{{name: {self._own_name}, root: {self.root}, follow_links: true}}'"
            found.append(f"{plural(len(tree.links), 'link')} out of it may be meant: {follow} follows links")
        return "; ".join(filter(None, found))

    def table_of(
        self, tree: Tree, names: Sequence[str], ids: Sequence[str] | None = None, within: str | None = None, **told: Any
    ) -> ImageTable:
        """The table of some images of a tree.

        Args:
            tree: the files.
            names: those that are images of the dataset.
            ids: a name of each in tables; its file's when left out.
            within: a published dataset brings other files, too; only images below this folder count as skipped then.
            told: what each image shows: `classes`, `splits` and perhaps `coarse`, as in `ImageTable.of`.
        """
        skipped = tree.skipped_files(names, within)
        return ImageTable.of(
            TreeSource(tree, names), ids=ids or names, name=self._own_name, skipped_files=skipped, **told
        )

    def require(self, tree: Tree, names: Sequence[str]) -> None:
        """Refuse a list that names files outside the root or, unless bad images are skipped, missing ones."""
        there = set(tree.names)
        missing = [name for name in names if name not in there]
        outside = next((name for name in missing if leads_out(name)), None)
        if outside is not None:
            raise DataError(f"a list in '{self.root}' names '{outside}', which lies outside; fetch it again")
        if not self.skip_bad:
            refuse_missing(missing, self.root)

    def refused(self, why: str) -> DataError:
        """One line on a root that does not hold the dataset."""
        return DataError(f"'{self.root}' {why}; expected {self.layout}")


def check_fraction(field: str, value: float, below: float | None = None) -> None:
    """Refuse a fraction of the classes outside [0, 1], or not under `below`."""
    if not 0 <= value <= 1 or (below is not None and value >= below):
        limit = "0 to 1" if below is None else f"0 to under {below:g}"
        raise RecipeError(f"data.{field} is a fraction of the classes, {limit}; got {value:g}")


registry: Registry[Reader] = Registry("dataset", Reader, "holdfast.data.readers")
register = registry.register


def parse(spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """The plain block of a dataset: `"cub:DIR"` becomes `{"name": "cub", "root": "DIR"}`; so does YAML in braces."""
    if not isinstance(spec, str):
        return dict(spec)
    if spec.startswith("{"):
        return _parse_braces(spec)
    name, colon, path = spec.partition(":")
    if not colon and name not in registry.names() and os.path.exists(name):  # noqa: PTH110 - Path raises where a name is too long
        kind = "csv" if Path(name).suffix == ".csv" else "folder"
        raise DataError(f"'{name}' is a folder or file, not a dataset; write {kind}:{name}")
    field = _path_field(name)
    if field is None and colon:
        raise DataError(f"dataset '{name}' takes no path; write just '{name}'")
    if field is not None and not path:
        raise DataError(f"dataset '{name}' needs a path; write '{name}:PATH'")
    return {"name": name} if field is None else {"name": name, field: path}


def _parse_braces(spec: str) -> dict[str, Any]:
    """The block that is written out as `{name: folder, root: DIR, test: 1}`."""
    try:
        found = read_yaml(spec)
    except NotYaml as error:
        raise DataError(f"'{spec}' is not valid YAML ({error})") from error
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise DataError(f"'{spec}' names no dataset; write {{name: folder, root: DIR}}, with other settings behind")
    return found


def spellings() -> list[str]:
    """Every dataset as it is written on the command line: `csv:FILE`, `cub:DIR`, `digits`, ..."""
    words = {None: "", "file": ":FILE"}
    return [name + words.get(_path_field(name), ":DIR") for name in registry.names()]


def _path_field(name: str) -> str | None:
    """The field that `name:PATH` fills in: the reader's first one of its own, if it is text."""
    reader = typing.cast(type[Reader], registry.get(name))
    common = {field.name for field in dataclasses.fields(Reader)}
    own = next((field.name for field in dataclasses.fields(reader) if field.name not in common), None)
    return own if own is not None and typing.get_type_hints(reader)[own] is str else None


def load(spec: str | Mapping[str, Any], **overrides: Any) -> ImageTable:
    """The table of a dataset.

    Args:
        spec: a name (`"glyphs"`), a name and a path (`"folder:DIR"`) or a block (`{"name": "cub", "root": DIR}`).
        overrides: further fields of the reader, such as `validation=0`.
    """
    block = {**parse(spec), **overrides}
    reader: Reader = instantiate(Reader, block, where="dataset")
    return reader.table()


def from_folder(root: str | Path, **fields: Any) -> ImageTable:
    """The table of a folder or zip file with one sub-folder per class; `fields` as in the reader `folder`."""
    return load({"name": "folder", "root": str(root)}, **fields)


def from_csv(file: str | Path, **fields: Any) -> ImageTable:
    """The table that a CSV file lists; `fields` as in the reader `csv`."""
    return load({"name": "csv", "file": str(file)}, **fields)
