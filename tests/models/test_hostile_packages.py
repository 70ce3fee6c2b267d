"""A stranger's package: nothing is executed, nothing is written outside its folder, and each ends in one line."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import save_file

from holdfast import audit
from holdfast.errors import HoldfastError, ModelError, RecipeError
from holdfast.files import inside, new_folder, write_atomic
from holdfast.models import Embedder, load_model, write_card
from holdfast.models.bank import SetStart
from holdfast.models.card import card_text
from holdfast.models.weights import read_state
from holdfast.training.recipe import load_recipe

GLYPHS = {"name": "glyphs", "characters": 20, "per_class": 3}


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.file),)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / "run" / "model")
    return tmp_path / "run" / "model"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's outside the package."""
    file = tmp_path / "precious.txt"
    file.write_text("precious")
    return file


def refused(package: Path, sets: bool = False) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(str(package), sets=sets)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def configure(package: Path, **settings: Any) -> None:
    file = package / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {"dim": 10**30},
        {"dim": 10**9},
        {"dim": -1},
        {"dim": True},
        {"dim": "8"},
        {"dim": 8.5},
        {"size": 10**7},
        {"canvas": 10**9},
        {"backbone": "mnist-plane", "size": 1_000_000},
        {"backbone": ["conv-tiny"]},
        {"backbone": None},
        {"backbone": "x" * 10**6},
        {"backbone": "../../../etc/passwd"},
        {"backbone": "hf-hub:stranger/model"},
        {"backbone": "local-dir:/etc"},
        {"backbone": "torchvision:../../x"},
        {"backbone": "os:getcwd"},
        {"backbone": "\nconv\ntiny"},
        {"layout": "other"},
        {"layout": []},
        {"normalize": "yes"},
        {"batchnorm": {"a": 1}},
        {"fit": "stretch"},
        {"fit": None},
        {"fit": ["crop"]},
        {"interpolation": "random"},
        {"interpolation": 2},
        {"mean": "0.5"},
        {"mean": [0.5]},
        {"mean": [0.5, 0.5, "0.5"]},
        {"mean": [float("nan")] * 3},
        {"std": [0.5, 0.5, 0]},
        {"std": [1e-300] * 3},
        {"std": [True] * 3},
        {"std": {"a": 1}},
    ],
)
def test_settings_that_no_model_has(package: Path, settings: dict[str, Any]) -> None:
    configure(package, **settings)
    refused(package)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"dim": ' + "9" * 10_000 + "}",
        '{"dim": NaN}',
        '{"dim": 1e999}',
        "\ufeff{}",
        '"text"',
        "null",
        '{"backbone": "conv-tiny", "dim": 8, "trust_code": true, "__class__": "x"}' * 2,
    ],
)
def test_configs_that_are_no_config(package: Path, text: str) -> None:
    (package / "config.json").write_text(text, "utf-8")
    assert "config.json" in refused(package)


def test_a_config_cannot_grant_itself_trust(package: Path) -> None:
    configure(package, backbone="os:getcwd", trust_code=True)
    assert "trust_code=True" in refused(package)


def test_pickles_are_never_read(package: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    harmful = pickle.dumps(Trap(sprung))
    for name in ("pytorch_model.bin", "model.pt", "model.pkl", "batchnorm.pt", "config.pkl"):
        (package / name).write_bytes(harmful)
    load_model(str(package), sets=True)
    (package / "model.safetensors").write_bytes(harmful)
    assert "does not fit" in refused(package)
    weights = tmp_path / "weights.pt"
    torch.save({"a": Trap(sprung)}, weights)
    with pytest.raises(ModelError, match="cannot read weights"):
        read_state(weights)
    weights.write_bytes(harmful)
    with pytest.raises(ModelError, match="cannot read weights"):
        read_state(weights)
    assert not sprung.exists()


def header(content: dict[str, Any], length: int | None = None, data: bytes = b"") -> bytes:
    """A safetensors file whose header says what it likes."""
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize("name", ["model.safetensors", "batchnorm.safetensors"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        header({}, length=2**63),
        header({}, length=2**33),
        header({"head.weight": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, data=b"0000"),
        header({"head.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**50]}}, data=b"0000"),
        header({"head.weight": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, data=b"0000"),
        header({"../../x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, data=b"0000"),
        header({"a": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 4]}}, data=b"0000"),
    ],
)
def test_damaged_tensors(package: Path, name: str, content: bytes) -> None:
    (package / name).write_bytes(content)
    assert "does not fit" in refused(package, sets=True)


@pytest.mark.parametrize("name", ["../../x", "clean", "train", "a.b", "", "__class__", "x" * 100, "a\nb"])
def test_hostile_names_of_batchnorm_sets(package: Path, name: str) -> None:
    model = Embedder("conv-tiny", dim=8)
    model.bank.add(model.backbone, SetStart("stax"))
    tensors = {key.replace("sets.stax.", f"sets.{name}."): t.clone() for key, t in model.bank.state_dict().items()}
    save_file(tensors, package / "batchnorm.safetensors")
    assert "does not fit" in refused(package, sets=True)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "batchnorm.safetensors"])
def test_links_are_read_as_what_they_should_be_and_never_shown(package: Path, victim: Path, name: str) -> None:
    (package / name).unlink(missing_ok=True)
    (package / name).symlink_to(victim)
    assert "precious\n" not in refused(package, sets=True).replace("precious.txt", "")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("target", ["/dev/zero", "/", "nowhere"])
def test_links_to_what_is_no_file(package: Path, name: str, target: str) -> None:
    (package / name).unlink()
    (package / name).symlink_to(target)
    assert "holds no model" in refused(package)


def test_writing_never_follows_links_out(package: Path, victim: Path) -> None:
    for name in (".README.md.tmp", "other"):
        (package / name).symlink_to(victim)
    write_atomic(package / "README.md", "new")
    write_atomic(package / "other", "new")
    assert (package / "other").read_text() == "new"
    with pytest.raises(HoldfastError, match="leads out of"):
        inside(package, package / ".." / ".." / victim.name)
    assert victim.read_text() == "precious"


def test_saving_into_a_strangers_folder_never_follows_links_out(package: Path, victim: Path) -> None:
    model = Embedder("conv-tiny", dim=8)
    model.bank.add(model.backbone, SetStart("stax"))
    names = ("model.safetensors", "batchnorm.safetensors", "README.md", "config.json")
    nowhere = victim.with_name("not-there-yet")
    for target in (victim, nowhere):
        for name in names:
            (package / name).unlink(missing_ok=True)
            (package / name).symlink_to(target)
        model.save_pretrained(package)
        assert not any((package / name).is_symlink() for name in names)
    assert victim.read_text() == "precious"
    assert not nowhere.exists()
    load_model(str(package), sets=True)


def test_a_new_folder_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for name in ("model", ".model.tmp", ".model.old"):
        (tmp_path / name).symlink_to(outside)
    with new_folder(tmp_path / "model") as aside:
        (aside / "file").write_text("new")
    assert [f.name for f in (tmp_path / "model").iterdir()] == ["file"]
    assert {f.name for f in outside.iterdir()} == {"kept"}


RECIPE = {"data": GLYPHS, "model": {"backbone": "conv-tiny"}, "loss": {"name": "margin"}}


def test_a_card_is_not_written_through_a_link(package: Path, victim: Path, tmp_path: Path) -> None:
    run, outside = package.parent, tmp_path / "outside"
    (run / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    (package / "README.md").unlink()
    (package / "README.md").symlink_to(victim)
    with pytest.raises(ModelError, match="edited by hand"):
        write_card(run)
    write_card(run, force=True)
    assert victim.read_text() == "precious"
    package.rename(outside)
    package.symlink_to(outside)
    before = (outside / "README.md").read_text()
    with pytest.raises(HoldfastError, match="leads out of"):
        write_card(run, license="mit", force=True)
    assert (outside / "README.md").read_text() == before
    assert "mit" not in before.partition("# ")[0]


@pytest.mark.parametrize("link", ["artifacts", "artifacts/audit-ers-fixed.partial"])
def test_an_audit_of_a_strangers_run_stays_in_its_folder(package: Path, tmp_path: Path, link: str) -> None:
    run, outside = package.parent, tmp_path / "outside"
    outside.mkdir()
    (run / link).parent.mkdir(exist_ok=True)
    (run / link).symlink_to(outside)
    with pytest.raises(HoldfastError, match="leads out of"):
        audit.run(str(run), GLYPHS, limit=4, out=run)
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "loss: !!python/object/apply:os.mkdir [sprung]",
        "loss: !!python/name:os.system",
        "!!python/module:os",
        "a: " + "[" * 5_000,
        "epochs: " + "9" * 10_000,
        "a: &a [x]\n" + "\n".join(f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}, *a]" for i in range(40)),
        "\x00",
    ],
)
def test_recipes_that_are_no_recipe(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe("r.yaml")
    assert "\n" not in str(caught.value)
    assert [f.name for f in tmp_path.iterdir()] == ["r.yaml"]


def test_a_recipe_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_bytes(b"\xff\xfe\x00loss")
    with pytest.raises(RecipeError):
        load_recipe(tmp_path / "r.yaml")


def test_a_card_of_a_strangers_run_holds_no_more_than_text(package: Path) -> None:
    assert "<" not in card_text({**RECIPE, "data": "<img src=x>"}, title="t").partition("## Data")[2].partition("##")[0]


def graph_with_external(file: Path, place: str, in_constant: bool = False) -> None:
    """A graph that adds a tensor kept in another file to its images."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", place), ("offset", "0"), ("length", "4")):
        tensor.external_data.add(key=key, value=value)
    nodes = [
        *([helper.make_node("Constant", [], ["w"], value=tensor)] if in_constant else []),
        helper.make_node("Add", ["images", "w"], ["sum"]),
        helper.make_node("GlobalAveragePool", ["sum"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["vectors"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["b", 3, 8, 8])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", 3])],
        [] if in_constant else [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    assert onnx.load(file, load_external_data=False).graph.name == "g"


@pytest.mark.parametrize("in_constant", [False, True])
@pytest.mark.parametrize(
    "place", ["../precious.txt", "{absolute}", "a/../../precious.txt", "link", "../\nprecious.txt"]
)
def test_a_graph_cannot_read_outside_its_folder(victim: Path, place: str, in_constant: bool) -> None:
    folder = victim.parent / "graphs"
    (folder / "a").mkdir(parents=True)
    (folder / "link").symlink_to(victim)
    graph_with_external(folder / "m.onnx", place.replace("{absolute}", str(victim)), in_constant)
    with pytest.raises(ModelError, match="outside its folder") as caught:
        load_model(f"onnx:{folder / 'm.onnx'}")
    assert "\n" not in str(caught.value)


def test_a_graph_may_keep_tensors_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph_with_external(tmp_path / "m.onnx", "m.onnx.data")
    (tmp_path / "m.onnx.data").write_bytes(struct.pack("<f", 0.5))
    vectors = load_model(f"onnx:{tmp_path / 'm.onnx'}")(torch.zeros(1, 3, 8, 8))
    torch.testing.assert_close(vectors, torch.full((1, 3), 3**-0.5))


def test_graphs_of_impossible_size_or_notes(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    def save(side: int, canvas: str) -> str:
        nodes = [
            helper.make_node("GlobalAveragePool", ["images"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["vectors"]),
        ]
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["b", 3, side, side])
        vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", 3])
        graph = helper.make_graph(nodes, "g", [images], [vectors])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, {"holdfast.canvas": canvas})
        onnx.save(model, tmp_path / "m.onnx")
        return f"onnx:{tmp_path / 'm.onnx'}"

    with pytest.raises(ModelError, match="which no model does"):
        load_model(save(10**6, "8"))
    for canvas in ("9" * 10_000, "4", "-1", "1e9", "٤٠", "99999", ""):
        assert load_model(save(8, canvas)).canvas == 8
    assert load_model(save(8, "12")).canvas == 12
