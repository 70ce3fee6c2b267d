"""Extras against plain loops in float64, and what they promise on any regime."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import by_hand
import pytest
import torch
from regime_cases import batch, context, embedder, gradients, unit
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import extras, regimes
from holdfast.attacks import Budget
from holdfast.errors import RecipeError
from holdfast.extras import Extended, Extra
from holdfast.extras.base import registry
from holdfast.extras.eps_warmup import EpsWarmup
from holdfast.models import Embedder
from holdfast.models.bank import batchnorm_layers
from holdfast.regimes import Batch, Regime, StepContext, StepResult

BUDGET = Budget(eps=0.03, step=0.01, steps=2)
REGIMES: dict[str, dict[str, Any]] = {
    "at": {"budget": BUDGET},
    "est": {"budget": BUDGET},
    "act": {"budget": BUDGET},
    "hm": {"budget": BUDGET, "destination": 0.5},
    "hm-ics": {"budget": BUDGET, "destination": 0.5, "ics": 0.5},
    "min-max": {"budget": BUDGET},
    "adml": {"budget": BUDGET},
    "mdprop": {"distributions": [{"name": "near", "goal": "single-target"}, {"name": "far", "goal": "shift"}]},
    "mdprop-released": {"variant": "released", "distributions": [{"name": "near", "goal": "single-target"}]},
    "free-hm": {"replays": 2},
    "tride": {"budget": BUDGET},
    "advprop-d": {},
}


def built(name: str, arguments: dict[str, Any] | None = None) -> Regime:
    known = name if name in regimes.names() else name.split("-")[0]
    return regimes.build(known, **(arguments or {}))


class Spy(Regime):
    """A regime, with what its step returned kept."""

    def __init__(self, regime: Regime) -> None:
        self.regime = regime
        self.results: list[StepResult] = []

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        self.results.append(self.regime.step(ctx, batch))
        return self.results[-1]


def stepped(name: str, *added: Extra) -> tuple[StepResult, StepResult, Embedder, Batch]:
    """The result of a step with extras and of the regime in it."""
    regime = built(name, REGIMES[name])
    spy = Spy(regime)
    model, given = embedder(sets=Extended(regime, added).sets()), batch()
    for extra in added:
        extra.prepare(model)
    whole = Extended(regime, added)
    whole.regime = spy
    result = whole.step(context(model), given)
    return result, spy.results[0], model, given


def test_no_regime_is_left_out() -> None:
    assert {*REGIMES, "standard"} >= set(regimes.names())


@pytest.mark.parametrize("name", REGIMES)
def test_every_regime_says_what_it_attacked(name: str) -> None:
    regime = built(name, REGIMES[name])
    model, given = embedder(sets=regime.sets()), batch()
    result = regime.step(context(model), given)
    assert result.adversarial is not None
    moved, rows = result.adversarial
    assert torch.equal(moved.labels, given.labels[rows])
    assert len(moved.z) == len(rows)
    assert moved.z.requires_grad
    if result.clean is not None:
        assert torch.equal(result.clean.labels, given.labels)
    assert result.detached().adversarial is None


@pytest.mark.parametrize("name", ["at", "act", "hm", "hm-ics", "adml", "mdprop", "tride"])
@pytest.mark.parametrize("measure", ["distance", "squared", "rows"])
def test_consistency(name: str, measure: Any) -> None:
    result, inner, model, _ = stepped(name, extras.Consistency(0.7, measure))
    moved, rows = result.adversarial  # type: ignore[misc]
    z = result.clean.z  # type: ignore[union-attr]
    assert (inner.clean is None) == (name in ("at", "act", "hm", "tride"))
    values = []
    for k, row in enumerate(rows.tolist()):
        if measure == "rows":
            p = torch.softmax(torch.stack([z[row] @ other for other in z]) / 0.1, 0)
            q = torch.softmax(torch.stack([moved.z[k] @ other for other in z]) / 0.1, 0)
            values.append(0.01 * sum(p[j] * (p[j] / q[j]).log() for j in range(len(z))))
        else:
            apart = (moved.z[k] - z[row]).norm()
            values.append(apart**2 if measure == "squared" else apart)
    wanted = inner.loss + 0.7 * sum(values) / len(values)
    torch.testing.assert_close(result.loss, wanted)
    by_hand.close(gradients(model, result.loss), gradients(model, wanted))
    assert result.terms["extra/consistency"] != 0


def test_the_clean_batch_is_embedded_once_for_all() -> None:
    model, given = embedder(), batch()
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    Extended(built("at"), [extras.Consistency(), extras.Clean()]).step(ctx, given)
    assert len(seen) == 2
    assert torch.equal(seen[1], given.images)


def test_clean(tmp_path: Path) -> None:
    result, inner, model, given = stepped("at", extras.Clean(0.3))
    twin = copy.deepcopy(model)
    z = unit(twin, given.images)
    loss = by_hand.triplet_loss(z, by_hand.every_triplet(given.labels), shift=0)
    torch.testing.assert_close(result.loss, inner.loss + 0.3 * loss)
    torch.testing.assert_close(result.encoded.z, z)
    assert result.terms.keys() == {"regime", "extra/clean"}


def test_clean_apart_is_advprop() -> None:
    """The adversary of `advprop-d` is that of `at`, crafted and learnt through a set of its own."""
    regime = Extended(built("at"), [extras.Clean(separate=True)])
    model, given = embedder(sets=regime.sets()), batch()
    other = embedder(sets=regimes.build("advprop-d").sets())
    ctx = context(other)
    wanted = regimes.build("mdprop", distributions=[{"name": "stax", "goal": "single-target"}])
    real = ctx.generator
    ctx.generator = lambda stage: real(stage.removesuffix("-stax"))  # type: ignore[method-assign]
    one, two = regime.step(context(model), given), wanted.step(ctx, given)
    torch.testing.assert_close(one.loss, two.loss)
    for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_teacher(tmp_path: Path) -> None:
    extra = extras.Teacher("elsewhere", 2.0)
    teacher = embedder(seed=5).eval()
    extra._teacher = teacher
    extra.prepare = lambda model: None  # type: ignore[method-assign]
    for name in ("at", "hm", "mdprop"):
        result, inner, model, given = stepped(name, extra)
        moved, rows = result.adversarial  # type: ignore[misc]
        with torch.no_grad():
            t = unit(teacher, given.images)
        total = torch.zeros((), dtype=torch.float64)
        for k, row in enumerate(rows.tolist()):
            for m, other in enumerate(rows.tolist()):
                total = total + (t[row] @ t[other] - moved.z[k] @ moved.z[m]) ** 2
        wanted = inner.loss + 2 * total / len(rows) ** 2
        torch.testing.assert_close(result.loss, wanted)
        by_hand.close(gradients(model, result.loss), gradients(model, wanted))
    assert all(not parameter.requires_grad or parameter.grad is None for parameter in teacher.parameters())


def test_a_teacher_whose_embeddings_are_kept() -> None:
    extra = extras.Teacher("elsewhere", 2.0, keeps="embeddings")
    teacher = embedder(seed=5).eval()
    extra._teacher = teacher
    extra.prepare = lambda model: None  # type: ignore[method-assign]
    for name in ("at", "hm"):
        result, inner, model, given = stepped(name, extra)
        moved, rows = result.adversarial  # type: ignore[misc]
        with torch.no_grad():
            t = unit(teacher, given.images)
        away = [(t[row] - z).square().sum() / 2 for row, z in zip(rows.tolist(), moved.z, strict=True)]
        wanted = inner.loss + 2 * torch.stack(away).mean()
        torch.testing.assert_close(result.loss, wanted)
        by_hand.close(gradients(model, result.loss), gradients(model, wanted))


def test_a_teacher_is_known_by_all_its_tensors(tmp_path: Path) -> None:
    """And by no sum of them, which other processors round otherwise."""
    teacher = Embedder("conv-tiny", dim=4)

    def known() -> dict[str, float]:
        teacher.save_pretrained(tmp_path)
        extra = extras.Teacher(str(tmp_path))
        extra.prepare(teacher)
        return extra.state()

    first = known()
    assert known() == first
    assert first["teacher"].is_integer()
    with torch.no_grad():
        teacher.head.weight.neg_()
    turned = known()
    next(batchnorm_layers(teacher)).running_mean.add_(1)  # type: ignore[union-attr]
    assert len({first["teacher"], turned["teacher"], known()["teacher"]}) == 3


def test_all_tuples() -> None:
    for name in ("act", "hm"):
        result, _, _, _ = stepped(name, extras.AllTuples())
        moved, _ = result.adversarial  # type: ignore[misc]
        wanted = by_hand.triplet_loss(moved.z, by_hand.every_triplet(moved.labels), shift=0)
        torch.testing.assert_close(result.loss, wanted)


def perturbed(model: Embedder, loss: Tensor, gamma: float) -> Embedder:
    """A copy whose matrices and kernels have moved up the gradient."""
    slopes = gradients(model, loss)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for name, weight in moved.named_parameters():
            if weight.ndim > 1:
                weight += gamma * weight.norm() * slopes[name] / slopes[name].norm()
    return moved


@pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
def test_weight_perturbation(batchnorm: str) -> None:
    """At w + v on images crafted at w; weights come back to the bit, statistics are updated once."""
    model, given = embedder(batchnorm), batch()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    twin = copy.deepcopy(model)
    regime = Extended(built("at", REGIMES["at"]), [extras.WeightPerturbation(0.05)])
    result = regime.step(ctx, given)
    assert len(seen) == 2
    assert seen[0] is seen[1]
    triplets = by_hand.every_triplet(given.labels)
    first = by_hand.triplet_loss(unit(copy.deepcopy(twin), seen[0]), triplets, shift=0)
    probe = copy.deepcopy(twin)
    first = by_hand.triplet_loss(unit(probe, seen[0]), triplets, shift=0)
    there = perturbed(probe, first, 0.05)
    for mine, theirs in zip(there.buffers(), twin.buffers(), strict=True):
        mine.copy_(theirs)
    wanted = by_hand.triplet_loss(unit(there, seen[0]), triplets, shift=0)
    torch.testing.assert_close(result.loss, wanted)
    assert result.loss > first
    slopes = gradients(there, wanted)
    result.loss.backward()
    ctx.finish()
    by_hand.close({name: weight.grad for name, weight in model.named_parameters()}, slopes)  # type: ignore[misc]
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    for mine, theirs in zip(model.buffers(), there.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_weight_perturbation_leaves_the_memory_of_hm_at_the_weights_themselves() -> None:
    plain, extra = built("hm"), built("hm")
    one, two = embedder(), embedder()
    plain.step(context(one), batch())
    ctx = context(two)
    result = Extended(extra, [extras.WeightPerturbation(0.1)]).step(ctx, batch())
    result.loss.backward()
    ctx.finish()
    assert plain.state() == extra.state()


def test_weight_perturbation_logs_the_destination_that_was_attacked_for() -> None:
    plain, extra = (built("hm", {"u": 2.0}) for _ in range(2))  # so that any loss changes the destination
    wanted = plain.step(context(embedder()), batch()).logs
    found = Extended(extra, [extras.WeightPerturbation()]).step(context(embedder()), batch()).logs
    for name in ("hardness_source", "hardness_destination", "moved"):
        torch.testing.assert_close(found[name], wanted[name])


def test_grad_align() -> None:
    eps = 0.05
    result, inner, model, given = stepped("at", extras.GradAlign(0.4, eps))
    noise = torch.rand(given.images.shape, generator=by_hand.stage("align"))
    noisy = (given.images + (2 * noise - 1) * eps).clamp(0, 1)
    twin, slopes = copy.deepcopy(model), []
    for images in (given.images, noisy):
        x = images.clone().requires_grad_()
        loss = by_hand.triplet_loss(unit(twin, x), by_hand.every_triplet(given.labels), shift=0)
        slopes.append(torch.autograd.grad(loss, x, create_graph=True)[0])
    angles = [1 - (a * b).sum() / (a.norm() * b.norm()) for a, b in zip(*slopes, strict=True)]
    wanted = 0.4 * torch.stack(angles).mean()
    torch.testing.assert_close(result.loss - inner.loss, wanted)
    by_hand.close(gradients(model, result.terms["extra/grad-align"]), gradients(twin, wanted))


@pytest.mark.parametrize("margin", [-0.75, -9.0])
def test_grad_align_leaves_out_images_without_a_gradient(margin: float) -> None:
    """Whose triplets are all satisfied; the term is zero where that is so of every image."""
    model, given = embedder("freeze-statistics"), batch()
    ctx = context(model, margin=margin)
    noise = torch.rand(given.images.shape, generator=by_hand.stage("align"))
    slopes = []
    for images in (given.images, (given.images + (2 * noise - 1) * 0.05).clamp(0, 1)):
        x = images.clone().requires_grad_()
        slopes.append(torch.autograd.grad(ctx.criterion(ctx.encode(x, given.labels)), x)[0].flatten(1))
    active = [k for k, (a, b) in enumerate(zip(*slopes, strict=True)) if a.any() and b.any()]
    assert len(active) < len(given.labels)
    assert bool(active) == (margin > -1)
    angles = [1 - F.cosine_similarity(slopes[0][k], slopes[1][k], dim=0) for k in active]
    found = extras.GradAlign(1.0, 0.05).term(
        ctx, given, StepResult(torch.zeros(()), ctx.observe(given.images, given.labels))
    )
    torch.testing.assert_close(found.detach(), sum(angles, torch.zeros((), dtype=torch.float64)) / max(1, len(angles)))
    assert all(slope.isfinite().all() for slope in gradients(model, found).values())


def test_eps_grows() -> None:
    warmup = EpsWarmup(0.5)
    assert [warmup.factor(step, 40) for step in (0, 1, 2, 9, 17, 18, 19, 20, 39)] == [
        *(0.1, 0.1, 0.2, 0.5, 0.9, 1.0, 1.0, 1.0, 1.0),
    ]
    assert warmup.phase(17, 40) is None
    assert warmup.phase(18, 40) == 0
    model, given = embedder(), batch()
    ctx = context(model, step=3)
    ctx.total = 16
    seen = by_hand.images_learnt(ctx)
    Extended(built("at", REGIMES["at"]), [warmup]).step(ctx, given)
    other = context(embedder(), step=3)
    wanted = by_hand.images_learnt(other)
    built("at", {"budget": BUDGET.scaled(0.5)}).step(other, given)
    assert torch.equal(seen[0], wanted[0])


@pytest.mark.parametrize(("step", "small"), [(0, True), (7, True), (8, False), (15, False)])
def test_the_first_part_of_training_sees_smaller_images(step: int, small: bool) -> None:
    given = batch()
    images = F.interpolate(given.images, (5, 5), mode="bilinear", antialias=True).clamp(0, 1)
    wanted_batch = dataclasses.replace(given, images=images) if small else given
    clean, pool = extras.Clean(), nn.AdaptiveAvgPool2d(1)
    seen = []
    for added, seen_batch in (([clean, extras.ProgressiveResizing(5, 0.5)], given), ([clean], wanted_batch)):
        torch.manual_seed(0)
        ctx = context(Embedder.wrap(nn.Sequential(nn.Conv2d(3, 5, 3), pool, nn.Flatten()), size=6).double(), step=step)
        ctx.total = 16
        seen.append(by_hand.images_learnt(ctx))
        Extended(built("at", REGIMES["at"]), added).step(ctx, seen_batch)
    assert len(seen[0]) == 2
    assert all(torch.equal(*pair) for pair in zip(*seen, strict=True))


@pytest.mark.parametrize("name", REGIMES)
def test_all_at_once_on_any_regime(name: str) -> None:
    """Two runs of it are the same to the bit, and every weight learns."""
    added: list[Extra] = [extras.Consistency(), extras.Clean()]
    if name != "free-hm":
        added += [EpsWarmup(), extras.WeightPerturbation()]
    if name in ("act", "hm", "hm-ics", "min-max", "free-hm"):
        added.insert(0, extras.AllTuples())
    found = []
    for _ in range(2):
        regime = Extended(built(name, REGIMES[name]), added)
        model = embedder(sets=regime.sets())
        ctx = context(model)
        for ctx.replay in range(regime.replays):
            result = regime.step(ctx, batch())
            result.loss.backward()
            ctx.finish()
        assert ctx.passes <= regime.passes
        assert {"extra/consistency", "extra/clean"} <= result.terms.keys()
        torch.testing.assert_close(result.loss, sum_of(result, name))
        found.append((result.loss.detach(), {n: p.grad for n, p in model.named_parameters()}))
    assert torch.equal(found[0][0], found[1][0])
    for key, slope in found[0][1].items():
        assert slope is not None
        assert slope.abs().max() > 0, key
        assert torch.equal(slope, found[1][1][key])  # type: ignore[arg-type]


def sum_of(result: StepResult, name: str) -> Tensor:
    """The terms of a loss, added up; ADML weighs one."""
    weights = {"adversarial": 0.1} if name == "adml" else {}
    return torch.stack([weights.get(key, 1.0) * value for key, value in result.terms.items()]).sum()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Extended(built("standard"), [extras.Consistency()]), "adversarial images"),
        (lambda: Extended(built("at"), [extras.AllTuples()]), "craft triplets"),
        (lambda: Extended(built("at"), [extras.Clean(), extras.Clean()]), "twice"),
        (lambda: Extended(built("mdprop"), [extras.Clean(separate=True)]), "sets of its own"),
        (lambda: Extended(built("free-hm"), [extras.WeightPerturbation()]), "free-hm"),
        (lambda: Extended(built("free-hm"), [EpsWarmup()]), "free-hm"),
        (lambda: EpsWarmup(1.5), "fraction"),
        (lambda: extras.ProgressiveResizing(fraction=0), "fraction"),
        (lambda: extras.ProgressiveResizing(0), "pixels"),
        (lambda: extras.ProgressiveResizing(64).prepare(embedder()), "model.size above"),
        (lambda: extras.ProgressiveResizing(5).prepare(embedder()), "does not take images of 5 px"),
        (lambda: extras.Consistency(-1), "weight"),
        (lambda: extras.Consistency(temperature=0.5), "temperature"),
        (lambda: extras.Teacher("mine.py:net"), "run code"),
        (lambda: extras.WeightPerturbation(-1), "gamma"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        make()


@pytest.mark.parametrize("name", extras.names())
def test_documented(name: str) -> None:
    summary, text = registry.summary(name), registry.get(name).__doc__ or ""
    assert "pass" in summary, "its first line says what it costs"
    assert "Relations:" in text
    assert "Reference:" in text
    assert registry.get(name).in_words  # type: ignore[attr-defined]


def test_a_step_without_extras_is_the_regime() -> None:
    regime = built("at")
    assert extras.extended(regime, []) is regime
    assert "extras=[Clean(weight=1.0, separate=False)]" in repr(extras.extended(regime, [extras.Clean()]))
