"""How hard triplets are made over training: LGA and the other destinations of hardness manipulation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor

from holdfast.config import builder, instantiate
from holdfast.configurable import Configurable
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Miner, Triplets
from holdfast.regimes.base import refuse_state, require_not_negative
from holdfast.regimes.triplet_layout import hardness, mine_triplets, triplet_miner
from holdfast.registry import Registry

FIRST_LOSS = 2.0
"""The loss before the first step: large, so that a gradual adversary starts weak."""

PREVIOUS = "previous_loss"
"""What a gradual adversary calls its memory in a checkpoint."""

HARDEST = 2.0
"""No triplet of unit vectors is harder: `d(a, p) = 2`, `d(a, n) = 0`."""


class Mined(NamedTuple):
    """Source triplets of a clean batch, with their hardness `d(a, p) - d(a, n)`.

    Args:
        source: the miner that found them.
        group: the mining group they come from.
        progress: how far training is, 0 at the first step and below 1 at the last; None where nobody knows.
    """

    encoded: Encoded
    triplets: Triplets
    hardness: Tensor
    source: Miner
    group: int = 0
    progress: Tensor | None = None


class Destination(Configurable, ABC):
    """Says up to which hardness each triplet is to be raised."""

    @abstractmethod
    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """H_D, one per triplet.

        Args:
            mined: the source triplets.
            generator: of its own, so that a miner draws independently of the source.
            u: the loss at which a gradual adversary is weakest.
            margin: γ, the width of the semi-hard band.
        """

    def remember(self, loss: Tensor, group: int = 0) -> None:  # most have nothing to remember
        """Take note of the loss of a mining group's adversarial triplets; only a gradual adversary does."""

    def state(self) -> dict[str, float]:
        """Numbers that must survive a restart."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Take back what `state` gave."""
        refuse_state(self, state)


registry: Registry[Destination] = Registry("destination", Destination, "holdfast.regimes.hardness_schedules")
register = registry.register
build, names = builder(registry), registry.names


class ConstantHardness(Destination):
    """The same hardness for every triplet, always; recipes write the number.

    H_D = c

    Args:
        value: c, between -2 (plain training) and 2 (min-max).
    """

    def __init__(self, value: float) -> None:
        if not (math.isfinite(value) and abs(value) <= HARDEST):
            raise RecipeError(f"a constant destination is a hardness between -2 and 2, got {value}")
        self.value = value

    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """The constant."""
        return torch.full_like(mined.hardness, self.value)


class MinerHardness(Destination):
    """The hardness that another miner's triplets have on the same anchors; recipes write the miner.

    H_D = H of the miner's triplet

    The miner draws independently of the source. Where it is the source itself, H_D is the source's own hardness and
    nothing is attacked; neither is an anchor that the miner leaves out.

    Args:
        miner: finds one triplet per anchor.
    """

    def __init__(self, miner: Miner | str) -> None:
        self.miner = triplet_miner(miner, "regime.destination")

    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """The hardness of the miner's triplets, by anchor."""
        if self.miner == mined.source:
            return mined.hardness
        z = mined.encoded.z
        found = mine_triplets(self.miner, mined.encoded, generator)
        by_anchor = mined.hardness.new_full((len(z),), -torch.inf)
        by_anchor = by_anchor.scatter_reduce(0, found.anchor, hardness(z, found), "amax")
        wanted = by_anchor[mined.triplets.anchor]
        return torch.where(wanted.isinf(), mined.hardness, wanted)


class GradualAdversary(Destination):
    """A destination that rises as the loss falls; it remembers the loss of the step before.

    Each mining group has a memory of its own, as each GPU of the published runs had: the second part of a batch must
    not see what the first part of the same batch came to.
    """

    def __init__(self) -> None:
        self._losses = {0: torch.tensor(FIRST_LOSS, dtype=torch.float64)}

    def normalized_loss(self, u: float, mined: Mined) -> Tensor:
        """`l̄ = min(u, l) / u`: one while the model struggles, zero when it has nothing to learn."""
        loss = self._losses.get(mined.group)
        if loss is None:
            return mined.hardness.new_tensor(FIRST_LOSS).clamp_max(u) / u
        return loss.to(mined.hardness).clamp_max(u) / u  # copied at the first step only; later it is on the device

    def remember(self, loss: Tensor, group: int = 0) -> None:
        """Keep the loss on its device, so that no step waits for it."""
        kept = self._losses.get(group)
        if kept is None or kept.device != loss.device:
            self._losses[group] = loss.detach().clone()
        else:
            kept.copy_(loss.detach())  # in its place, where a captured step finds it again

    def state(self) -> dict[str, float]:
        """The losses of the latest step: `previous_loss`, and `previous_loss/1` and so on of further mining groups."""
        return {f"{PREVIOUS}/{group}" if group else PREVIOUS: float(loss) for group, loss in self._losses.items()}

    def restore(self, state: dict[str, float]) -> None:
        """Go on from the losses of a saved step."""
        self._losses = {
            int(name.removeprefix(PREVIOUS).lstrip("/") or 0): torch.tensor(loss, dtype=torch.float64)
            for name, loss in state.items()
        }


@register("lga")
class LinearGradualAdversary(GradualAdversary):
    """Rises in proportion as the loss falls, within the semi-hard band.

    H_D = -γ l̄, l̄ = min(u, l) / u, l the triplet loss of the previous step's adversaries, 2 at the start

    With mining groups, l is that of the same group.

    Relations: `g-2` rises sooner, `g-half` later.
    Reference: HM, Equation 7.
    """

    power: ClassVar[float] = 1.0

    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """Between -γ and 0, the semi-hard band."""
        return (-margin * self.normalized_loss(u, mined).pow(self.power)).expand_as(mined.hardness)


@register("g-2")
class QuadraticGradualAdversary(LinearGradualAdversary):
    """Rises sooner than `lga`: a harder adversary for the same loss.

    H_D = -γ l̄²

    Reference: HM, Table 9.
    """

    power = 2.0


@register("g-half")
class RootGradualAdversary(LinearGradualAdversary):
    """Rises later than `lga`: a softer adversary for the same loss.

    H_D = -γ l̄^½

    Reference: HM, Table 9.
    """

    power = 0.5


@register("g-b")
class GradualBoost(GradualAdversary):
    """Lifts another destination as the loss falls.

    H_D' = H_D + ξ (1 - l̄)

    Args:
        of: H_D: a miner, whose hardness on the same anchors is meant, or a number.
        xi: ξ, the largest lift.

    Relations: `lga` needs no other destination.
    Reference: HM, Equation 6.
    """

    def __init__(self, of: Miner | float | str = "semihard", xi: float = 0.1) -> None:
        super().__init__()
        require_not_negative("regime.destination.xi", xi)
        self.of = as_destination(instantiate(Miner | float, of, "regime.destination.of"), "regime.destination.of")
        self.xi = xi

    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """The other destination, lifted."""
        return self.of(mined, generator, u, margin) + self.xi * (1 - self.normalized_loss(u, mined))


@register("ramp")
class Ramp(Destination):
    """Rises over training, whatever the loss does.

    H_D = h_0 + (h_1 - h_0) s(p), p in [0, 1) how far training is; linear: s = p; cosine: s = (1 - cos πp) / 2

    Args:
        start: h_0, between -2 (plain training) and 2 (min-max).
        end: h_1.
        shape: s.

    Relations: `lga` rises as the loss falls; start = end is a constant.
    Reference: beyond the papers.
    """

    def __init__(self, start: float = -0.2, end: float = 0.0, shape: Literal["linear", "cosine"] = "linear") -> None:
        for name, value in {"start": start, "end": end}.items():
            if not (math.isfinite(value) and abs(value) <= HARDEST):
                raise RecipeError(f"regime.destination.{name} is a hardness between -2 and 2, got {value}")
        self.start, self.end, self.shape = start, end, shape

    def __call__(self, mined: Mined, generator: Generator, u: float, margin: float) -> Tensor:
        """The same for every triplet."""
        if mined.progress is None:
            raise RecipeError("destination ramp needs to know how far training is; give Mined its progress")
        p = mined.progress.to(mined.hardness)
        s = p if self.shape == "linear" else (1 - torch.cos(math.pi * p)) / 2
        return (self.start + (self.end - self.start) * s).expand_as(mined.hardness)


def as_destination(given: Destination | Miner | float | str, key: str = "regime.destination") -> Destination:
    """What a recipe or a person gives as the destination it stands for.

    Args:
        given: a destination or a miner, as one or by name, or a number.
        key: where the recipe has it.
    """
    found = instantiate(Destination | Miner | float, given, key)
    if isinstance(found, Destination):
        return found
    return MinerHardness(triplet_miner(found, key)) if isinstance(found, Miner) else ConstantHardness(found)
