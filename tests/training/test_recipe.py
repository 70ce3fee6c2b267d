from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RecipeError
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.training.recipe_files import overlay, read_plain


def test_the_resolved_recipe_is_a_fixed_point_through_yaml(tiny: dict[str, Any]) -> None:
    recipe = load_recipe(tiny)
    again = load_recipe(yaml.safe_load(recipe.yaml()))
    assert again == recipe
    assert again.digest() == recipe.digest()
    assert recipe.plain()["optimizer"]["betas"] == [0.9, 0.999], "defaults are written out"


def test_overrides(tiny: dict[str, Any]) -> None:
    recipe = load_recipe(
        tiny, data="digits", settings=["optimizer.lr=1/1000", "loss.name=triplet", "loss.margin=0.1"], seed=7
    )
    assert recipe.optimizer.plain["lr"] == pytest.approx(1e-3)
    assert recipe.loss.plain["margin"] == 0.1
    assert (recipe.data.name, recipe.seed) == ("digits", 7)
    assert recipe.loss.plain["miner"] is None, "arguments of the replaced loss are gone"


FOUR = {"name": "multi-target", "targets": 4}
HALVES = {"batch": {"classes": 8}, "mining_groups": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": "adam"}, "did you mean 'optimizer'"),
        ({"optimizer": {"name": "adam", "lrr": 1}}, r"optimizer: unknown key 'lrr'; did you mean 'lr'"),
        ({"optimizer": {"name": "adamm"}}, "did you mean 'adam'"),
        ({"optimizer": {"name": "adam", "lr": "fast"}}, r"optimizer\.lr: expected a number, got 'fast'"),
        ({"optimizer": {"name": "adam", "lr": -1}}, "must be positive"),
        ({"optimizer": {"name": "adam", "betas": [0.9, 1]}}, r"betas are decay rates in \[0, 1\), got 0\.9 and 1"),
        ({"optimizer": {"name": "adamw", "betas": [-0.1, 0.9]}}, "betas are decay rates"),
        ({"optimizer": {"name": "adamw", "lr": -1}}, "must be positive"),
        ({"model": {"dim": 0}}, "model: dim must be 1 or more, got 0"),
        ({"model": {"size": -1}}, "model: size must be 1 or more"),
        ({"model": {"canvas": 0}}, "model: canvas must be 1 or more"),
        ({"epochs": "ten"}, "epochs: expected a whole number"),
        ({"epochs": 0}, "^recipe: epochs must be 1 or more"),
        ({"epochs": True}, "epochs: expected a whole number"),
        ({"batch": {"classes": 1}}, "at least 2 classes"),
        ({"batch": {"sampler": "pairs"}}, r"batch\.sampler: pairs needs batch\.per_class: 2, not 4"),
        (
            {"regime": {"name": "at", "goal": FOUR}, "batch": {"classes": 8, "per_class": 2, "sampler": "pairs"}},
            r"a batch of pairs promises none; set batch\.sampler: classes",
        ),
        ({"precision": "float16"}, r"precision: unknown value 'float16'"),
        ({"loss": {"name": "margin", "miner": "semi-hard"}}, "did you mean 'semihard'"),
        ({"loss": 3}, "expected a loss name"),
        ({"loss": {"name": "trimmed", "loss": {"name": "triplet", "memory": 17}}}, r"loss\.memory \(17\) must hold"),
        ({"loss": {"name": "triplet", "memory": 17}}, r"loss\.memory \(17\) must hold a batch .* 18 images or more"),
        ({"model": {"batchnorm": "frozen"}}, r"model\.batchnorm: unknown value 'frozen'; did you mean 'freeze'"),
        ({"ema": 1.0}, "ema is a decay"),
        ({"schedule": {"name": "cosine", "warmup": 2}}, "warmup"),
        ({"schedule": {"name": "cosine", "floor": -1}}, r"schedule: floor is a factor in \[0, 1\], got -1"),
        ({"schedule": {"name": "step", "at": [60, 80]}}, r"schedule: at has fractions .* got 60; did you mean 0\.6\?"),
        ({"schedule": {"name": "step", "at": [0]}}, r"at has fractions of training between 0 and 1, got 0$"),
        ({"schedule": {"name": "step", "gamma": -1}}, "schedule: gamma is a factor of 0 or more, got -1"),
        ({"optimizer": {"name": "sgd", "momentum": -1}}, r"optimizer: momentum is a decay rate in \[0, 1\), got -1"),
        ({"optimizer": {"name": "sgd", "momentum": 1.5}}, "momentum is a decay rate"),
        ({"optimizer": {"name": "sgd", "nesterov": True}}, r"nesterov needs momentum; set optimizer\.momentum"),
        ({"data": {"name": "glyphs", "sise": 3}}, "did you mean 'size'"),
        *(
            ({"regime": name, "model": {"normalize": False}}, f"regime {name} needs unit vectors; set model.normalize")
            for name in ("hm", "min-max", "free-hm", "tride")
        ),
        ({"regime": {"name": "at", "goal": FOUR}, "batch": {"classes": 4}}, "from 4 other classes, .* has 4 in all"),
        ({"regime": {"name": "mdprop", "distributions": [{"name": "x", "goal": FOUR}]}, **HALVES}, "has 4 in all"),
        ({"regime": {"name": "adml", "goal": {"name": "sum", "goals": ["shift", FOUR]}}, **HALVES}, "regime adml"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(tiny: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        load_recipe({**tiny, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("regime", "rows"),
    [
        *((name, 54) for name in ("hm", "act", "tride", "free-hm", "min-max")),
        ({"name": "hm", "source": {"name": "softhard", "anchors": "first"}}, 27),
        ({"name": "mdprop", "variant": "released"}, 36),
        *((name, 18) for name in ("standard", "at", "adml", "mdprop")),
    ],
)
def test_a_memory_holds_what_the_regime_makes_of_a_batch(tiny: dict[str, Any], regime: Any, rows: int) -> None:
    recipe = {**tiny, "regime": regime, "loss": {"name": "contrastive", "memory": rows}}
    assert load_recipe(recipe).loss.plain["memory"] == rows
    with pytest.raises(RecipeError, match=rf"memory \({rows - 1}\) must hold a batch .* {rows} images or more"):
        load_recipe({**recipe, "loss": {"name": "contrastive", "memory": rows - 1}})


def test_what_a_regime_needs_is_asked_of_it_alone(tiny: dict[str, Any]) -> None:
    for regime in ("standard", "act", "est", "at", "adml", "mdprop"):
        assert not load_recipe({**tiny, "regime": regime, "model": {"normalize": False}}).model.normalize
    distributions = [{"name": "x", "goal": FOUR}]
    load_recipe({**tiny, "regime": {"name": "mdprop", "distributions": distributions}, "batch": {"classes": 5}})
    released = {"name": "mdprop", "distributions": distributions, "variant": "released"}
    load_recipe({**tiny, "regime": released, **HALVES})


@pytest.mark.parametrize(
    ("init", "backbone", "weights"),
    [
        ("torchvision:mobilenet_v2@odd@name.pth", "torchvision:mobilenet_v2", "odd@name.pth"),
        ("timm:resnet18.tv_in1k@w.safetensors", "resnet18.tv_in1k", "w.safetensors"),
        ("timm:resnet18", "resnet18", "imagenet"),
    ],
)
def test_a_published_model_to_start_from_is_the_recipes_backbone(
    init: str, backbone: str, weights: str, tiny: dict[str, Any]
) -> None:
    recipe = load_recipe(tiny, settings=[f"init={init}"])
    assert (recipe.model.backbone, recipe.model.weights, recipe.init) == (backbone, weights, None)
    assert recipe.model.dim == load_recipe(tiny).model.dim, "the head is the recipe's"
    assert load_recipe(tiny, settings=[f"model.backbone={init}"]).model.backbone == backbone
    with pytest.raises(RecipeError, match=r"leave out --set model\.backbone"):
        load_recipe(tiny, settings=[f"init={init}", "model.backbone=resnet50"])
    with pytest.raises(RecipeError, match=r"leave out --set model\.weights"):
        load_recipe(tiny, settings=[f"init={init}", "model.weights=mine.pth"])


def test_weights_named_with_the_backbone(tiny: dict[str, Any], tmp_path: Path) -> None:
    """They go before `imagenet` of a shipped recipe, but two files contradict each other; no code is run for them."""
    file = tmp_path / "mine.yaml"
    file.write_text("base: resnet50-ms\nmodel: {backbone: 'torchvision:mobilenet_v2@a.pth'}\n")
    model = load_recipe(file, "glyphs").model
    assert (model.backbone, model.weights) == ("torchvision:mobilenet_v2", "a.pth")
    with pytest.raises(RecipeError, match=r"model.*'a\.pth'.*'b\.pth'"):
        load_recipe({**tiny, "model": {"backbone": "timm:resnet18@a.pth", "weights": "b.pth"}})


def test_unreadable_recipes(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'pocket'"):
        read_plain("pockett")
    with pytest.raises(RecipeError, match="no recipe at"):
        read_plain(tmp_path / "none.yaml")
    for text, message in (("a: [", "not valid YAML"), ("- 1", "must hold keys")):
        file = tmp_path / "bad.yaml"
        file.write_text(text)
        with pytest.raises(RecipeError, match=message):
            read_plain(file)
    with pytest.raises(RecipeError, match="--data"):
        load_recipe({"loss": "triplet"})
    with pytest.raises(RecipeError, match=r"key\.path=value"):
        load_recipe("pocket", settings=["epochs"])


def test_recipes_are_values(tiny: dict[str, Any]) -> None:
    assert isinstance(load_recipe(load_recipe(tiny)), Recipe)
    before = str(tiny)
    load_recipe(tiny, settings=["epochs=9"])
    assert str(tiny) == before


def write(folder: Path, **files: str) -> Path:
    """Recipe files in a folder; returns the first."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / f"{next(iter(files))}.yaml"


def test_a_recipe_builds_on_another(tmp_path: Path) -> None:
    mine = write(
        tmp_path,
        mine="base: house.yaml\nloss: {beta: 30}\nbatch: {classes: 8}\ntrackers: [wandb]\naugment: none",
        house="base: pocket\nepochs: 3\ntrackers: [tensorboard, comet]\nmodel: {dim: 32}",
    )
    plain = read_plain(mine)
    pocket = read_plain("pocket")
    assert plain == {
        **pocket,
        "epochs": 3,
        "model": {**pocket["model"], "dim": 32},
        "loss": {**pocket["loss"], "beta": 30},
        "batch": {**pocket["batch"], "classes": 8},
        "trackers": ["wandb"],
        "augment": "none",
    }
    recipe = load_recipe(mine, data="digits", settings=["trackers=[]", "loss.beta=20", "epochs=5"], seed=3)
    assert (recipe.loss.plain["beta"], recipe.epochs, recipe.data.name, recipe.seed) == (20, 5, "digits", 3)
    assert "base" not in recipe.plain()
    assert load_recipe(recipe.plain()) == recipe


def test_another_method_takes_nothing_over() -> None:
    base = {"name": "hm", "source": {"name": "softhard", "anchors": "first"}, "budget": {"eps": 1, "steps": 8}}
    for change, expected in (
        ({"budget": {"steps": 2}}, {**base, "budget": {"eps": 1, "steps": 2}}),
        ({"name": "hm", "u": 0.1}, {**base, "u": 0.1}),
        ({"name": "at"}, {"name": "at"}),
        ("hm", "hm"),
        ({"source": "softhard"}, {**base, "source": "softhard"}),
        ({"source": {"name": "random", "u": 1}}, {**base, "source": {"name": "random", "u": 1}}),
        ({"source": {"u": 1}}, {**base, "source": {"name": "softhard", "anchors": "first", "u": 1}}),
    ):
        assert overlay({"regime": base}, {"regime": change}) == {"regime": expected}
    assert overlay({"loss": "triplet"}, {"loss": {"margin": 0.1}}) == {"loss": {"name": "triplet", "margin": 0.1}}
    assert overlay({"loss": "triplet"}, {"loss": {"name": "margin"}}) == {"loss": {"name": "margin"}}
    assert overlay({"ema": 0.9}, {"ema": None}) == {"ema": None}


PLAIN = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["a", "b"]) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["name", "x", "y"]), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.dictionaries(st.sampled_from(["loss", "model", "epochs"]), PLAIN, max_size=3)


@given(below=BLOCKS, above=BLOCKS)
def test_what_is_written_always_holds(below: dict[str, Any], above: dict[str, Any]) -> None:
    before = copy.deepcopy((below, above))
    result = overlay(below, above)
    assert (below, above) == before
    assert overlay(result, above) == result
    assert overlay(below, {}) == below
    assert overlay({}, above) == above
    assert holds(result, above)


def holds(result: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; blocks may hold more."""
    if isinstance(wanted, dict) and isinstance(result, dict):
        return all(key in result and holds(result[key], value) for key, value in wanted.items())
    return bool(result == wanted)


def test_a_path_in_the_data_of_a_base_stays(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="base: house.yaml\ndata: {validation: 0.2}", house="data: folder:photos\nepochs: 2")
    assert read_plain(mine)["data"] == {"name": "folder", "root": "photos", "validation": 0.2}


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "shared", house="base: below.yaml\nepochs: 2", below="base: pocket\nclip: 1")
    mine = write(tmp_path / "mine", pocket="base: ../shared/house.yaml\nema: 0.9")
    (tmp_path / "shared" / "pocket").mkdir()
    plain = read_plain(mine)
    assert (plain["epochs"], plain["clip"], plain["ema"], plain["data"]) == (2, 1, 0.9, "glyphs")
    monkeypatch.chdir(tmp_path)
    assert read_plain({"base": "shared/house.yaml"}) == read_plain(tmp_path / "shared" / "house.yaml")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "base: pockett"}, "base: unknown recipe 'pockett'; did you mean 'pocket'"),
        ({"a": "base: b.yaml"}, r"base: no recipe at .*b\.yaml"),
        ({"a": "base: [pocket]"}, r"base: expected the name of a recipe .* got \['pocket'\]"),
        ({"a": "base:"}, "base: expected the name"),
        ({"a": "base: a.yaml"}, r"in a circle \(a\.yaml on a\.yaml\)"),
        ({"a": "base: b.yaml", "b": "base: c.yaml", "c": "base: b.yaml"}, r"circle \(b\.yaml on c\.yaml on b\.yaml\)"),
        ({"a": "base: b.yaml", "b": "- 1"}, "must hold keys"),
        ({"a": "base: pocket\nlos: triplet"}, "did you mean 'loss'"),
    ],
)
def test_mistaken_bases(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        load_recipe(write(tmp_path, **files))
    assert "\n" not in str(error.value)


def test_the_brief_form_leaves_out_defaults_and_means_the_same() -> None:
    plain = {"data": "glyphs", "regime": {"name": "hm", "ics": 0.5}, "epochs": 100, "batch": {"classes": 7}}
    recipe = load_recipe(plain)
    brief = recipe.brief()
    assert brief["regime"] == {"name": "hm", "ics": 0.5}
    assert brief["batch"] == {"classes": 7}
    assert "epochs" not in brief  # 100 is the default
    assert load_recipe(brief) == recipe
