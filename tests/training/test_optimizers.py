from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from holdfast import losses
from holdfast.losses import Criterion
from holdfast.training.optimizers import Average, registry

SETTINGS: dict[str, dict[str, Any]] = {"adam": {}, "adamw": {}, "sgd": {"momentum": 0.5}}


def decayed_and_not(name: str, **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """How far a weight of the model and a margin's β move in one step in which no gradient asks them to."""
    model, criterion = nn.Linear(2, 1, bias=False), Criterion(losses.build("margin", classes=3))
    optimizer = registry.get(name)(lr=0.1, **SETTINGS[name], **settings).build(model, criterion)
    parameters = [*model.parameters(), *criterion.parameters()]
    before = [parameter.detach().clone() for parameter in parameters]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    weight, beta = ((parameter.detach() - old).abs() for parameter, old in zip(parameters, before, strict=True))
    return weight, beta


@pytest.mark.parametrize("name", SETTINGS)
def test_weight_decay_falls_on_the_model_alone(name: str) -> None:
    weight, beta = decayed_and_not(name, weight_decay=0.5)
    assert (weight > 0).all()
    assert (beta == 0).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_weight_decay_of_the_loss_is_its_own(name: str) -> None:
    weight, beta = decayed_and_not(name, weight_decay=0, loss_weight_decay=0.5)
    assert (weight == 0).all()
    assert (beta > 0).all()


def test_a_step_with_decay_is_that_of_torch() -> None:
    """SGD: w - lr (g + decay w)."""
    model = nn.Linear(3, 1, bias=False)
    optimizer = registry.get("sgd")(lr=0.1, weight_decay=0.5).build(model, nn.Identity())
    old = model.weight.detach().clone()
    model.weight.grad = torch.ones_like(old)
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), old - 0.1 * (1 + 0.5 * old))
    assert [group["initial_lr"] for group in optimizer.param_groups] == [0.1]


def test_proxies_have_a_learning_rate_and_no_decay() -> None:
    criterion = Criterion(losses.build("proxy-anchor", classes=4, dim=3))
    optimizer = registry.get("adam")(lr=1e-5, loss_lr=5e-4).build(nn.Linear(3, 3), criterion)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(1e-5, 4e-4), (5e-4, 0.0)]


@pytest.mark.parametrize("key", ["weight_decay", "loss_weight_decay"])
def test_negative_decay_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="weight decay"):
        registry.get("adam")(**{key: -1.0})


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.998])
def test_an_average_is_of_the_weights_since_training_began(decay: float) -> None:
    """Those before have no part in it, however short the training is."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(3, 2)
    average, seen = Average(model, decay), []
    for _ in range(7):
        with torch.no_grad():
            model.weight.copy_(torch.randn(2, 3, generator=generator))
        average.update(model)
        seen.append(model.weight.detach().clone())
        shares = torch.tensor([decay**age for age in reversed(range(len(seen)))])
        expected = sum(share * weight for share, weight in zip(shares / shares.sum(), seen, strict=True))
        torch.testing.assert_close(average.model.weight, expected)
