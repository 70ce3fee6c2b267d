from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import losses, metrics, mining
from holdfast.config import builder
from holdfast.errors import RecipeError, unknown
from holdfast.registry import Registry


class Shape:
    """Anything with an area."""


def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Registry[Shape]:
    """A package on disk with one file per method, as the families of holdfast have."""
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text(
        "from holdfast.registry import Registry\n\n\n"
        "class Base: ...\n\n\n"
        f"registry = Registry('shape', Base, {name!r})\n"
    )
    (package / "square.py").write_text(
        f"from {name} import Base, registry\n\n\n"
        "@registry.register('square')\n"
        "class Square(Base):\n"
        '    """Four equal sides.\n\n    More words.\n    """\n\n'
        "    def __init__(self, side: float = 1.0) -> None:\n"
        "        self.side = side\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[Shape] = __import__(name).registry
    return registry


def test_one_file_is_enough_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = family(tmp_path, monkeypatch, "shapes_joined")
    (tmp_path / "shapes_joined" / "circle.py").write_text(
        "from shapes_joined import Base, registry\n\n\n"
        "@registry.register('unit-circle')\n"
        "class Circle(Base):\n"
        '    """Round."""\n'
    )
    assert registry.names() == ["square", "unit-circle"]
    assert registry.summary("square") == "Four equal sides."
    assert type(builder(registry)("unit-circle")).__name__ == "Circle"


def test_build_takes_arguments_as_a_recipe_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = family(tmp_path, monkeypatch, "shapes_built")
    assert builder(registry)("square").side == 1.0  # type: ignore[attr-defined]
    assert builder(registry)("square", side="8/255").side == 8 / 255  # type: ignore[attr-defined]
    with pytest.raises(RecipeError, match="shape: unknown key 'sides'; did you mean 'side'"):
        builder(registry)("square", sides=2)
    with pytest.raises(RecipeError, match="shape: unknown shape 'sqare'; did you mean 'square'"):
        builder(registry)("sqare")


def test_a_registry_is_found_by_its_base_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = family(tmp_path, monkeypatch, "shapes_found")
    assert Registry.of(registry.base) is registry
    assert Registry.of(Shape) is None
    assert Registry.of("square") is None


def test_a_name_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = family(tmp_path, monkeypatch, "shapes_twice")
    registry.names()
    with pytest.raises(ValueError, match="'square' is registered twice"):
        registry.register("square")(Shape)


def test_a_cell_of_a_notebook_may_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = family(tmp_path, monkeypatch, "shapes_again")

    def run_cell() -> type[Shape]:
        class Star(Shape):
            """Written anew."""

        return registry.register("star")(Star)

    first, second = run_cell(), run_cell()
    assert first is not second
    assert registry.get("star") is second


def test_messages_name_the_nearest_or_all_valid_words() -> None:
    near = "unknown miner 'semi-hard'; did you mean 'semihard'?"
    assert unknown("miner", "semi-hard", ["semihard", "random"]) == f"{near} (valid: random, semihard)"
    assert unknown("miner", "semi-hard", ["semihard", *"abcdefgh"]) == near, "a long list would bury the answer"
    assert unknown("miner", "xyz", ["b", "a"]) == "unknown miner 'xyz'; valid: a, b"
    assert unknown("key", "xyz", []) == "unknown key 'xyz'; none are accepted here"


@pytest.mark.parametrize("family", [losses, mining, metrics])
def test_names_of_every_family_are_lower_case_with_hyphens(family: object) -> None:
    names = family.names()  # type: ignore[attr-defined]
    assert names
    for name in names:
        assert name == name.lower().replace("_", "-").replace(" ", "-")
