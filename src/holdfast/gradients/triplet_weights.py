"""How much a whole triplet counts, and which triplets pull their positive at all."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from holdfast.configurable import Configurable
from holdfast.losses.unreduced import require_positive
from holdfast.registry import Registry
from holdfast.sphere import Mask


class TripletWeight(Configurable, ABC):
    """The weight T of both pairs of a triplet."""

    @abstractmethod
    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Tensor:
        """T from the similarities of the positive and the negative pair, elementwise."""


class PositiveMask(Configurable, ABC):
    """Which triplets pull their positive; the others only push their negative."""

    @abstractmethod
    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Mask:
        """Where P+ is kept, from the similarities of the positive and the negative pair, elementwise."""


weights: Registry[TripletWeight] = Registry("triplet weight", TripletWeight, "holdfast.gradients.triplet_weights")
masks: Registry[PositiveMask] = Registry("mask", PositiveMask, "holdfast.gradients.triplet_weights")


@weights.register("con")
class ConstantTripletWeight(TripletWeight):
    """Every triplet alike: T = 0.5."""

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Tensor:
        """One half."""
        return torch.full_like(s_ap, 0.5)


@weights.register("cos")
class CosineTripletWeight(TripletWeight):
    """Unsolved triplets more: T = 1 / (1 + exp(τ (s_ap - s_an))).

    Args:
        tau: sharpness τ; the paper gives 1, and only for its plots.
    """

    def __init__(self, tau: float = 1.0) -> None:
        require_positive(tau=tau)
        self.tau = tau

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Tensor:
        """A sigmoid of the difference."""
        return (-self.tau * (s_ap - s_an)).sigmoid()


@weights.register("cir")
class CircularTripletWeight(CosineTripletWeight):
    """Unsolved triplets more, also where both pairs are close or both far.

    T = 1 / (1 + exp(τ (s_ap (2 - s_ap) - s_an²)))

    Equal weights lie on circles around the ideal triplet, s_ap = 1 and s_an = 0.

    Args:
        tau: sharpness τ; the paper gives 1, and only for its plots.
    """

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Tensor:
        """A sigmoid of the distance to the ideal triplet."""
        return (-self.tau * solved(s_ap, s_an)).sigmoid()


@masks.register("sc1")
class NearerThanNegative(PositiveMask):
    """Pull the positive only where it is at least as close as the negative: P+ = 0 where s_an > s_ap."""

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Mask:
        """Below the diagonal of the triplet diagram."""
        return s_an <= s_ap


@masks.register("sc2")
class NearIdeal(PositiveMask):
    """Pull the positive only in triplets near the ideal one: P+ = 0 where s_ap (2 - s_ap) - s_an² < 0.5.

    Args:
        printed: the sign of the paper's Equation 19, `> 0.5`, which drops the easy triplets; its figure and its text
            have it the other way round, as it is by default.
    """

    def __init__(self, printed: bool = False) -> None:
        self.printed = printed

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Mask:
        """Inside a circle around the ideal triplet; outside, as printed."""
        return solved(s_ap, s_an) <= 0.5 if self.printed else solved(s_ap, s_an) >= 0.5


def solved(s_ap: Tensor, s_an: Tensor) -> Tensor:
    """`s_ap (2 - s_ap) - s_an²`: one for the ideal triplet, less by the squared distance to it in the diagram."""
    return s_ap * (2 - s_ap) - s_an.square()
