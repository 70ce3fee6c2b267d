"""Recipes as people write them: shipped names, YAML files, and one recipe built on another."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from holdfast.data import parse
from holdfast.errors import RecipeError, shown, unknown
from holdfast.files import kind_of
from holdfast.yaml_files import NotYaml, read_yaml


@functools.cache
def shipped() -> list[str]:
    """Names of the recipes that come with the package."""
    folder = resources.files("holdfast.recipes")
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class About:
    """What the head of a shipped recipe says of it; no part of the recipe itself, and not inherited by others.

    Args:
        summary: the first comment line.
        kind: `paper` holds a paper's own setting, `tuned` differs from one where we know better, `pocket` is for small
            data on a CPU, `ours` is of no paper.
        paper: short name of the paper; of a tuned recipe, that of the recipe it was made of.
        where: tables and figures.
        data: datasets on which this is the paper's setting.
        tuned: the recipe it was made of.
    """

    summary: str
    kind: Literal["paper", "tuned", "pocket", "ours"]
    paper: str = ""
    where: str = ""
    data: tuple[str, ...] = ()
    tuned: str = ""

    @property
    def origin(self) -> str:
        """`ADML, Tables 2 to 5 (cub, cars)`, or what else it is."""
        if self.kind == "tuned":
            return f"tuned from {self.tuned}"
        return f"{self.paper}, {self.where} ({', '.join(self.data)})" if self.kind == "paper" else self.kind


PAPER_LINE = re.compile(r"^# paper: ([^,;\n]+), ([^;\n]+); data: (.+)$", re.MULTILINE)
TUNED_LINE = re.compile(r"^# tuned: (\S+)$", re.MULTILINE)
"""In the comments at the head of a shipped recipe: `# paper: ADML, Tables 2 to 5; data: cub, cars`, `# tuned: NAME`."""


@functools.cache
def about(name: str) -> About:
    """What the head of a shipped recipe says."""
    text = _shipped_text(name)
    first = text.partition("\n")[0].removeprefix("#").strip()
    if found := PAPER_LINE.search(text):
        data = tuple(word.strip() for word in found[3].split(","))
        return About(summary=first, kind="paper", paper=found[1], where=found[2], data=data)
    if tuned := TUNED_LINE.search(text):
        return dataclasses.replace(about(tuned[1]), summary=first, kind="tuned", tuned=tuned[1])
    small = name == "pocket" or name.endswith("-pocket") or name.startswith("demo-")
    return About(summary=first, kind="pocket" if small else "ours")


PAPERS = ("ADML", "GS", "EPS", "HM", "MDProp", "CA-TRIDE")
"""Short names of the papers, in the order of lists."""


def entries() -> dict[str, str]:
    """Where each shipped recipe is from, and a line on it: paper by paper, then ours and small ones."""

    def place(name: str) -> tuple[int, int, str]:
        known = about(name)
        paper = PAPERS.index(known.paper) if known.paper in PAPERS else len(PAPERS)
        return {"ours": 1, "pocket": 2}.get(known.kind, 0), paper, name

    return {name: f"[{about(name).origin}] {about(name).summary}" for name in sorted(shipped(), key=place)}


def read_plain(recipe: str | Path | dict[str, Any]) -> dict[str, Any]:
    """Plain data of a shipped recipe, a YAML file or a dictionary (copied), on top of what its `base` names.

    `base` is the name of a shipped recipe or the path of a file, relative to the file that names it (or, in a
    dictionary, to the current folder). What is written beside it is laid over that recipe, see `overlay`.
    """
    if isinstance(recipe, dict):
        try:
            own = copy.deepcopy(recipe)
        except RecursionError as error:
            raise RecipeError("this recipe is nested too deep; no block needs more than a few levels") from error
        return _on_its_base(own, Path(), ("this recipe",))
    return _read(str(recipe), Path(), ())


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """The keys of both; where both have one, `above` wins.

    Two blocks merge key by key unless `above` names another method: its arguments are then its own. Everything else,
    a bare name and a list too, replaces.
    """
    return below | {key: _laid(below.get(key), value) for key, value in above.items()}


def _laid(below: Any, above: Any) -> Any:
    if not isinstance(above, dict):
        return above
    if isinstance(below, str):
        below = {"name": below}
    if not isinstance(below, dict) or above.get("name", below.get("name")) != below.get("name"):
        return above
    return overlay(below, above)


def _read(recipe: str, folder: Path | None, above: tuple[str, ...]) -> dict[str, Any]:
    """A recipe by name or path.

    Args:
        recipe: as written.
        folder: what a path is relative to; None inside shipped recipes, which name each other only.
        above: the recipes that are based on this one.
    """
    where = "base: " if above else ""
    file = None if folder is None else folder / recipe
    kind = None if file is None else kind_of(file)
    if file is not None and (file.suffix in (".yaml", ".yml") or (kind and recipe not in shipped())):
        if kind != "file":
            raise RecipeError(
                f"{where}no recipe at {file}; `holdfast list recipes` shows those that ship with holdfast"
            )
        plain, key, folder = _parsed(_text(file), recipe), str(file.resolve()), file.parent
    elif recipe in shipped():
        plain, key, folder = copy.deepcopy(_shipped_plain(recipe)), recipe, None
    else:
        raise RecipeError(f"{where}{unknown('recipe', recipe, shipped())} (or give the path of a YAML file)")
    if key in above:
        circle = " on ".join(Path(k).name for k in (*above[above.index(key) :], key))
        raise RecipeError(f"base: recipes build on each other in a circle ({circle}); take the base out of one")
    return _on_its_base(plain, folder, (*above, key))


def _on_its_base(plain: dict[str, Any], folder: Path | None, above: tuple[str, ...]) -> dict[str, Any]:
    """Lay a recipe over the one it names, and that over its own."""
    if "base" not in plain:
        return plain
    base = plain.pop("base")
    if not isinstance(base, str):
        raise RecipeError(f"base: expected the name of a recipe or the path of a YAML file, got {shown(base)}")
    below = _read(base, folder, above)
    if isinstance(below.get("data"), str) and isinstance(plain.get("data"), dict):
        below["data"] = parse(below["data"])  # a path in it becomes a key, which stays when others are added
    return overlay(below, plain)


def _parsed(text: str, recipe: str) -> dict[str, Any]:
    try:
        plain = read_yaml(text)
    except NotYaml as error:
        raise RecipeError(f"{recipe} is not valid YAML: {error}") from error
    if not isinstance(plain, dict):
        raise RecipeError(f"{recipe} must hold keys such as data, model and loss; see `holdfast list recipes`")
    return plain


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{file} is no text in UTF-8, so it is no recipe") from error


@functools.cache
def _shipped_plain(name: str) -> dict[str, Any]:
    """Kept, because studies ask for the same few recipes hundreds of times."""
    return _parsed(_shipped_text(name), name)


def _shipped_text(name: str) -> str:
    return resources.files("holdfast.recipes").joinpath(f"{name}.yaml").read_text("utf-8")
