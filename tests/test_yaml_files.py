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
    ],
)
def test_what_is_not_read_is_said_in_one_line(text: str, why: str) -> None:
    with pytest.raises(NotYaml, match=why) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", shipped())
def test_shipped_recipes_need_no_aliases(name: str) -> None:
    assert read_yaml(resources.files("holdfast.recipes").joinpath(f"{name}.yaml").read_text("utf-8"))


def test_a_recipe_with_aliases_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(BOMB)
    with pytest.raises(RecipeError, match="alias"):
        read_plain(file)
