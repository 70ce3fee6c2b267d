from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from holdfast.cli import main
from holdfast.data import ImageStore, load
from holdfast.errors import ModelError
from holdfast.evaluation import embed
from holdfast.models import Embedder, export_int8, export_onnx, load_model
from holdfast.models.bank import SetStart
from holdfast.view import View

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def vectors(file: Path, images: Tensor) -> Tensor:
    """What a stranger with onnxruntime and nothing of ours gets."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


def lively(model: Embedder) -> Embedder:
    """Statistics and weights that a trained BatchNorm could have, so that folding them is put to the test."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.1)
    return model


@pytest.mark.parametrize(
    ("backbone", "settings"),
    [
        ("conv-tiny", {}),
        ("conv-small", {"dim": None}),
        ("mnist-plane", {"dim": 2, "normalize": False}),
        ("resnet18", {"size": 64}),
        ("torchvision:mobilenet_v2", {"size": 64}),
        ("vit_tiny_patch16_224", {"size": 64}),
    ],
)
def test_a_graph_gives_the_vectors_of_torch(backbone: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = lively(Embedder(backbone, **{"dim": 16, **settings})).train()
    file = tmp_path / "model.onnx"
    parity = export_onnx(model, file)
    assert model.training  # it is the caller's
    assert parity.difference <= 1e-5
    assert (parity.bytes, parity.dim, parity.size) == (file.stat().st_size, model.dim, model.size)
    for batch in (1, 5):
        images = torch.rand(batch, 3, model.size, model.size)
        wanted = model.eval()(images).detach()
        torch.testing.assert_close(vectors(file, images), wanted, atol=1e-5 * float(wanted.norm(dim=1).max()), rtol=0)


def test_the_graph_is_plain(tmp_path: Path) -> None:
    export_onnx(lively(Embedder("resnet18", dim=16, size=64)), tmp_path / "model.onnx", notes={"recipe_sha256": "ab"})
    graph = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    operators = {node.op_type for node in graph.graph.node}
    assert not operators & {"BatchNormalization", "SpaceToDepth", "Pad", "If", "Loop"}  # folded; no blocked stem
    assert str(Path(torch.__file__).parent).encode() not in (tmp_path / "model.onnx").read_bytes()
    noted = {entry.key: entry.value for entry in graph.metadata_props}
    wanted = {"backbone": "resnet18", "size": "64", "dim": "16", "unit_length": "yes", "recipe_sha256": "ab"}
    assert {f"holdfast.{key}": value for key, value in wanted.items()}.items() <= noted.items()


def test_of_several_batchnorm_sets_the_clean_one_is_exported(tmp_path: Path) -> None:
    model = lively(Embedder("conv-tiny", dim=8)).eval()
    export_onnx(model, tmp_path / "before.onnx")
    model.bank.add(model.backbone, SetStart("stax", noise=0.5))
    export_onnx(model, tmp_path / "after.onnx")
    images = torch.rand(3, 3, 32, 32)
    assert torch.equal(vectors(tmp_path / "before.onnx", images), vectors(tmp_path / "after.onnx", images))
    assert (tmp_path / "before.onnx").stat().st_size == (tmp_path / "after.onnx").stat().st_size


def test_holdfast_reads_its_own_graph_as_it_was(tmp_path: Path) -> None:
    model = Embedder("mnist-plane", dim=2, canvas=40, normalize=False, fit="pad", interpolation="bicubic").eval()
    export_onnx(model, tmp_path / "model.onnx")
    again = load_model(f"onnx:{tmp_path / 'model.onnx'}")
    assert again.view == model.view == View(28, 40, "pad", "bicubic")
    assert (again.dim, again.normalize) == (2, False)
    images = torch.rand(2, 3, 28, 28)
    torch.testing.assert_close(again(images), model(images).detach())
    with pytest.raises(ModelError, match="ONNX graph already"):
        export_onnx(again, tmp_path / "again.onnx")


def test_graphs_that_note_less(tmp_path: Path) -> None:
    """An older export of ours notes a canvas alone; somebody else's graph nothing."""
    export_onnx(Embedder("conv-tiny", dim=4, canvas=40, interpolation="bicubic"), tmp_path / "model.onnx")
    for left, view in (
        ({"canvas"}, View(32, 40, "squash", "bilinear")),
        (set(), View(32, 32, "crop", "bilinear")),
    ):
        proto = onnx.load(tmp_path / "model.onnx")
        kept = [prop for prop in proto.metadata_props if prop.key.removeprefix("holdfast.") in left]
        del proto.metadata_props[:]
        proto.metadata_props.extend(kept)
        onnx.save(proto, tmp_path / "other.onnx")
        assert load_model(f"onnx:{tmp_path / 'other.onnx'}").view == view


def test_neighbours_on_the_test_set_are_those_of_torch(tmp_path: Path) -> None:
    table = load({"name": "glyphs", "characters": 120, "per_class": 5}).split("test")
    model = lively(Embedder("conv-tiny", dim=16)).eval()
    store = ImageStore(table, model.view, "cpu")
    images = store.inputs(torch.arange(len(store)))
    parity = export_onnx(model, tmp_path / "model.onnx", images=images)
    assert parity.real_images == len(table)
    assert_same_neighbours(embed(model, store), vectors(tmp_path / "model.onnx", images))


@pytest.mark.slow
def test_neighbours_of_a_trained_model(tiny: dict[str, Any], tmp_path: Path) -> None:
    from holdfast import train

    run = train({**tiny, "epochs": 10}, data="glyphs", out=tmp_path / "run")
    model = load_model(str(run.folder))
    store = ImageStore(load("glyphs").split("test"), model.view, "cpu")
    export_onnx(model, tmp_path / "model.onnx")
    images = store.inputs(torch.arange(len(store)))
    assert_same_neighbours(embed(model, store), vectors(tmp_path / "model.onnx", images))


def assert_same_neighbours(of_torch: Tensor, of_onnx: Tensor, count: int = 10) -> None:
    """The ranked neighbours agree except among those as near as rounding can tell."""
    distances = torch.cdist(of_torch.double(), of_torch.double()).fill_diagonal_(torch.inf)
    found = torch.cdist(of_onnx.double(), of_onnx.double()).fill_diagonal_(torch.inf).topk(count, largest=False)
    nearest = distances.topk(count, largest=False)
    same = found.indices == nearest.indices
    tied = (distances.gather(1, found.indices) - nearest.values).abs() < 1e-5
    assert bool((same | tied).all())
    assert float(same.double().mean()) > 0.999


def test_the_command_compares_on_real_images_and_judges_int8(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    lively(Embedder("conv-tiny", dim=16)).save_pretrained(run / "model")
    (run / "recipe.yaml").write_text("loss: {name: margin}\n")
    photos = tmp_path / "photos"
    draw = torch.Generator().manual_seed(0)
    for label in range(6):
        base = torch.randint(0, 255, (32, 32, 3), generator=draw)
        for number in range(4):
            pixels = (base + torch.randint(-20, 20, base.shape, generator=draw)).clamp(0, 255).to(torch.uint8)
            (photos / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.numpy()).save(photos / str(label) / f"{number}.png")
    command = ["export", str(run), "--onnx", str(tmp_path / "out" / "model.onnx"), "--json"]
    assert main([*command, "--data", f"folder:{photos}", "--split", "all"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["real_images"] == 24
    assert shown["difference"] <= 1e-5
    notes = {entry.key: entry.value for entry in onnx.load(shown["file"]).metadata_props}
    assert notes["holdfast.recipe_sha256"] == hashlib.sha256((run / "recipe.yaml").read_bytes()).hexdigest()
    assert main([*command, "--data", f"folder:{photos}", "--split", "all", "--int8"]) == 0
    recall = json.loads(capsys.readouterr().out)["recall"]
    assert recall["int8"] >= recall["torch"] - 1
    assert main([*command, "--int8"]) == 2
    assert "give --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--onnx", "{tmp}/new.onnx", "--split", "all"], "--split has no effect here: it is about --data"),
        (["--onnx", "{tmp}/new.onnx", "--skip-bad"], "--skip-bad has no effect here: it is about --data"),
        (["--onnx", "{tmp}"], "{tmp} is a folder; name the file: --onnx {tmp}/model.onnx"),
        (["--onnx", "/proc/new/x.onnx"], "give another --onnx"),
    ],
)
def test_mistakes_of_the_command_are_one_line(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Embedder("conv-tiny", dim=4).save_pretrained(tmp_path / "package")
    assert main(["export", str(tmp_path / "package"), *(word.format(tmp=tmp_path) for word in words)]) == 2
    error = capsys.readouterr().err.strip()
    assert says.format(tmp=tmp_path) in error
    assert error.count("\n") == 0
    assert [file.name for file in tmp_path.iterdir()] == ["package"]


def test_a_graph_that_differs_is_not_written(tmp_path: Path) -> None:
    class Restless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(12, 4))

        def forward(self, images: Tensor) -> Tensor:
            pooled = nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)
            return (pooled + torch.rand_like(pooled)) @ self.weight

    file = tmp_path / "model.onnx"
    file.write_bytes(b"older")
    with pytest.raises(ModelError, match=r"differs from torch by .*; nothing was written"):
        export_onnx(Embedder.wrap(Restless(), size=8), file)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {"model.onnx": b"older"}


@pytest.mark.parametrize("opset", [12, 21])
def test_opsets_outside_the_range_are_refused(opset: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"opset must be 13 to 20, got {opset}"):
        export_onnx(Embedder("conv-tiny", dim=4), tmp_path / "model.onnx", opset=opset)


def test_what_onnx_cannot_express_is_one_line(tmp_path: Path) -> None:
    class Eigen(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.linalg.eigvalsh(images[:, 0])

    with pytest.raises(ModelError, match="no ONNX form at opset 17") as caught:
        export_onnx(Embedder.wrap(Eigen(), size=8), tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


def test_int8_is_kept_only_if_it_finds_as_much(tmp_path: Path) -> None:
    model = lively(Embedder("conv-tiny", dim=16)).eval()
    images = torch.rand(32, 3, 32, 32)
    asked: list[Embedder] = []

    def score(judged: Embedder, loss: float) -> float:
        asked.append(judged)
        return 80.0 - loss * (len(asked) - 1)

    with pytest.raises(ModelError, match=r"R@1 from 80\.0 to 78\.5, more than 1 point; nothing was written"):
        export_int8(model, tmp_path / "model.onnx", images=images, score=lambda judged: score(judged, 1.5))
    assert not list(tmp_path.iterdir())
    asked.clear()
    done = export_int8(model, tmp_path / "model.onnx", images=images, score=lambda judged: score(judged, 0.5))
    assert done.recall == {"torch": 80.0, "int8": 79.5}
    assert asked[0] is model
    cosines = (vectors(tmp_path / "model.onnx", images) * model(images).detach()).sum(1)
    assert float(cosines.min()) > 0.98
    assert not torch.equal(asked[1](images), model(images))  # the integers were judged, not the floats
    initialisers = onnx.load(tmp_path / "model.onnx").graph.initializer
    assert any(t.data_type == onnx.TensorProto.INT8 and len(t.dims) == 4 for t in initialisers)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_graph_for_batches_of_one_size_takes_any_number_of_images(batch: int, tmp_path: Path) -> None:
    """As torch exports it by default."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()).eval()
    file, images = tmp_path / "fixed.onnx", torch.rand(6, 3, 16, 16)
    torch.onnx.export(net, (images[:batch],), str(file), dynamo=False)
    with torch.no_grad():
        expected = nn.functional.normalize(net(images))
    torch.testing.assert_close(load_model(f"onnx:{file}", 16)(images), expected, rtol=1e-4, atol=1e-5)
