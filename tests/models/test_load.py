from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.models import Embedder, as_embedder, load_model


@pytest.fixture
def package(tmp_path: Path) -> Path:
    Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / "run" / "model")
    return tmp_path / "run" / "model"


def test_a_run_and_its_package_are_the_same_model(package: Path) -> None:
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(load_model(str(package))(images), load_model(str(package.parent))(images))


def test_a_function_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import nn\n"
        "def build():\n    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7))\n"
    )
    model = load_model(f"{file}:build", size=24)
    assert model(torch.rand(2, 3, 24, 24)).shape == (2, 7)
    with pytest.raises(ModelError, match="no function 'other'"):
        load_model(f"{file}:other")
    with pytest.raises(ModelError, match="no file"):
        load_model(f"{tmp_path / 'absent.py'}:build")


@pytest.mark.parametrize("spec", ["nothing-here", "./nothing", "/nothing/at/all"])
def test_missing_models_say_what_a_model_can_be(spec: str) -> None:
    with pytest.raises(ModelError, match=r"file\.py:function"):
        load_model(spec)


def test_an_onnx_graph(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7)).eval()
    torch.onnx.export(module, (torch.rand(2, 3, 24, 24),), tmp_path / "m.onnx", dynamic_shapes=({0: "batch"},))
    model = load_model(f"onnx:{tmp_path / 'm.onnx'}")
    images = torch.rand(5, 3, 24, 24)
    assert (model.size, model.dim, model.differentiable) == (24, 7, False)
    torch.testing.assert_close(model(images), nn.functional.normalize(module(images), dim=1).detach())
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match="cannot read"):
        load_model(f"onnx:{tmp_path / 'bad.onnx'}")
    with pytest.raises(ModelError, match="no ONNX file"):
        load_model("onnx:absent.onnx")


def test_damaged_packages(package: Path) -> None:
    config = (package / "config.json").read_text()
    for text, message in (("{", "damaged"), ("[]", "damaged"), (config.replace("8", "9"), "does not fit")):
        (package / "config.json").write_text(text)
        with pytest.raises(ModelError, match=message):
            load_model(str(package))
    (package / "config.json").write_text(config)
    (package / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(ModelError, match="does not fit"):
        load_model(str(package))
    (package / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="holds no model"):
        load_model(str(package))


def test_a_package_cannot_name_code(package: Path) -> None:
    config = json.loads((package / "config.json").read_text())
    (package / "config.json").write_text(json.dumps({**config, "backbone": "os:getcwd"}))
    with pytest.raises(ModelError, match="trust"):
        load_model(str(package))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def build(:\n", r"cannot be imported \(SyntaxError"),
        ("raise KeyError('x')\n", r"cannot be imported \(KeyError"),
        ("def build():\n    raise OSError('no disk')\n", r"failed \(OSError: no disk\)"),
        ("def build(depth):\n    return depth\n", "without arguments"),
        ("build = 3\n", "without arguments"),
        (
            "from torch import nn\n"
            "class Net(nn.Module):\n    def forward(self, x):\n        assert x.shape[-1] == 64, 'only 64 px'\n"
            "def build():\n    return Net()\n",
            r"AssertionError: only 64 px\); give --size",
        ),
    ],
)
def test_faults_in_a_users_file_are_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(f"{tmp_path / 'mine.py'}:build")
    assert "\n" not in str(caught.value)


def test_another_size_than_the_models_own_is_refused(package: Path) -> None:
    assert load_model(str(package), size=32).size == 32
    for spec in (package, package.parent):
        with pytest.raises(ModelError, match="takes images of 32 px, not 64"):
            load_model(str(spec), size=64)
    with pytest.raises(ModelError, match="takes images of 32 px, not 64"):
        as_embedder(Embedder("conv-tiny"), size=64)
