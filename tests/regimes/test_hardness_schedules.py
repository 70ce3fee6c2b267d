from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast import mining
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Triplets
from holdfast.regimes import hardness_schedules as destinations
from holdfast.regimes.hardness_schedules import ConstantHardness, Destination, Mined, MinerHardness, as_destination

positive = st.floats(0.01, 3)
losses = st.floats(0, 3)


GRADUAL = [name for name in destinations.names() if name != "ramp"]
"""Those that remember the loss."""


def clean(count: int = 6) -> Mined:
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(count, 4, dtype=torch.float64, generator=generator), dim=1)
    labels = torch.arange(count) // 2
    triplets = Triplets(torch.tensor([1, 4]), torch.tensor([0, 5]), torch.tensor([3, 2]))
    hardness = torch.tensor([-0.3, 0.1], dtype=torch.float64)
    return Mined(Encoded(z, z, labels), triplets, hardness, mining.build("random"))


def asked(destination: Destination, u: float = 0.2, margin: float = 0.2) -> Tensor:
    return destination(clean(), torch.Generator().manual_seed(1), u, margin)


@settings(deadline=None)
@given(losses, positive, positive, st.floats(0, 1))
def test_formulas(loss: float, u: float, margin: float, xi: float) -> None:
    share = min(u, loss) / u
    formulas = {
        "lga": -margin * share,
        "g-2": -margin * share * share,
        "g-half": -margin * math.sqrt(share),
        "g-b": -0.25 + xi * (1 - share),
    }
    assert sorted(formulas) == GRADUAL
    for name, value in formulas.items():
        arguments = {"of": -0.25, "xi": xi} if name == "g-b" else {}
        destination = destinations.build(name, **arguments)
        destination.remember(torch.tensor(loss, dtype=torch.float64))
        wanted = torch.full((2,), value, dtype=torch.float64)
        torch.testing.assert_close(asked(destination, u, margin), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", GRADUAL)
def test_a_gradual_adversary_starts_weak_and_ends_strong(name: str) -> None:
    destination = destinations.build(name)
    weak = asked(destination)
    destination.remember(torch.tensor(0.1))
    middle = asked(destination)
    destination.remember(torch.tensor(0.0))
    assert (weak < middle).all()
    assert (middle < asked(destination)).all()


@pytest.mark.parametrize("name", GRADUAL)
@settings(deadline=None)
@given(loss=st.floats(0, 3, width=32))
def test_memory_survives_a_restart_exactly(name: str, loss: float) -> None:
    first, second = destinations.build(name), destinations.build(name)
    assert first.state() == {"previous_loss": 2.0}
    first.remember(torch.tensor(loss))
    second.restore(first.state())
    assert second.state() == first.state() == {"previous_loss": loss}
    assert torch.equal(asked(first), asked(second))


@pytest.mark.parametrize("name", GRADUAL)
@settings(deadline=None)
@given(losses=st.dictionaries(st.integers(0, 12), st.floats(0, 3, width=32), min_size=1))
def test_every_mining_group_has_a_memory(name: str, losses: dict[int, float]) -> None:
    first, second = destinations.build(name), destinations.build(name)
    for group, loss in losses.items():
        first.remember(torch.tensor(loss), group)
    second.restore(first.state())
    assert second.state() == first.state()
    for group in range(13):
        alone = destinations.build(name)
        alone.remember(torch.tensor(losses.get(group, 2.0)))
        wanted = alone(clean(), torch.Generator().manual_seed(1), 3.0, 0.2)
        for destination in (first, second):
            found = destination(clean()._replace(group=group), torch.Generator().manual_seed(1), 3.0, 0.2)
            assert torch.equal(found, wanted)


def test_memory_holds_no_graph() -> None:
    destination = destinations.build("lga")
    destination.remember(torch.tensor(0.1, requires_grad=True) * 2)
    assert not asked(destination).requires_grad


class Two(mining.Miner):
    """Knows anchors 4 and 0, not 1."""

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        generator: torch.Generator | None = None,
        images: Tensor | None = None,
    ) -> Triplets:
        return Triplets(torch.tensor([4, 0]), torch.tensor([5, 1]), torch.tensor([0, 5]))


def test_a_miner_is_looked_up_by_anchor() -> None:
    z = clean().encoded.z
    by_miner = (z[4] - z[5] + 1e-6).norm() - (z[4] - z[0] + 1e-6).norm()
    torch.testing.assert_close(asked(MinerHardness(Two())), torch.stack((clean().hardness[0], by_miner)))


def test_the_source_itself_asks_for_nothing_and_another_miner_draws_for_itself() -> None:
    source = clean().source
    assert torch.equal(asked(MinerHardness(mining.build("random"))), clean().hardness)
    other = mining.build("random", anchors="first")
    assert other != source
    found = other(clean().encoded.z, clean().encoded.labels, torch.Generator().manual_seed(1))
    assert isinstance(found, Triplets)
    z = clean().encoded.z
    at = {int(a): (z[a] - z[p] + 1e-6).norm() - (z[a] - z[n] + 1e-6).norm() for a, p, n in zip(*found, strict=True)}
    torch.testing.assert_close(asked(MinerHardness(other)), torch.stack([clean().hardness[0], at[4]]))


def test_miners_and_numbers_stand_for_destinations() -> None:
    miner = mining.build("semihard")
    of_miner, constant, itself = as_destination(miner), as_destination(-0.1), destinations.build("lga")
    assert isinstance(of_miner, MinerHardness)
    assert of_miner.miner is miner
    assert isinstance(constant, ConstantHardness)
    assert asked(constant).tolist() == [-0.1, -0.1]
    assert as_destination(itself) is itself


@pytest.mark.parametrize("destination", [ConstantHardness(0.0), MinerHardness(mining.build("random"))])
def test_without_memory_there_is_nothing_to_save(destination: Any) -> None:
    destination.remember(torch.tensor(0.5))
    assert destination.state() == {}
    destination.restore({})
    with pytest.raises(ValueError, match="keeps no state"):
        destination.restore({"previous_loss": 1.0})


@pytest.mark.parametrize(("shape", "share"), [("linear", 0.25), ("cosine", (1 - math.cos(math.pi / 4)) / 2)])
def test_a_ramp_rises_with_training(shape: str, share: float) -> None:
    ramp = destinations.build("ramp", start=-0.3, end=0.1, shape=shape)
    mined = clean()._replace(progress=torch.tensor(0.25, dtype=torch.float64))
    found = ramp(mined, torch.Generator(), 0.2, 0.2)
    torch.testing.assert_close(found, torch.full((2,), -0.3 + 0.4 * share, dtype=torch.float64))
    assert ramp.state() == {}
    with pytest.raises(RecipeError, match="progress"):
        asked(ramp)
    with pytest.raises(RecipeError, match=r"destination\.end"):
        destinations.build("ramp", end=2.5)
