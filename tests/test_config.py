from __future__ import annotations

import copy
import dataclasses
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config import Block, instantiate, number, override, resolve
from holdfast.errors import RecipeError
from holdfast.registry import Registry


class Part:
    """Base class of a small family that exercises every kind of argument."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


registry: Registry[Part] = Registry("part", Part, __name__)


@registry.register("plain")
class Plain(Part):
    """Scalars only."""

    def __init__(
        self,
        rate: float = 0.5,
        count: int = 3,
        on: bool = True,
        mode: Literal["fast", "slow"] = "fast",
        note: str = "",
    ) -> None:
        if rate < 0:
            raise ValueError("rate must not be negative")
        self.rate, self.count, self.on, self.mode, self.note = rate, count, on, mode, note


@registry.register("wrap")
class Wrap(Part):
    """A block inside a block."""

    def __init__(
        self, inner: Part | None = "plain", limit: float | None = None, more: list[Part] | None = None
    ) -> None:  # type: ignore[assignment]
        self.inner, self.limit, self.more = inner, limit, more


@registry.register("proxy")
class Proxy(Part):
    """Knows what only training can tell."""

    def __init__(self, classes: int | None = None, dim: int | None = None, scale: float = 1.0) -> None:
        self.classes, self.dim, self.scale = classes, dim, scale


@registry.register("strict")
class Strict(Part):
    """Has no default."""

    def __init__(self, size: int) -> None:
        self.size = size


@dataclasses.dataclass
class Batch:
    """A nested dataclass."""

    classes: int = 56
    per_class: int = 2


@dataclasses.dataclass
class Recipe:
    """The top level."""

    part: Block[Part]
    batch: Batch = dataclasses.field(default_factory=Batch)
    ks: tuple[int, ...] = (1, 2)
    betas: tuple[float, float] = (0.9, 0.999)
    limits: dict[str, float] = dataclasses.field(default_factory=dict)
    size: int | Literal["auto"] = "auto"
    seed: int = 0


PLAIN = {"name": "plain", "rate": 0.5, "count": 3, "on": True, "mode": "fast", "note": ""}


def test_defaults_are_written_out() -> None:
    assert resolve(Part, "plain") == PLAIN
    assert resolve(Part, {"name": "wrap"}) == {"name": "wrap", "inner": PLAIN, "limit": None, "more": None}
    assert resolve(Recipe, {"part": "plain"}) == {
        "part": PLAIN,
        "batch": {"classes": 56, "per_class": 2},
        "ks": (1, 2),
        "betas": (0.9, 0.999),
        "limits": {},
        "size": "auto",
        "seed": 0,
    }


def test_a_bare_name_is_a_block_with_defaults() -> None:
    assert instantiate(Part, "plain") == Plain() == instantiate(Part, {"name": "plain"})
    assert instantiate(Part, "wrap") == Wrap(Plain())


def test_nested_blocks_are_built() -> None:
    plain = {"name": "wrap", "inner": {"name": "wrap", "inner": None}, "more": ["plain", {"name": "plain", "count": 9}]}
    assert instantiate(Part, plain) == Wrap(Wrap(None), more=[Plain(), Plain(count=9)])


@pytest.mark.parametrize(
    ("text", "value"), [("8/255", 8 / 255), ("0.01", 0.01), ("1e-5", 1e-5), (" 3 / 4 ", 0.75), ("-2", -2.0)]
)
def test_numbers_as_people_write_them(text: str, value: float) -> None:
    assert number(text) == value
    assert resolve(float, text) == value


@pytest.mark.parametrize(
    "value",
    ["8/0", "eight", "1/2/3", "nan", "inf", "", float("nan"), float("inf"), 10**400, True],
    ids=lambda value: str(value)[:8],
)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(RecipeError, match=r"lr: expected a number"):
        resolve(float, value, "lr")


def test_whole_numbers_become_floats_where_a_float_is_wanted() -> None:
    resolved = resolve(Part, {"name": "plain", "rate": 1})
    assert isinstance(resolved["rate"], float)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Part, {"name": "plain", "rat": 1}, "part: unknown key 'rat'; did you mean 'rate'?"),
        (Part, {"name": "plian"}, "part: unknown part 'plian'; did you mean 'plain'?"),
        (Part, {"rate": 1}, "part: expected a part name or a block with 'name', got {'rate': 1}"),
        (Part, 3, "part: expected a part name or a block with 'name', got 3"),
        (Part, {"name": "plain", "rate": "fast"}, "part.rate: expected a number, got 'fast'"),
        (Part, {"name": "plain", "count": 1.5}, "part.count: expected a whole number, got 1.5"),
        (Part, {"name": "plain", "count": True}, "part.count: expected a whole number, got True"),
        (Part, {"name": "plain", "on": "yes"}, "part.on: expected true or false, got 'yes'"),
        (Part, {"name": "plain", "on": 1}, "part.on: expected true or false, got 1"),
        (Part, {"name": "plain", "note": 3}, "part.note: expected text, got 3"),
        (Part, {"name": "plain", "mode": "fats"}, "part.mode: unknown value 'fats'; did you mean 'fast'?"),
        (
            Part,
            {"name": "wrap", "inner": {"name": "plain", "cuont": 1}},
            "part.inner: unknown key 'cuont'; did you mean",
        ),
        (Part, {"name": "wrap", "more": ["plain", "plian"]}, "part.more[1]: unknown part 'plian'"),
        (Part, {"name": "wrap", "more": "plain"}, "part.more: expected a list, got 'plain'"),
        (Part, "strict", "part: 'size' is required"),
        (Recipe, {}, "'part' is required"),
        (Recipe, {"part": "plain", "sede": 1}, "unknown key 'sede'; did you mean 'seed'?"),
        (
            Recipe,
            {"part": "plain", "batch": {"per_clas": 2}},
            "batch: unknown key 'per_clas'; did you mean 'per_class'?",
        ),
        (Recipe, {"part": "plain", "batch": 12}, "batch: expected a block of keys, got 12"),
        (Recipe, {"part": {"name": "plain", "count": "x"}}, "part.count: expected a whole number, got 'x'"),
        (Recipe, {"part": "plain", "betas": [0.9]}, "betas: expected 2 values, got 1"),
        (Recipe, {"part": "plain", "ks": [1, "two"]}, "ks[1]: expected a whole number, got 'two'"),
        (Recipe, {"part": "plain", "limits": {"a": "b"}}, "limits.a: expected a number, got 'b'"),
        (Recipe, {"part": "plain", "size": "big"}, "size: "),
        (Recipe, {"part": "plain", "seed": None}, "seed: expected a whole number, got None"),
        (Recipe, "plain", "recipe: expected a block of keys, got 'plain'"),
    ],
)
@pytest.mark.parametrize("act", [resolve, instantiate])
def test_mistakes_are_refused_with_path_and_nearest_spelling(act: Any, kind: Any, value: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        act(kind, value)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_impossible_values_found_by_the_method_itself_name_the_block() -> None:
    with pytest.raises(RecipeError, match=r"part\.inner: rate must not be negative"):
        instantiate(Part, {"name": "wrap", "inner": {"name": "plain", "rate": -1}})


def test_unions_keep_what_fits() -> None:
    assert resolve(Recipe, {"part": "plain", "size": 32})["size"] == 32
    assert resolve(Recipe, {"part": "plain", "size": "auto"})["size"] == "auto"
    assert resolve(Part, {"name": "wrap", "limit": "1/4"})["limit"] == 0.25
    assert resolve(int | float, "1/4") == 0.25
    assert resolve(int | float, 2) == 2


class Other:
    """Base class of a second family."""


others: Registry[Other] = Registry("other", Other, __name__)


@others.register("plane")
class Plane(Other):
    """Its name is close to one of the first family."""

    def __init__(self, width: int = 1) -> None:
        self.width = width


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("plene", "size: unknown part or other 'plene'; did you mean 'plane'?"),
        ({"name": "stric"}, "size: unknown part or other 'stric'; did you mean 'strict'?"),
        ({"name": "plain", "rat": 1}, "size: unknown key 'rat'; did you mean 'rate'?"),
        ({"name": "plane", "widht": 1}, "size: unknown key 'widht'; did you mean 'width'?"),
        ("strict", "size: 'size' is required"),
        ([1], "size: expected a"),
    ],
)
@pytest.mark.parametrize("act", [resolve, instantiate])
def test_a_choice_between_families_is_explained_by_the_one_that_was_meant(act: Any, value: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        act(Part | Other | float, value, "size")
    assert str(caught.value).startswith(message)


def test_a_choice_between_families_keeps_what_fits() -> None:
    assert resolve(Part | Other | float, "plane") == {"name": "plane", "width": 1}
    assert resolve(Part | Other | float, "-1/10") == -0.1
    assert isinstance(instantiate(Part | Other | float, {"name": "plane", "width": 2}), Plane)
    assert instantiate(Part | Other | float, "plain") == Plain()


def test_built_objects_pass_through_but_cannot_be_written_down() -> None:
    part = Plain(count=1)
    assert instantiate(Part, part) is part
    assert instantiate(Part, {"name": "wrap", "inner": part}) == Wrap(part)
    with pytest.raises(RecipeError, match="a built part cannot be written into a recipe"):
        resolve(Part, part, "part")


def test_provided_arguments_are_left_to_training() -> None:
    assert resolve(Part, "proxy") == {"name": "proxy", "scale": 1.0}
    assert resolve(Part, {"name": "proxy", "dim": 8}) == {"name": "proxy", "dim": 8, "scale": 1.0}
    recipe = instantiate(Recipe, {"part": {"name": "wrap", "inner": {"name": "proxy", "dim": 8}}})
    assert recipe.part.name == "wrap"
    assert recipe.part.build(classes=100, dim=512) == Wrap(Proxy(classes=100, dim=8))
    assert recipe.part.build() == Wrap(Proxy(dim=8))
    assert instantiate(Recipe, {"part": "plain"}).part.build(classes=100) == Plain()


def test_setting_one_key_by_its_path() -> None:
    plain: dict[str, Any] = {"loss": "triplet", "regime": {"name": "hm", "steps": 8}, "seed": 0}
    override(plain, "loss.margin", 0.1)
    override(plain, "regime.budget.eps", "8/255")
    override(plain, "seed", 3)
    assert plain == {
        "loss": {"name": "triplet", "margin": 0.1},
        "regime": {"name": "hm", "steps": 8, "budget": {"eps": "8/255"}},
        "seed": 3,
    }
    override(plain, "regime.name", "hm")
    assert plain["regime"]["steps"] == 8
    override(plain, "regime.name", "standard")
    assert plain["regime"] == {"name": "standard"}
    with pytest.raises(RecipeError, match="'seed' is not a block"):
        override(plain, "seed.deep", 1)


def test_setting_a_key_inside_a_list() -> None:
    plain: dict[str, Any] = {"parts": [{"name": "a", "budget": {"eps": 1}}, "plain"], "ks": [1, 2]}
    override(plain, "parts.0.budget.eps", 0.05)
    override(plain, "parts.1.count", 7)
    override(plain, "ks.1", 4)
    assert plain == {"parts": [{"name": "a", "budget": {"eps": 0.05}}, {"name": "plain", "count": 7}], "ks": [1, 4]}


@pytest.mark.parametrize(
    "path", ["parts.2.rate", "parts.-1.rate", "parts.first.rate", "parts.2", "parts.", "parts.name"]
)
def test_setting_an_item_that_a_list_does_not_have(path: str) -> None:
    plain = {"parts": [{"name": "a"}, {"name": "b"}]}
    with pytest.raises(RecipeError, match=r"there is no item '.*'; the list has 2 items, counted from 0") as caught:
        override(plain, path, 1)
    assert str(caught.value).startswith(path)
    assert plain == {"parts": [{"name": "a"}, {"name": "b"}]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reach:
    """Has no default of its own for one key, and others than its users for the rest."""

    far: float
    steps: int = 10


@registry.register("reaching")
class Reaching(Part):
    """A block whose default is an object."""

    def __init__(self, reach: Reach = Reach(far=0.5, steps=1)) -> None:  # noqa: B008
        self.reach = reach


@dataclasses.dataclass
class Outer:
    """The same as a field, made by a factory."""

    reach: Reach = dataclasses.field(default_factory=lambda: Reach(far=0.5, steps=1))


@pytest.mark.parametrize(
    ("given", "far", "steps"),
    [({}, 0.5, 1), ({"steps": 4}, 0.5, 4), ({"far": "1/4"}, 0.25, 10), ({"far": 2, "steps": 3}, 2.0, 3)],
)
def test_a_block_that_lacks_something_is_laid_over_its_default(given: dict[str, Any], far: float, steps: int) -> None:
    block = {"name": "reaching", "reach": given}
    assert resolve(Part, block) == {"name": "reaching", "reach": {"far": far, "steps": steps}}
    assert instantiate(Part, block) == Reaching(Reach(far=far, steps=steps))
    assert resolve(Outer, {"reach": given}) == {"reach": {"far": far, "steps": steps}}
    assert instantiate(Outer, {"reach": given}) == Outer(Reach(far=far, steps=steps))


@pytest.mark.parametrize("act", [resolve, instantiate])
def test_a_mistake_in_a_block_given_in_part(act: Any) -> None:
    with pytest.raises(RecipeError, match=r"part\.reach: unknown key 'fra'; did you mean 'far'"):
        act(Part, {"name": "reaching", "reach": {"fra": 1}})


FLOATS = st.floats(0, 1e6) | st.integers(0, 99) | st.builds("{}/{}".format, st.integers(0, 99), st.integers(1, 255))


def optional(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


def named(name: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.just(name) | optional(**keys).map(lambda given: {"name": name, **given})


WHOLE = st.integers(-(2**63) + 1, 2**63 - 1)
LEAVES = named(
    "plain", rate=FLOATS, count=WHOLE, on=st.booleans(), mode=st.sampled_from(["fast", "slow"]), note=st.text()
) | named("proxy", classes=st.none() | st.integers(1, 9), scale=FLOATS)
PARTS = st.recursive(
    LEAVES,
    lambda parts: named("wrap", inner=st.none() | parts, limit=st.none() | FLOATS, more=st.lists(parts, max_size=2)),
    max_leaves=4,
)
RECIPES = st.fixed_dictionaries(
    {"part": PARTS},
    optional={
        "batch": st.none() | optional(classes=WHOLE, per_class=WHOLE),
        "ks": st.lists(WHOLE),
        "betas": st.tuples(FLOATS, FLOATS) | st.lists(FLOATS, min_size=2, max_size=2),
        "limits": st.dictionaries(st.text(), FLOATS),
        "size": WHOLE | st.just("auto"),
    },
)


@settings(max_examples=150, deadline=None)
@given(raw=RECIPES)
def test_resolving_again_changes_nothing_and_builds_the_same(raw: dict[str, Any]) -> None:
    before = copy.deepcopy(raw)
    resolved = resolve(Recipe, raw)
    assert resolve(Recipe, resolved) == resolved
    from_raw, from_resolved = instantiate(Recipe, raw), instantiate(Recipe, resolved)
    assert from_raw == from_resolved
    assert resolve(Recipe, from_raw) == resolved
    assert (
        from_raw.part.build(dim=7)
        == from_resolved.part.build(dim=7)
        == instantiate(Part, raw["part"], provided={"dim": 7})
    )
    assert raw == before


def test_the_brief_form_does_not_change_when_a_class_gains_an_argument() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Before:
        width: int = 3
        depth: int = 2

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class After(Before):
        height: int = 5

    given = {"depth": 4}
    assert resolve(Before, given, brief=True) == resolve(After, given, brief=True) == {"depth": 4}
    assert resolve(Before, given) != resolve(After, given)
