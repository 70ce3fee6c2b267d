from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from holdfast.errors import ModelError
from holdfast.models import Embedder, ModelConfig
from holdfast.models.weights import load_backbone_weights, use_stride_1x1


def _strides(embedder: Embedder) -> list[tuple[int, int]]:
    layers = [embedder.backbone.get_submodule(f"layer{i}.0") for i in (2, 3, 4)]
    return [(layer.conv1.stride[0], layer.conv2.stride[0]) for layer in layers]  # type: ignore[union-attr,index]


def test_the_two_resnet_layouts() -> None:
    assert _strides(Embedder("resnet50", dim=4)) == [(1, 2)] * 3
    moved = Embedder("resnet50", dim=4, layout="stride-1x1").eval()
    assert _strides(moved) == [(2, 1)] * 3
    assert moved(torch.rand(1, 3, 64, 64)).shape == (1, 4)
    with pytest.raises(ModelError, match="bottleneck"):
        use_stride_1x1(Embedder("resnet18", dim=4).backbone)


@pytest.mark.parametrize("prefix", ["", "module.", "backbone."])
@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_files_load_whatever_their_wrapping(prefix: str, suffix: str, tmp_path: Path) -> None:
    source = Embedder("resnet18", dim=None)
    state = {prefix + k: v.half() if v.ndim == 4 else v for k, v in source.backbone.state_dict().items()}
    state |= {f"{prefix}fc.weight": torch.zeros(10, 512)}
    file = tmp_path / f"weights{suffix}"
    if suffix == ".pt":
        torch.save(state, file)
    else:
        save_file(state, file)
    target = ModelConfig(backbone="resnet18", dim=None, weights=str(file)).build()
    for name, value in target.backbone.state_dict().items():
        torch.testing.assert_close(value, source.backbone.state_dict()[name], rtol=1e-3, atol=1e-4)
        assert value.dtype != torch.float16


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    file = tmp_path / "small.safetensors"
    save_file(Embedder("resnet18", dim=None).backbone.state_dict(), file)
    with pytest.raises(ModelError, match="does not fit resnet50"):
        load_backbone_weights(Embedder("resnet50", dim=None).backbone, "resnet50", str(file))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    backbone = Embedder("conv-tiny").backbone
    with pytest.raises(ModelError, match="no weights at"):
        load_backbone_weights(backbone, "conv-tiny", str(tmp_path / "nothing.safetensors"))
    for name in ("bad.safetensors", "bad.pt"):
        (tmp_path / name).write_bytes(b"not a model")
        with pytest.raises(ModelError, match="cannot read weights"):
            load_backbone_weights(backbone, "conv-tiny", str(tmp_path / name))


@pytest.mark.parametrize("content", [[torch.zeros(1)], torch.zeros(1), {"state_dict": [1]}])
def test_a_torch_file_of_something_else(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(ModelError, match="instead of tensors by name"):
        load_backbone_weights(Embedder("conv-tiny").backbone, "conv-tiny", str(tmp_path / "other.pt"))


def test_a_pickle_with_code_is_not_executed(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (Path(tmp_path / "owned"),))  # type: ignore[return-value]

    torch.save({"layer": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ModelError, match=r"cannot read weights.*never loaded; use a safetensors file") as caught:
        load_backbone_weights(Embedder("conv-tiny").backbone, "conv-tiny", str(tmp_path / "evil.pt"))
    assert "weights_only" not in str(caught.value), "torch's own text says how to run the code after all"
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("resnet50-imagenet-stride1x1.safetensors", {"backbone": "resnet50", "layout": "stride-1x1"}),
        ("mobilenet_v2-imagenet.safetensors", {"backbone": "torchvision:mobilenet_v2"}),
    ],
)
def test_shared_weights_load(file: str, arguments: dict[str, str], shared: Path) -> None:
    embedder = ModelConfig(dim=None, weights=str(shared / file), **arguments).build().eval()  # type: ignore[arg-type]
    z = embedder(torch.rand(2, 3, 224, 224)).detach()
    assert torch.isfinite(z).all()
    assert float(z[0] @ z[1]) > 0.5, "two noise images look alike to a trained network"
