"""S2SD against loops written from its formula, what its gradients reach, and how training carries its heads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_batches import batch
from safetensors.torch import load_file
from torch import Generator, Tensor

import holdfast
from holdfast import losses, mining
from holdfast.errors import ModelError, RecipeError
from holdfast.losses import Criterion, Encoded
from holdfast.losses.s2sd import S2SD
from holdfast.mining import Triplets
from holdfast.training import captured
from holdfast.training.checkpoint import load_checkpoint

FEATURES = 8
MINED = {"name": "multi-similarity", "miner": "multi-similarity"}


def build(**arguments: Any) -> S2SD:
    """Small heads over eight features; float64."""
    options = {"dims": [4, 7], "feature_after": 5, "classes": 5, "dim": 6, "features": FEATURES, **arguments}
    loss = losses.build("s2sd", **options)
    assert isinstance(loss, S2SD)
    return loss.double()


def encoded(seed: int = 0) -> Encoded:
    """A batch whose features are not those its embeddings come from: every term is free to differ."""
    z, labels = batch(seed)
    pooled = torch.randn(len(z), FEATURES, generator=Generator().manual_seed(seed + 100), dtype=torch.float64)
    return Encoded(z.double().requires_grad_(), pooled.requires_grad_(), labels)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def divergence_by_hand(target: Tensor, seen: Tensor, temperature: float) -> float:
    """KL of the rows' softmaxes over all pairs of the batch, element by element."""
    total, n = 0.0, len(seen)
    for i in range(n):
        wanted = [math.exp(cosine(target[i], target[j]) / temperature) for j in range(n)]
        found = [math.exp(cosine(seen[i], seen[j]) / temperature) for j in range(n)]
        for p, q in zip(wanted, found, strict=True):
            total += p / sum(wanted) * math.log((p / sum(wanted)) / (q / sum(found)))
    return temperature**2 * total / n


def head_by_hand(head: torch.nn.Module, features: Tensor) -> Tensor:
    """Linear, ReLU, Linear, unit length."""
    first, _, second = head.children()
    hidden = (features @ first.weight.T + first.bias).clamp_min(0)
    out = hidden @ second.weight.T + second.bias
    return out / out.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("inner", [MINED, "triplet", {"name": "margin", "beta": 1.1}, "proxy-anchor"])
@pytest.mark.parametrize("step", [4, 5])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_formula(inner: Any, step: int, temperature: float) -> None:
    loss, given_batch = build(loss=inner, temperature=temperature, weight=3.0, feature_weight=7.0), encoded()
    with torch.no_grad():
        z, pooled, labels, _ = given_batch
        wide = [head_by_hand(head, pooled) for head in loss.heads]
        own = float(loss.loss(z, labels))
        others = [float(copy(w, labels)) for copy, w in zip(loss.head_losses, wide, strict=True)]
        expected = (own + sum(others) / 2) / 2
        expected += 3.0 * sum(divergence_by_hand(w, z, temperature) for w in wide) / 2
        if step >= 5:
            expected += 7.0 * divergence_by_hand(pooled, z, temperature)
    found = Criterion(loss)(given_batch, step=step).detach()
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_gradients_are_those_of_the_formula_with_its_targets_held_constant() -> None:
    loss, (z, pooled, labels, _) = build(), encoded(1)
    Criterion(loss)(Encoded(z, pooled, labels), step=9).backward()
    with torch.no_grad():
        targets = [*(head_by_hand(head, pooled) for head in loss.heads), pooled.clone()]

    def value(z: Tensor, pooled: Tensor) -> float:
        wide = [head_by_hand(head, pooled) for head in loss.heads]
        own = float(loss(z, labels)) + sum(float(loss(w, labels)) for w in wide) / 2
        heads = sum(divergence_by_hand(target, z, 1.0) for target in targets[:-1]) / 2
        return own / 2 + 50 * heads + 50 * divergence_by_hand(targets[-1], z, 1.0)

    assert z.grad is not None
    assert pooled.grad is not None
    tiny = 1e-6
    for leaf, at in ((z, lambda d: (z + d, pooled)), (pooled, lambda d: (z, pooled + d))):
        direction = torch.randn(leaf.shape, generator=Generator().manual_seed(3), dtype=torch.float64)
        with torch.no_grad():
            slope = (value(*at(tiny * direction)) - value(*at(-tiny * direction))) / (2 * tiny)
        assert float((leaf.grad * direction).sum()) == pytest.approx(slope, rel=1e-5)


def test_heads_learn_from_their_own_loss_only() -> None:
    """The distillation weights move the embedding and leave heads and features alone."""
    gradients = []
    for weight in (0.0, 50.0):
        torch.manual_seed(0)
        loss, given_batch = build(weight=weight, feature_weight=weight), encoded(2)
        Criterion(loss)(given_batch, step=9).backward()
        heads = [p.grad for p in loss.heads.parameters()]
        assert all(g is not None and g.norm() > 0 for g in heads)
        gradients.append((given_batch.z.grad, given_batch.pooled.grad, *heads))
    (z, *rest), (distilled, *same) = gradients
    assert not torch.allclose(z, distilled)
    assert all(torch.equal(a, b) for a, b in zip(rest, same, strict=True))


def test_given_tuples_are_learnt_by_every_head() -> None:
    loss, given_batch = build(loss="triplet", weight=0, feature_weight=0), encoded(3)
    z, pooled, labels, _ = given_batch
    assert loss.on_triplets
    assert not build().on_triplets
    triplets = mining.build("random")(z, labels, Generator().manual_seed(4))
    assert isinstance(triplets, Triplets)
    some = Triplets(*(index[:3] for index in triplets))
    parts = [loss.loss(z, labels, some)]
    parts += [c(head_by_hand(h, pooled), labels, some) for h, c in zip(loss.heads, loss.head_losses, strict=True)]
    torch.testing.assert_close(Criterion(loss)(given_batch, some), (parts[0] + (parts[1] + parts[2]) / 2) / 2)
    assert Criterion(loss)(given_batch, some) != Criterion(loss)(given_batch)


def test_every_head_has_a_loss_of_its_own_size() -> None:
    loss = build(loss={"name": "trimmed", "loss": "proxy-anchor"})
    shapes = [tuple(p.shape) for part in (loss.loss, *loss.head_losses) for p in part.parameters()]
    assert shapes == [(5, 6), (5, 4), (5, 7)]


@settings(max_examples=20, deadline=None)
@given(step=st.integers(0, 12), after=st.integers(0, 12))
def test_feature_distillation_depends_on_the_step_alone(step: int, after: int) -> None:
    torch.manual_seed(0)
    loss, given_batch = build(feature_after=after), encoded()
    criterion = Criterion(loss)
    with torch.no_grad():
        early, late = criterion(given_batch, step=0), criterion(given_batch, step=12)
        found = criterion(given_batch, step=step)
        assert found == (late if step >= after else cost_without_features(loss, given_batch))
        assert (early == late) == (after == 0)


def cost_without_features(loss: S2SD, given_batch: Encoded) -> Tensor:
    other = build(feature_weight=0, feature_after=0)
    other.load_state_dict(loss.state_dict())
    return other.batch_loss(given_batch, None, None, 0)


def test_float32_under_autocast() -> None:
    loss = build().float()
    z, pooled, labels, _ = encoded()
    half = Encoded(z.bfloat16(), pooled.bfloat16(), labels)
    expected = loss.batch_loss(Encoded(half.z.float(), half.pooled.float(), labels), None, None, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss.batch_loss(half, None, None, 9)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)


def test_a_collapsed_batch_stays_finite() -> None:
    loss, (z, pooled, labels, _) = build(), encoded()
    z, pooled = (x.detach()[:1].repeat(len(labels), 1).requires_grad_() for x in (z, pooled))
    loss.batch_loss(Encoded(z, pooled * 0, labels), None, None, 9).backward()
    assert z.grad is not None
    assert pooled.grad is not None
    assert z.grad.isfinite().all()
    assert pooled.grad.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "s2sd"}, "s2sd"),
        ({"loss": {"name": "trimmed", "loss": "s2sd"}}, "S2SD"),
        ({"loss": {"name": "proxy-nca", "dim": 6}}, "leave dim out"),
        ({"loss": "multisimilarity"}, "did you mean 'multi-similarity'"),
        ({"dims": []}, "one or more heads"),
        ({"dims": [4, 0]}, "each 1 or more"),
        ({"temperature": 0}, "temperature must be above zero"),
        ({"weight": -1}, "weight must be 0 or more"),
        ({"feature_weight": -1}, "feature_weight must be 0 or more"),
        ({"feature_after": -1}, "feature_after must be 0 or more"),
    ],
)
def test_impossible_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        build(**arguments)
    assert "\n" not in str(error.value)


def test_without_the_size_of_the_features_only_the_inner_loss_can_be_asked_for() -> None:
    loss, (z, pooled, labels, _) = losses.build("s2sd"), encoded()
    assert loss(z, labels) == losses.build("multi-similarity", miner="multi-similarity")(z, labels)
    with pytest.raises(ModelError, match="features="):
        Criterion(loss)(Encoded(z, pooled, labels))


@pytest.fixture
def recipe(tiny: dict[str, Any]) -> dict[str, Any]:
    """A short run whose features begin to teach half-way."""
    tiny["loss"] = {"name": "s2sd", "loss": {"name": "margin", "miner": "distance"}, "dims": [8, 24]}
    tiny["loss"]["feature_after"] = 6
    return {**tiny, "epochs": 2}


def test_a_resumed_run_has_its_heads_back(
    recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = holdfast.train(recipe, out=tmp_path / "whole")
    steps = []
    one_step = captured.one_step

    def interrupted(*arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 6:
            raise KeyboardInterrupt
        return one_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(captured, "one_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            holdfast.train(recipe, out=tmp_path / "cut")
    saved = load_checkpoint(tmp_path / "cut" / "checkpoint")
    assert saved is not None
    assert 0 < saved.step < 6
    assert {tuple(t.shape) for k, t in saved.tensors.items() if "heads.1.2.weight" in k} >= {(24, 24)}
    cut = holdfast.train(recipe, out=tmp_path / "cut")
    ends = [load_checkpoint(run.folder / "checkpoint") for run in (whole, cut)]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0].tensors.keys() == ends[1].tensors.keys()
    assert all(torch.equal(ends[0].tensors[k], ends[1].tensors[k]) for k in ends[0].tensors)
    packaged = load_file(whole.folder / "model" / "model.safetensors")
    assert not [name for name in packaged if "heads" in name], "heads stay behind"


def test_heads_and_features_learn_from_max_pooled_ones_where_asked_to(
    recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Tensor] = {}
    batch_loss = S2SD.batch_loss

    def watched(self: S2SD, encoded: Encoded, *arguments: Any) -> Tensor:
        seen["average-max" if self.max_pooled else "average"] = encoded.pooled.detach()
        batch_loss(self, encoded, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(S2SD, "batch_loss", watched)
    recipe |= {"model": {"backbone": "resnet10t", "dim": 8, "size": 64}}
    recipe["data"]["validation"] = 0
    for pooling in ("average", "average-max"):
        recipe["loss"]["pooling"] = pooling
        with pytest.raises(KeyboardInterrupt):
            holdfast.train(recipe, out=tmp_path / pooling, device="cpu")
    average, both = seen["average"], seen["average-max"]  # of the same first batch
    assert average.shape == both.shape
    assert bool((both - average >= average - 1e-6).all()), "the largest of a map is not below its mean"
    assert float((both - average).mean()) > 1.5 * float(average.mean())
    recipe["model"]["backbone"] = "conv-tiny"
    with pytest.raises(ModelError, match="pooling: average"):
        holdfast.train(recipe, out=tmp_path / "other")
