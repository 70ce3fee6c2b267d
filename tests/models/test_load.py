from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.errors import ModelError
from holdfast.models import Embedder, as_embedder, load_model
from holdfast.models.names import ensure_torchvision
from holdfast.view import View


@pytest.fixture
def package(tmp_path: Path) -> Path:
    Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / "run" / "model")
    return tmp_path / "run" / "model"


def test_a_run_and_its_package_are_the_same_model(package: Path) -> None:
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(load_model(str(package))(images), load_model(str(package.parent))(images))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_another_type_than_images_get_one_line(kind: torch.dtype) -> None:
    with pytest.raises(ModelError, match=f"{kind} weights"):
        as_embedder(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 14 * 14, 5)).to(kind), 16)


def test_weights_of_another_type_may_take_images_all_the_same() -> None:
    assert as_embedder(Embedder("conv-tiny", dim=8, size=16).double()).dim == 8

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7)).bfloat16()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.net(images.bfloat16()).float()  # type: ignore[no-any-return]

    assert as_embedder(Inside(), 16).dim == 7


def test_a_function_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import nn\n"
        "def build():\n    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7))\n"
    )
    model = load_model(f"{file}:build", size=24)
    assert model(torch.rand(2, 3, 24, 24)).shape == (2, 7)
    with pytest.raises(ModelError, match="has no 'other'"):
        load_model(f"{file}:other")
    with pytest.raises(ModelError, match=r"absent\.py"):
        load_model(f"{tmp_path / 'absent.py'}:build")


@pytest.mark.parametrize("spec", ["nothing-here", "./nothing", "/nothing/at/all"])
def test_missing_models_say_what_a_model_can_be(spec: str) -> None:
    with pytest.raises(ModelError, match=r"file\.py:function"):
        load_model(spec)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("mobilenet_v2", "'torchvision:mobilenet_v2'"),
        ("MobileNet_V2", "'torchvision:mobilenet_v2'"),
        ("timm:mobilenet_v2", "'torchvision:mobilenet_v2'"),
        ("torchvision:mobilenetv2_100@w.pth", "'timm:mobilenetv2_100'"),
        ("torchvision:mobilenet_v22", "'torchvision:mobilenet_v2'"),
        ("resnet50", "'timm:resnet50' or 'torchvision:resnet50'"),
        ("timm/resnet50", "timm:resnet50"),
    ],
)
def test_names_of_other_libraries_are_suggested(spec: str, meant: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(spec)
    assert meant in str(caught.value)


@pytest.mark.parametrize(
    ("file", "meant"), [("w.safetensors", "torchvision:NAME@FILE"), ("m.onnx", "onnx:"), ("m.py", "m.py:function")]
)
def test_a_file_that_is_no_model_by_itself(file: str, meant: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(ModelError, match=meant):
        load_model(str(tmp_path / file))


def test_a_users_file_imports_what_lies_beside_it_and_torchvision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torchvision's operators are missing, holdfast makes its import work before the user's code runs."""
    ready: list[bool] = []
    monkeypatch.setattr("holdfast.models.backbones.ensure_torchvision", lambda: ready.append(not ready))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "parts_of_mine.py").write_text(
        "from torch import nn\nparts = [nn.AdaptiveAvgPool2d(2), nn.Flatten()]\n"
    )
    (tmp_path / "mine.py").write_text(
        "from parts_of_mine import nn, parts\ndef build():\n    return nn.Sequential(*parts)\n"
    )
    assert load_model(f"{tmp_path / 'mine.py'}:build", size=24).dim == 12
    assert ready == [True]


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


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file as timm publishes them, with a classifier."""
    ensure_torchvision()
    import timm

    torch.manual_seed(0)
    save_file(timm.create_model("resnet18", num_classes=10).state_dict(), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_a_published_architecture_with_weights_from_a_file(weights: Path, tmp_path: Path) -> None:
    import timm
    from torchvision import models

    images = torch.rand(2, 3, 224, 224)
    theirs = timm.create_model("resnet18", num_classes=10)
    theirs.load_state_dict(load_file(weights))
    theirs.reset_classifier(0)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        wanted = nn.functional.normalize(theirs.eval()((images - mean) / std), dim=1)
        model = load_model(f"timm:resnet18.tv_in1k@{weights}")
        torch.testing.assert_close(model(images), wanted)
    assert not model.training
    assert model.view == View(224, 256, "crop", "bilinear")
    assert load_model(f"timm:resnet18@{weights}").view == View(224, 235, "crop", "bicubic")
    assert load_model(f"timm:resnet18.tv_in1k@{weights}", size=160).view == View(160, 182, "crop", "bilinear")
    file = tmp_path / "odd@name.pth"
    torch.save(models.get_model("mobilenet_v2").state_dict(), file)
    assert load_model(f"torchvision:mobilenet_v2@{file}").view == View(224, 232, "crop", "bilinear")
    assert load_model(f"torchvision:mobilenet_v2.IMAGENET1K_V1@{file}").view == View(224, 256, "crop", "bilinear")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("timm:resnet18@{folder}/absent.pth", "no weights at"),
        ("timm:resnet18@", "no weights at"),
        ("timm:resnet18@{folder}", "no weights at"),
        ("timm:resnet50@{folder}/w.safetensors", "does not fit resnet50: it lacks 'layer1.0.conv3.weight'"),
        ("torchvision:mobilenet_v2@{folder}/w.safetensors", "does not fit torchvision:mobilenet_v2"),
        ("timm:resnet18@{folder}/nan.safetensors", "holds NaN in 'layer1.0.conv1.weight'"),
        ("timm:resnet18@{folder}/text.pth", "cannot read weights"),
        ("timm:resnet181@{folder}/w.safetensors", "did you mean 'timm:resnet18'"),
    ],
)
def test_weights_files_that_cannot_be_used(spec: str, message: str, weights: Path, tmp_path: Path) -> None:
    state = load_file(weights)
    state["layer1.0.conv1.weight"][0, 0, 0, 0] = float("nan")
    save_file(state, tmp_path / "nan.safetensors")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(ModelError) as caught:
        load_model(spec.format(folder=tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_ones_own_is_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any path to it; a package of it runs the code only where that is allowed."""
    text = "from torch import nn\n\ndef build():\n    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())\n"
    (tmp_path / "my_net.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("my_net.py:build", f"{tmp_path}/my_net.py:build"):
        model = Embedder(name, dim=5, size=16)
        assert model(torch.rand(2, 3, 16, 16)).shape == (2, 5)
    Embedder("my_net.py:build", dim=5, size=16).save_pretrained(tmp_path / "package")
    with pytest.raises(ModelError, match="trust_code"):
        load_model(tmp_path / "package")
    assert load_model(tmp_path / "package", trust_code=True).dim == 5
