"""The optimiser loop: steps, balls, methods, and what it must leave untouched."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from attack_cases import VARIANTS, bound, network, pictures, references, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import Attacked, BoundGoal, Budget
from holdfast.attacks.ball import Ball
from holdfast.attacks.forward import Lagged
from holdfast.errors import DataError, ModelError, RecipeError

ROWS = torch.arange(24)


def case(name: str = "gtm", **arguments: Any) -> tuple[nn.Module, Tensor, BoundGoal]:
    model = network()
    return model, pictures()[0], bound(name, arguments, references(model), ROWS)


def gradient(model: nn.Module, x: Tensor, goal: BoundGoal) -> Tensor:
    """Written out, with the model in eval mode."""
    x = x.clone().requires_grad_()
    z = model(x)
    goal.loss(z / z.norm(dim=1, keepdim=True)).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("method", ["pgd", "momentum"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_steps_against_a_loop(method: str, norm: str) -> None:
    model, images, goal = case()
    model = model.double().eval()
    images = images.double()
    eps, step = (0.05, 0.02) if norm == "linf" else (0.6, 0.25)
    x, memory = images.clone(), torch.zeros_like(images)
    for _ in range(4):
        g = gradient(model, x, goal)
        for i in range(len(x)):
            if method == "momentum":
                memory[i] += g[i] / (g[i].abs().sum() / g[i].numel())
                g[i] = memory[i]
            if norm == "linf":
                x[i] = x[i] - step * g[i].sign()
                x[i] = torch.minimum(torch.maximum(x[i], images[i] - eps), images[i] + eps)
            else:
                x[i] = x[i] - step * g[i] / g[i].norm()
                change = x[i] - images[i]
                if change.norm() > eps:
                    x[i] = images[i] + change * eps / change.norm()
            x[i] = x[i].clamp(0, 1)
    budget = Budget(eps=eps, step=step, steps=4, norm=norm, method=method)  # type: ignore[arg-type]
    found = attacks.craft(model, images, goal, budget)
    torch.testing.assert_close(found.images, x, rtol=0, atol=1e-6 if norm == "l2" else 1e-12)


@pytest.mark.parametrize("method", ["pgd", "momentum", "apgd"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("pace", [0.0, 0.25, 1.0])
def test_pace_is_a_factor_on_the_length_of_a_step(method: Any, norm: Any, pace: float) -> None:
    model, images, goal = case()
    model, images = model.double(), images.double()
    eps, step = (0.05, 1 / 64) if norm == "linf" else (0.6, 0.25)
    budget = Budget(eps=eps, step=step, steps=4, norm=norm, method=method)
    shorter = attacks.craft(model, images, goal, Budget(eps=eps, step=step * pace, steps=4, norm=norm, method=method))
    paced = attacks.craft(model, images, goal, budget, pace=torch.tensor(pace))
    torch.testing.assert_close(paced.images, shorter.images, rtol=0, atol=1e-6 if norm == "l2" else 1e-12)


def test_fgsm_is_one_signed_step() -> None:
    model, images, goal = case()
    found = attacks.craft(model, images, goal, Budget.fgsm(0.03)).images
    expected = (images - 0.03 * gradient(model.eval(), images, goal).sign()).clamp(0, 1)
    torch.testing.assert_close(found, expected)


def test_result_describes_the_returned_images() -> None:
    model, images, goal = case("es")
    found = attacks.pgd(model, images, goal, Budget(eps=0.05, steps=5))
    z = nn.functional.normalize(model.eval()(found.images), dim=1)
    torch.testing.assert_close(found.vectors, z)
    torch.testing.assert_close(found.loss, goal.loss(z))
    torch.testing.assert_close(found.measures["shift"], -found.loss)
    shorter = attacks.pgd(model, images, goal, Budget(eps=0.05, step=0.025, steps=4))
    torch.testing.assert_close(found.previous, shorter.loss)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    eps=st.sampled_from([0.0, 1e-9, 1e-4, 1 / 255, 8 / 255, 0.3, 1.0]),
    norm=st.sampled_from(["linf", "l2"]),
    method=st.sampled_from(["pgd", "momentum", "apgd"]),
    start=st.sampled_from(["zero", "uniform"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_results_lie_in_the_ball_and_are_images(
    seed: int, eps: float, norm: Any, method: Any, start: Any, dtype: torch.dtype
) -> None:
    model, _, goal = case("tma")
    images = torch.rand(24, 3, 8, 8, generator=seeded(seed), dtype=dtype)
    images = torch.where(images < 0.2, 0, torch.where(images > 0.8, 1, images))
    budget = Budget(eps=eps, steps=3, norm=norm, method=method, start=start)
    found = attacks.craft(model.to(dtype), images, goal, budget, generator=seeded(seed)).images
    assert found.min() >= 0
    assert found.max() <= 1
    change = (found.double() - images.double()).flatten(1)
    size = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    assert (size <= eps + (1e-15 if dtype == torch.float64 else 0)).all()
    assert found.dtype == dtype


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_projection_is_the_nearest_point(norm: Any) -> None:
    images = 0.5 * torch.ones(50, 3, 4, 4, dtype=torch.float64)
    points = images + 0.3 * torch.randn(images.shape, generator=seeded(), dtype=torch.float64)
    ball = Ball(images, 0.2, norm)
    projected = ball.project(points)
    assert torch.equal(ball.project(images), images)
    torch.testing.assert_close(ball.project(projected), projected)
    change, moved = points - images, projected - images
    if norm == "linf":
        torch.testing.assert_close(moved, change.clamp(-0.2, 0.2))
    else:
        lengths = change.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        torch.testing.assert_close(moved, change * (0.2 / lengths).clamp_max(1))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_uniform_start_fills_its_radius(norm: Any) -> None:
    images = torch.full((2000, 1, 1, 2), 0.5)
    change = (Ball(images, 0.4, norm).start(0.2, seeded()) - images).flatten(1)
    size = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    assert size.max() <= 0.2 + 1e-7
    # In two dimensions the size of a uniform point has the distribution function (r / 0.2)².
    torch.testing.assert_close((size < 0.1).float().mean(), torch.tensor(0.25), rtol=0, atol=0.04)
    assert change.mean().abs() < 0.01


class Explodes(nn.Module):
    def __init__(self, inner: nn.Module, after: int) -> None:
        super().__init__()
        self.inner, self.left = inner, after

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("boom")
        out: Tensor = self.inner(x)
        return out


@pytest.mark.parametrize("statistics", ["eval", "keep"])
@pytest.mark.parametrize("passes", [0, 2, 99])
def test_the_model_is_given_back_as_it_was(statistics: Any, passes: int) -> None:
    inner, images, goal = case()
    assert isinstance(inner, nn.Sequential)
    inner[1].eval()  # one layer frozen inside a model that trains
    inner[0].training = True
    inner[0].weight.requires_grad_(False)
    inner[4].weight.grad = torch.ones_like(inner[4].weight)
    inner.append(nn.BatchNorm1d(6))
    model = Explodes(inner, passes).train()
    inner[1].eval()
    modes = [part.training for part in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    state = {key: value.clone() for key, value in model.state_dict().items()}

    def attack() -> Attacked:
        return attacks.pgd(model, images, goal, Budget(eps=0.05, steps=3), statistics=statistics)

    if passes == 99:
        attack()
    else:
        with pytest.raises(RuntimeError, match="boom"):
            attack()
    assert [part.training for part in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(inner[4].weight.grad, torch.ones_like(inner[4].weight))
    assert inner[4].bias.grad is None


def test_statistics_decide_the_mode_of_crafting() -> None:
    seen: list[list[bool]] = []

    class Watch(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            seen.append([part.training for part in self.modules()])
            out: Tensor = self.inner(x)
            return out

    model, images, goal = case()
    attacks.pgd(Watch(model), images, goal, Budget(eps=0.05, steps=2))
    assert len(seen) == 3
    assert not any(any(modes) for modes in seen)
    seen.clear()
    attacks.craft(Watch(model), images, goal, Budget(eps=0.05, steps=2), statistics="keep")
    assert len(seen) == 2
    assert all(all(modes) for modes in seen)


class _Scale(torch.autograd.Function):
    wanted: list[bool] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        _Scale.wanted.append(ctx.needs_input_grad[1])
        return upstream * ctx.saved_tensors[0], None


def test_no_weight_gradient_is_computed() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 8, 8))
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.inner(_Scale.apply(x, self.weight))
            return out

    _, images, goal = case()
    model = Scaled()
    _Scale.wanted.clear()
    attacks.pgd(model, images, goal, Budget(eps=0.05, steps=3))
    assert _Scale.wanted == [False] * 3
    assert all(parameter.grad is None for parameter in model.parameters())
    model(images).sum().backward()
    assert _Scale.wanted[-1]


def test_attack_works_where_gradients_are_off() -> None:
    model, images, goal = case()
    expected = attacks.craft(model, images, goal, Budget(eps=0.05, steps=2)).images
    with torch.no_grad():
        assert torch.equal(attacks.craft(model, images, goal, Budget(eps=0.05, steps=2)).images, expected)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_apgd_is_at_least_as_good_on_a_narrow_valley(norm: Any) -> None:
    """Plain steps of this length jump over the bottom; halving them finds it."""

    class Valley(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1) - 0.53
            return torch.cat([flat, 0.1 * torch.ones(len(x), 1)], dim=1)

    model, images = Valley(), torch.full((4, 1, 2, 2), 0.5)
    target = attacks.References(model(images + 0.011))
    known = attacks.References(target.vectors, torch.zeros(4).long())
    goal = attacks.build("unadversarial").bind(known, torch.arange(4), seeded())
    plain, clever = (
        attacks.pgd(model, images, goal, Budget(eps=0.05, step=0.05, steps=20, norm=norm, method=method)).loss
        for method in ("pgd", "apgd")
    )
    assert (clever <= plain).all()
    assert clever.mean() < 0.25 * plain.mean()


@pytest.mark.parametrize("name", ["gtm", "qa+", "hardness", "es"])
def test_apgd_is_at_least_as_good_on_a_network(name: str) -> None:
    model, images, goal = case(name)
    plain = attacks.pgd(model, images, goal, Budget(eps=0.05, steps=20)).loss
    clever = attacks.pgd(model, images, goal, Budget(eps=0.05, steps=20, method="apgd")).loss
    assert clever.mean() <= plain.mean() + 1e-3


@pytest.mark.parametrize("name", ["gtm", "alignment"])
def test_loss_never_grows_with_the_radius(name: str) -> None:
    model, images, goal = case(name)
    radii = [0.08, 0.0, 0.01, 0.02]
    found = attacks.sweep(model, images, goal, Budget(eps=0.05, steps=6, method="apgd"), radii)
    ordered = [loss for _, loss in sorted(zip(radii, (r.loss for r in found), strict=True), key=lambda pair: pair[0])]
    for smaller, larger in itertools.pairwise(ordered):
        assert (larger <= smaller).all()
    assert ordered[-1].mean() < ordered[0].mean()
    for eps, result in zip(radii, found, strict=True):
        assert (result.images - images).abs().max() <= eps + 1e-7


def test_sweep_of_plain_steps_is_one_attack_per_radius() -> None:
    model, images, goal = case()
    budget = Budget(eps=0.05, step=0.02, steps=3)
    found = attacks.sweep(model, images, goal, budget, [0.1, 0.05])
    torch.testing.assert_close(found[1].images, attacks.craft(model, images, goal, budget).images)
    expected = attacks.craft(model, images, goal, Budget(eps=0.1, step=0.04, steps=3))
    torch.testing.assert_close(found[0].images, expected.images)


def test_random_start_comes_from_the_generator() -> None:
    model, images, goal = case()
    one, two, three = (
        attacks.craft(model, images, goal, Budget.pgd(0.05, 2), generator=seeded(seed)).images for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


class Counts(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.passes = inner, 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        out: Tensor = self.inner(x)
        return out


def test_stops_when_nothing_is_left_to_gain() -> None:
    model, images, goal = case("hardness", destination=-3.0)
    counting = Counts(model)
    for method in ("pgd", "momentum", "apgd"):
        counting.passes = 0
        found = attacks.craft(counting, images, goal, Budget(eps=0.05, steps=30, method=method))  # type: ignore[arg-type]
        assert torch.equal(found.images, images)
        assert counting.passes == 1
    order = torch.randperm(24, generator=seeded())
    reachable = bound("hardness", {"destination": -1.4}, references(model), order)
    counting.passes = 0
    attacks.craft(counting, images[order], reachable, Budget(eps=0.3, steps=60))
    assert counting.passes < 30


@pytest.mark.parametrize("method", ["pgd", "momentum", "apgd"])
def test_groups_that_are_hard_enough_stay_untouched(method: Any) -> None:
    model, images, _ = case()
    order = torch.randperm(24, generator=seeded(1))
    known = references(model)
    now = attacks.build("hardness").bind(known, order).measure(known.vectors[order])["hardness"]
    wanted = now + torch.tensor([0.3, -0.1]).repeat(4)
    goal = attacks.build("hardness", destination=wanted).bind(known, order)
    found = attacks.pgd(model, images[order], goal, Budget(eps=0.05, steps=8, method=method))
    moved = (found.images != images[order]).flatten(1).any(1).view(8, 3)
    assert moved[::2].all()
    assert not moved[1::2].any()
    assert (found.loss[::2] < 0.09).all()


def test_bfloat16_crafts_with_float32_perturbations() -> None:
    seen: list[torch.dtype] = []

    class Watch(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.inner(x)
            seen.append(out.dtype)
            return out

    half, full = torch.bfloat16, torch.float32
    for name, expected in (("gtm", [half, half, full]), ("es", [full, half, full])):
        model, images, goal = case(name)
        seen.clear()
        clean = attacks.pgd(model, images, goal, Budget(eps=0))
        found = attacks.pgd(Watch(model), images, goal, Budget(eps=0.05, steps=2), precision="bfloat16")
        assert seen == expected
        assert found.images.dtype == found.loss.dtype == full
        assert found.loss.mean() < clean.loss.mean()


def test_vectors_are_taken_as_they_are_when_asked() -> None:
    model, images, _ = case()
    raw = model.eval()(images).detach()
    goal = attacks.build("shift").bind(attacks.References(raw, normalize=False), ROWS)
    found = attacks.pgd(model, images, goal, Budget(eps=0.0), normalize=False)
    torch.testing.assert_close(found.vectors, raw)
    assert attacks.pgd(model, images, goal, Budget(eps=0.0)).loss.max() < -0.01


def test_arguments_have_the_promised_names() -> None:
    model, images, goal = case()
    given = {"module": model, "images": images, "bound_goal": goal, "budget": Budget(eps=0.05, steps=1)}
    assert torch.equal(attacks.pgd(**given).images, attacks.craft(**given).images)
    assert len(attacks.sweep(**given, eps=[0.01])) == 1
    assert len(attacks.square(**given, queries=1).loss) == len(images)


def test_worst_keeps_the_most_harmful_result_per_group() -> None:
    model, images, goal = case("collapse")
    results = [attacks.pgd(model, images, goal, Budget.pgd(0.05, 3), generator=seeded(seed)) for seed in range(3)]
    kept = attacks.worst(results)
    assert torch.equal(kept.loss, torch.stack([r.loss for r in results]).amin(0))
    again = goal.loss(nn.functional.normalize(model.eval()(kept.images), dim=1))
    torch.testing.assert_close(again, kept.loss)
    torch.testing.assert_close(kept.measures["distance"], kept.loss)
    by = [torch.full((12,), value) for value in (2.0, 1.0, 3.0)]
    assert torch.equal(attacks.worst(results, by).images, results[1].images)
    undefined = [torch.full((12,), float("nan")), *by[1:]]
    assert torch.equal(attacks.worst(results, undefined).images, results[1].images)


def test_what_a_user_can_get_wrong() -> None:
    model, images, goal = case()
    budget = Budget(eps=0.05, steps=1)
    with pytest.raises(DataError, match="in \\[0, 1\\]"):
        attacks.pgd(model, images * 255, goal, budget)
    with pytest.raises(DataError, match="divide by 255"):
        attacks.pgd(model, (images * 255).byte(), goal, budget)
    with pytest.raises(DataError, match="batch of images"):
        attacks.pgd(model, images[:0], goal, budget)
    with pytest.raises(RecipeError, match="in_pixels"):
        attacks.pgd(model, images, goal, Budget(eps=0.1, units="normalized"))
    with pytest.raises(DataError, match="chunk"):
        attacks.pgd(model, images, goal, budget, chunk=0)
    with pytest.raises(DataError, match="groups of 3"):
        attacks.pgd(model, images[:4], bound("hardness", {}, references(model), ROWS[:3]), budget)
    with pytest.raises(ModelError, match="one vector per image"):
        attacks.pgd(nn.Flatten(0), images, goal, budget)
    for name, arguments in VARIANTS:
        other = bound(name, arguments, references(model), ROWS[:12])
        if other.images() is not None:
            with pytest.raises(DataError, match="bound to 12 images, but 24 came"):
                attacks.pgd(model, images, other, budget)
            with pytest.raises(DataError, match="bound to 12 images, but 24 came"):
                attacks.square(model, images, other, budget)
    broken = nn.Sequential(model, Scaled(float("nan")))
    with pytest.raises(ModelError, match="NaN or inf"):
        attacks.pgd(broken, images, goal, budget)
    with pytest.raises(ModelError, match="NaN or inf"):
        attacks.square(broken, images, goal, budget)

    class Deaf(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = model(x.detach())
            return out

    with pytest.raises(ModelError, match="square"):
        attacks.pgd(Deaf(), images, goal, budget)


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_a_gpu_an_answer_is_that_of_the_question_before() -> None:
    asked = Lagged()
    answers = [asked.ask(torch.tensor(value, device="cuda")) for value in (True, False, True, True)]
    assert answers == [False, True, False, True]


def test_elsewhere_an_answer_is_at_once() -> None:
    asked = Lagged()
    assert [asked.ask(torch.tensor(value)) for value in (True, False)] == [True, False]
