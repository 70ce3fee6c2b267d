from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RecipeError
from holdfast.training.recipe_files import read_plain, shipped
from holdfast.yaml_files import NotYaml, read_yaml

BOMB = "l0: &l0 [x, x]\n" + "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 10))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(PLAIN)
def test_plain_data_reads_back(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "line 2 repeats a value through an alias"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", "line 3 repeats a value through an alias"),
        ("a: &a [*a]", "alias"),
        ("[" * 20_000, "nested too deep"),
        ("a: [", "expected the node content"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: 2020-99-99", "month must be in"),
        ("epochs: 1\nseed: 2\nepochs: 3\n", "line 3 gives 'epochs' a second time"),
        ("loss: {name: triplet, margin: 0.1, 'margin': 0.2}", "line 1 gives 'margin' a second time"),
        ("a: [{b: 1}, {b: 1, b: 1}]", "'b' a second time"),
        ("<<: {a: 1, a: 2}\nb: 1", "'a' a second time"),
        ("1: a\n0x1: b", "'0x1' a second time"),
        ("=: a\n=: b", "'=' a second time"),
        ("? {a: 1, a: 2}\n: b", "unhashable|a second time"),
        (f"{'k' * 900}: 1\n" * 2, "a second time; keep one"),
    ],
)
def test_what_is_not_read_is_said_in_one_line(text: str, why: str) -> None:
    with pytest.raises(NotYaml, match=why) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\n<<: {a: 2, b: 3}\n", {"a": 1, "b": 3}),
        ("<<: [{a: 1}, {a: 2, b: 3}]\nc: {a: 4}\n", {"a": 1, "b": 3, "c": {"a": 4}}),
        ("<<: {<<: {a: 1}, a: 2}\na: 3\n", {"a": 3}),
        ("{a: 1, A: 2, '1': 3, 1: 4}", {"a": 1, "A": 2, "1": 3, 1: 4}),
    ],
)
def test_a_merged_key_may_be_written_anew(text: str, value: object) -> None:
    assert read_yaml(text) == yaml.safe_load(text) == value


@pytest.mark.parametrize("name", shipped())
def test_shipped_recipes_need_no_aliases(name: str) -> None:
    assert read_yaml(resources.files("holdfast.recipes").joinpath(f"{name}.yaml").read_text("utf-8"))


def test_a_recipe_with_aliases_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(BOMB)
    with pytest.raises(RecipeError, match="alias"):
        read_plain(file)
