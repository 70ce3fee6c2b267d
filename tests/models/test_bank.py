from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import holdfast
from holdfast.errors import ModelError, RecipeError
from holdfast.models import Embedder
from holdfast.models.bank import BANK_FILE, BatchNormBank, SetStart, batchnorm_layers
from holdfast.models.embedder import Through
from holdfast.training.checkpoint import load_checkpoint, save_checkpoint
from holdfast.training.optimizers import Average
from holdfast.training.recipe import load_recipe
from holdfast.training.session import build_session
from meeting import side_by_side


class Odd(nn.Module):
    """Every kind of BatchNorm layer a user may have, one of them used twice and two with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.twice = nn.BatchNorm2d(4)
        self.plain = nn.BatchNorm2d(4, affine=False)
        self.mean = nn.BatchNorm2d(4, momentum=None)
        self.mean.weight = self.twice.weight
        self.flat = nn.BatchNorm1d(16)
        self.forgets = nn.BatchNorm1d(16, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.twice(torch.tanh(self.twice(self.conv(x))))
        x = self.mean(self.plain(x))
        return self.forgets(self.flat(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)))


def odd(size: int = 8) -> Embedder:
    return Embedder.wrap(Odd(), size=size, canvas=size)


def named(name: str) -> Embedder:
    return odd() if name == "odd" else Embedder(name, dim=6, size=32)


def with_sets(model: Embedder, *names: str, noise: float = 0.3) -> Embedder:
    for name in names:
        model.bank.add(model.backbone, SetStart(name, noise))
    return model


def tiny() -> Embedder:
    return with_sets(Embedder("conv-tiny", dim=6), "a", "b")


def pictures(model: Embedder, count: int = 6) -> Tensor:
    return torch.rand(count, 3, model.size, model.size, generator=torch.Generator().manual_seed(0))


def screwed_in(model: Embedder, name: str) -> Embedder:
    """The network with a set in place of its own, for good: what a pass through the set must be equal to."""
    made = copy.deepcopy(model)
    for own, other in zip(batchnorm_layers(made.backbone), made.bank.sets[name], strict=True):  # type: ignore[call-overload]
        own.load_state_dict(other.state_dict(), strict=False)
    return made


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def clean_state(model: Embedder) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("bank.")}


BACKBONES = ["conv-small", "resnet18", "mobilenetv3_small_050", "efficientnet_b0", "torchvision:mobilenet_v2", "odd"]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", BACKBONES)
def test_any_backbone_through_a_set_is_the_network_with_that_set(name: str, training: bool) -> None:
    noise = 0.0 if name == "odd" else 0.3  # a shared weight takes noise once per layer in the copy
    model = with_sets(named(name), "a", noise=noise).eval()
    for layer in [m for m in model.backbone.modules() if isinstance(m, nn.Dropout)]:
        layer.p = 0.0
    with torch.no_grad():
        for tensor in model.bank.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(1.3)
    images = pictures(model)
    for layers in (model.bank.sets["a"], batchnorm_layers(model.backbone)):
        assert all(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in layers)  # type: ignore[union-attr]
    model.train(training)
    oracle = screwed_in(model, "a")
    assert oracle.training == training
    before = copied(clean_state(model))
    z = model(images, distribution="a")
    expected = oracle(images)
    assert torch.equal(z, expected)
    assert not torch.equal(z, copy.deepcopy(model)(images))
    found = copied(model.bank.tensors("a"))
    after = {k.removeprefix("backbone."): v for k, v in oracle.state_dict().items()}
    assert all(torch.equal(tensor, after[place]) for place, tensor in found.items()), "its statistics, and only its"
    assert all(torch.equal(tensor, before[place]) for place, tensor in clean_state(model).items())
    if training:
        expected.square().sum().backward()
        z.square().sum().backward()
        own, theirs = dict(model.named_parameters()), dict(oracle.named_parameters())
        for place in {p.removeprefix("backbone.") for p in own if p.startswith("backbone.")}:
            gradient = theirs[f"backbone.{place}"].grad
            mine = model.bank.tensors("a").get(place, own[f"backbone.{place}"]).grad
            assert (mine is None) == (gradient is None)
            assert mine is None or torch.equal(mine, gradient), place  # type: ignore[arg-type]
        assert all(layer.weight.grad is None for layer in batchnorm_layers(model.backbone) if layer.affine)


@settings(max_examples=20, deadline=None)
@given(path=st.lists(st.sampled_from(["clean", "a", "b"]), min_size=1, max_size=6))
def test_a_pass_changes_the_statistics_of_its_own_set_alone(path: list[str]) -> None:
    model = tiny().train()
    for distribution in path:
        before = {"clean": copied(clean_state(model)), **{n: copied(model.bank.tensors(n)) for n in ("a", "b")}}
        model(pictures(model), distribution=distribution)
        after = {"clean": clean_state(model), **{n: model.bank.tensors(n) for n in ("a", "b")}}
        for name in before:
            same = all(torch.equal(before[name][k], after[name][k]) for k in before[name])
            assert same == (name != distribution)


def test_parts_of_one_batch_through_different_sets_learn_together() -> None:
    """One backward over the joined parts: each set has the gradient of its own part, shared weights that of all."""
    model = tiny().double().train()
    images = pictures(model, 12).double()
    parts = dict(zip(("clean", "a", "b"), images.tensor_split(3), strict=True))
    alone = {name: (screwed_in(model, name) if name != "clean" else copy.deepcopy(model)) for name in parts}
    passes = {name: alone[name](part) for name, part in parts.items()}
    joined = torch.cat([model(part, distribution=name) for name, part in parts.items()])
    assert torch.equal(joined, torch.cat(list(passes.values())))
    for z in (joined, torch.cat(list(passes.values()))):  # a loss between the parts, as one over the whole batch is
        (z @ z.T).pow(3).sum().backward()
    gradients = {name: {k: p.grad for k, p in net.named_parameters()} for name, net in alone.items()}
    own = model.bank.tensors("a").keys()
    for place, weight in model.named_parameters():
        if place.startswith("bank."):
            continue
        short = place.removeprefix("backbone.")
        if short in own:
            for name in parts:
                found = weight if name == "clean" else model.bank.tensors(name)[short]
                torch.testing.assert_close(found.grad, gradients[name][place])
        else:
            total = torch.stack([gradients[name][place] for name in parts]).sum(0)  # type: ignore[arg-type]
            torch.testing.assert_close(weight.grad, total)


def test_a_new_set_copies_the_present_weights_and_noise_is_drawn_from_its_generator() -> None:
    model = Embedder("conv-tiny", dim=6).train()
    model(pictures(model))
    model.bank.add(model.backbone, SetStart("same"))
    model.bank.add(model.backbone, SetStart("fresh", fresh=True))
    for name, seed in (("n1", 1), ("n2", 1), ("n3", 2)):
        model.bank.add(model.backbone, SetStart(name, 0.5), torch.Generator().manual_seed(seed))
    own = {k.removeprefix("backbone."): v for k, v in clean_state(model).items()}
    for place, tensor in model.bank.tensors("same").items():
        assert torch.equal(tensor, own[place])
        assert tensor.data_ptr() != own[place].data_ptr()
    fresh = model.bank.tensors("fresh")
    assert all(not bool(t.any()) for k, t in fresh.items() if "running_mean" in k or "tracked" in k)
    assert all(torch.equal(t, own[k]) for k, t in fresh.items() if k.endswith(("weight", "bias")))
    first, second, third = (model.bank.tensors(n) for n in ("n1", "n2", "n3"))
    moved = torch.cat([(t.detach() - own[k]).flatten() for k, t in first.items() if k.endswith(("weight", "bias"))])
    assert 0.4 < float(moved.std()) < 0.6
    assert all(torch.equal(t, second[k]) for k, t in first.items())
    assert not torch.equal(first["1.weight"], third["1.weight"])
    assert all(torch.equal(t, own[k]) for k, t in first.items() if "running" in k)


def test_names() -> None:
    model = tiny()
    with pytest.raises(ModelError, match="unknown BatchNorm set 'stx'"):
        model(pictures(model), distribution="stx")
    with pytest.raises(ModelError, match="'a' already"):
        model.bank.add(model.backbone, SetStart("a"))
    for name in ("clean", "", "a.b", "items", "training", "a b", "../a", "x" * 65, "-a"):
        with pytest.raises(ModelError, match="cannot name a distribution"):
            model.bank.add(model.backbone, SetStart(name))
    assert model.bank.names() == ["a", "b"]


def test_drift() -> None:
    model = with_sets(Embedder.wrap(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()), size=4), "a", "b", noise=0)
    assert model.bank.drift(model.backbone)["b"] == {"0": {"weight": 0, "bias": 0, "running_mean": 0, "running_var": 0}}
    with torch.no_grad():
        layer = model.bank.sets["a"][0]  # type: ignore[index]
        layer.weight += torch.tensor([3.0, 0, -4.0])
        layer.running_var *= 3
        model.backbone[0].bias += 0.5  # type: ignore[index, operator]
    found = model.bank.drift(model.backbone)
    assert json.loads(json.dumps(found)) == found
    assert found["a"]["0"] == pytest.approx(
        {"weight": (25 / 3) ** 0.5, "bias": 0.5, "running_mean": 0.0, "running_var": 2.0}
    )
    assert found["b"]["0"]["bias"] == 0.5
    strange = with_sets(odd(), "a", noise=0)
    assert strange.bank.drift(strange.backbone)["a"]["forgets"] == {"weight": 0, "bias": 0}
    assert strange.bank.drift(strange.backbone)["a"]["plain"] == {"running_mean": 0, "running_var": 0}


@pytest.mark.parametrize("policy", ["train", "freeze-statistics", "freeze"])
def test_the_policy_holds_for_every_set(policy: Any) -> None:
    model = with_sets(Embedder("conv-tiny", dim=6, batchnorm=policy), "a").train()
    before = copied(model.bank.tensors("a"))
    model(pictures(model), distribution="a").sum().backward()
    after = model.bank.tensors("a")
    assert all(torch.equal(t, after[k]) for k, t in before.items() if "running" in k) == (policy != "train")
    assert all(p.requires_grad == (policy != "freeze") for p in model.bank.parameters())


def test_a_look_leaves_no_trace_and_sees_batch_statistics() -> None:
    from holdfast.attacks.frozen import frozen

    model = tiny().train()
    view, before = Through(model, "a"), copied(model.state_dict())
    with frozen(view, "keep"), torch.no_grad():
        kept = view(pictures(model))
    with frozen(view, "eval"), torch.no_grad():
        running = view(pictures(model))
    assert not torch.allclose(kept, running)
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())
    assert view.training
    assert all(p.requires_grad for p in model.parameters())


def test_channels_last_and_double() -> None:
    model = tiny().double().to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    plain = copy.deepcopy(model).to(memory_format=torch.contiguous_format)
    images = pictures(model).double()
    for name in ("clean", "a"):
        found = model(images.to(memory_format=torch.channels_last), distribution=name)
        torch.testing.assert_close(found, plain(images, distribution=name))


def test_the_average_has_sets_of_its_own() -> None:
    model = tiny().train()
    average = Average(model, 0.75)
    before = copied(model.bank.tensors("a"))
    average.update(model)
    with torch.no_grad():
        for tensor in model.bank.tensors("a").values():
            tensor.add_(1)
    average.update(model)
    for place, tensor in average.model.bank.tensors("a").items():
        expected = before[place] + (1 if "running" in place or "tracked" in place else 1 / (1 + 0.75))
        torch.testing.assert_close(tensor, expected)


def test_packages_hold_the_clean_set_and_the_others_beside_it(tmp_path: Path) -> None:
    model = tiny().train()
    for name in ("clean", "a", "b"):
        model(pictures(model), distribution=name)
    model.eval().save_pretrained(tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {"config.json", "model.safetensors", "README.md", BANK_FILE}
    assert load_file(tmp_path / "model.safetensors").keys() == clean_state(model).keys()
    again = Embedder.from_pretrained(str(tmp_path))
    assert len(again.bank) == 0
    assert torch.equal(again(pictures(model)), model(pictures(model)))
    again.bank.load(again.backbone, tmp_path)
    for name in ("a", "b"):
        assert torch.equal(again(pictures(model), distribution=name), model(pictures(model), distribution=name))
    assert model.bank.names() == ["a", "b"], "saving gives the sets back"
    Embedder.from_pretrained(str(tmp_path)).save_pretrained(tmp_path)
    assert not (tmp_path / BANK_FILE).exists(), "sets of another model are not left behind"


def test_sets_of_odd_layers_can_be_kept_too(tmp_path: Path) -> None:
    model = with_sets(odd(), "a").eval()
    model.bank.save(tmp_path)
    found = BatchNormBank(model.backbone)
    found.load(model.backbone, tmp_path)
    assert all(torch.equal(t, found.tensors("a")[k]) for k, t in model.bank.tensors("a").items())


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"weight": torch.zeros(2)},
        {"sets.a.0.weight": torch.zeros(16)},
        {"sets.clean": None},
        {"sets.x": torch.zeros(5)},
        {"sets.b.0.weight": torch.zeros(7)},
        {"sets.a.9.weight": torch.zeros(16)},
        {"model.a.0.weight": torch.zeros(16)},
        {"sets.a.0.weight.x": torch.zeros(16)},
    ],
    ids=lambda tensors: next(iter(tensors), "empty"),
)
def test_a_file_of_other_sets_is_refused_and_nothing_is_taken_from_it(
    tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    model = with_sets(Embedder("conv-tiny", dim=6), "b")
    state = {k: v.clone() for k, v in model.bank.state_dict().items()}
    if "sets.clean" in tensors:
        tensors = {k.replace("sets.b", "sets.clean"): v for k, v in state.items()}
    elif "sets.x" in tensors or "sets.b.0.weight" in tensors:
        tensors = {**state, **tensors}
    save_file(tensors, tmp_path / BANK_FILE)
    if not tensors:
        model.bank.load(model.backbone, tmp_path)
        assert len(model.bank) == 0, "a file of no sets holds no sets"
        return
    with pytest.raises(ModelError, match="does not fit its model") as caught:
        model.bank.load(model.backbone, tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert model.bank.names() == ["b"]


@settings(max_examples=40, deadline=None)
@given(cut=st.floats(0, 0.999), flip=st.booleans(), byte=st.integers(1, 255))
def test_a_damaged_file_is_one_clear_error_or_other_numbers(
    tmp_path_factory: pytest.TempPathFactory, cut: float, flip: bool, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("package")
    model = tiny()
    model.bank.save(folder)
    content = bytearray((folder / BANK_FILE).read_bytes())
    place = int(cut * len(content))
    if flip:
        content[place] ^= byte
    (folder / BANK_FILE).write_bytes(content if flip else content[:place])
    found = BatchNormBank(model.backbone)
    try:
        found.load(model.backbone, folder)
    except ModelError:
        assert len(found) == 0
    else:
        assert flip
        assert len(found) == 2


def mdprop_recipe(**more: Any) -> dict[str, Any]:
    return {
        "data": {"name": "glyphs", "characters": 40, "per_class": 6, "validation": 0.2},
        "model": {"backbone": "conv-tiny", "dim": 16},
        "batch": {"classes": 7, "per_class": 3},
        "augment": {"name": "random-crop", "padding": 2},
        "loss": {"name": "multi-similarity"},
        "regime": {
            "name": "mdprop",
            "distributions": [
                {"name": "stax", "goal": "single-target", "noise": 0.1},
                {"name": "mtax", "goal": {"name": "multi-target", "targets": 5}},
            ],
        },
        "optimizer": {"name": "adam", "lr": 0.003},
        "epochs": 1,
        **more,
    }


def test_after_training_the_packaged_model_is_the_clean_path_to_the_bit(tmp_path: Path) -> None:
    run = holdfast.train(mdprop_recipe(), out=tmp_path / "run")
    session = build_session(load_recipe(mdprop_recipe()), "cpu", False)
    found = load_checkpoint(run.folder / "checkpoint")
    assert found is not None
    session.restore(found)
    trained = session.model.eval()
    assert trained.bank.names() == ["stax", "mtax"]
    packaged = holdfast.models.load_model(str(run.folder / "last")).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert len(packaged.bank) == 0
    images = pictures(trained, 16)
    assert torch.equal(packaged(images), trained(images))
    assert not torch.equal(trained(images, distribution="stax"), trained(images))
    drift = trained.bank.drift(trained.backbone)
    assert min(gap for layers in drift.values() for layer in layers.values() for gap in layer.values()) > 0
    both = holdfast.models.load_model(str(run.folder / "last"), sets=True).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert torch.equal(both(images, distribution="mtax"), trained(images, distribution="mtax"))


def test_sets_start_from_the_run_to_start_from_and_survive_a_checkpoint(tmp_path: Path) -> None:
    first = Embedder("conv-tiny", dim=16).train()
    first(pictures(first))
    first.save_pretrained(tmp_path / "first")
    recipe = load_recipe(mdprop_recipe(init=str(tmp_path / "first"), ema=0.9))
    session = build_session(recipe, "cpu", False)
    own = {k.removeprefix("backbone."): v for k, v in first.state_dict().items()}
    assert all(torch.equal(t, own[k]) for k, t in session.model.bank.tensors("mtax").items())
    assert not torch.equal(session.model.bank.tensors("stax")["1.weight"], own["1.weight"])
    trained = {id(p) for group in session.optimizer.param_groups for p in group["params"]}
    assert all(id(p) in trained for p in session.model.bank.parameters())
    with torch.no_grad():
        for tensor in session.model.bank.tensors("stax").values():
            tensor.add_(1)
    save_checkpoint(tmp_path / "checkpoint", session.checkpoint(3))
    again = build_session(recipe, "cpu", False)
    found = load_checkpoint(tmp_path / "checkpoint")
    assert found is not None
    again.restore(found)
    for name, tensor in session.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name])
    assert again.average is not None
    assert torch.equal(again.average.model.bank.sets["mtax"][0].weight, own["1.weight"])


def test_frozen_batchnorm_and_sets_to_learn_are_refused_together() -> None:
    recipe = mdprop_recipe(model={"backbone": "conv-tiny", "dim": 16, "batchnorm": "freeze"})
    with pytest.raises(RecipeError, match="freeze forbids"):
        build_session(load_recipe(recipe), "cpu", False)


@pytest.mark.parametrize("policy", ["freeze-statistics", "freeze"])
def test_statistics_from_scratch_must_be_learnt(policy: str) -> None:
    model = {"backbone": "conv-tiny", "dim": 16, "batchnorm": policy}
    recipe = mdprop_recipe(model=model, regime={"name": "mdprop", "variant": "released"})
    with pytest.raises(RecipeError, match=f"mdprop starts .* scratch, and model.batchnorm: {policy} .*; use train"):
        build_session(load_recipe(recipe), "cpu", False)


@pytest.mark.parametrize("regime", ["mdprop", "advprop-d"])
def test_sets_for_a_backbone_without_batchnorm_are_refused(regime: str) -> None:
    model = {"backbone": "convnext_atto", "dim": 16, "size": 32, "canvas": 32}
    recipe = load_recipe(mdprop_recipe(model=model, regime=regime))
    with pytest.raises(RecipeError, match="has no BatchNorm layers; choose another backbone, or regime: at or adml"):
        build_session(recipe, "cpu", False)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_there_is_one_graph_per_set_and_mode(backend: str) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    plain = tiny()
    model = copy.deepcopy(plain)
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for _ in range(3):
        for mode in (True, False):
            compiled.train(mode)
            plain.train(mode)
            found = [compiled(pictures(plain), distribution=name) for name in ("clean", "a", "b")]
            expected = [plain(pictures(plain), distribution=name) for name in ("clean", "a", "b")]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        compiled.train()
        plain.train()
        for net in (compiled, plain):
            sum(net(pictures(plain), distribution=n).pow(3).sum() for n in ("clean", "a", "b")).backward()
    assert counter.frame_count == 6
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(model.state_dict(), plain.state_dict(), atol=1e-5, rtol=1e-4)


def several_passes(net: nn.Module, model: Embedder, images: Tensor) -> dict[str, Tensor]:
    """Gradients of one backward over three distributions."""
    model.zero_grad()
    passes = [net(images, distribution=name) for name in ("clean", "a", "b")]
    sum(weight * z.pow(3).mean() for weight, z in enumerate(passes, start=1)).backward()  # type: ignore[union-attr]
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def parallel_model() -> tuple[Embedder, Tensor]:
    torch.manual_seed(0)
    model = with_sets(Embedder("conv-tiny", dim=6, batchnorm="freeze-statistics"), "a", "b").double().train()
    return model, pictures(model, 8).double()


def worker(rank: int, folder: str) -> None:
    if Path("/sys/class/net/lo").exists():  # both processes are here; the host's name need not resolve
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model, images = parallel_model()
    for broadcast in (True, False):
        net = DistributedDataParallel(model, broadcast_buffers=broadcast)
        found = several_passes(net, model, images[4 * rank : 4 * rank + 4])
        torch.save(found, Path(folder) / f"{rank}-{broadcast}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_with_several_passes_before_one_backward(tmp_path: Path) -> None:
    side_by_side(worker, (str(tmp_path),), 2)
    model, images = parallel_model()
    expected = several_passes(model, model, images)
    assert len(expected) == len(list(model.parameters()))
    files = sorted(tmp_path.glob("*.pt"))
    assert len(files) == 4
    for file in files:
        torch.testing.assert_close(torch.load(file, weights_only=True), expected)
