"""How hard a triplet pulls its positive pair and pushes its negative one: pair weights, triplet weights and masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.configurable import Configurable
from holdfast.gradients.triplets import TripletGeometry
from holdfast.losses.unreduced import require_positive
from holdfast.registry import Registry
from holdfast.sphere import Mask, row_mean


class PairWeight(Configurable, ABC):
    """The weights P+ of the positive and P- of the negative pair."""

    compares: ClassVar[bool] = False
    """Whether the anchor's other similarities matter; where they do not, `triplets.others` is empty."""

    @abstractmethod
    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """P+ and P-, of shape (t,) each, never negative."""


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


pair_weights: Registry[PairWeight] = Registry("pair weight", PairWeight)
triplet_weights: Registry[TripletWeight] = Registry("triplet weight", TripletWeight)
masks: Registry[PositiveMask] = Registry("mask", PositiveMask)


@pair_weights.register("con")
class ConstantPairWeight(PairWeight):
    """Every pair alike: P+ = P- = 1."""

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """Ones."""
        return torch.ones_like(triplets.s_ap), torch.ones_like(triplets.s_an)


@pair_weights.register("euc")
class DistancePairWeight(PairWeight):
    """Distant pairs more: P+ = D_ap, P- = D_an.

    The pull fades as a positive comes close, but so does the push on a close negative.
    """

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """The distances."""
        return triplets.d_ap, triplets.d_an


@pair_weights.register("lin")
class LinearPairWeight(PairWeight):
    """Distant positives and close negatives more, in proportion: P+ = 1 - s_ap, P- = s_an.

    Held at zero from below, which the paper leaves open: a negative beyond a right angle is not pulled back.
    """

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """The gaps to where each pair should be."""
        return (1 - triplets.s_ap).relu(), triplets.s_an.relu()


@pair_weights.register("sig")
class SigmoidPairWeight(PairWeight):
    """Distant positives and close negatives more, along a sigmoid.

    P+ = 1 / (1 + exp(α (s_ap - λ))), P- = 1 / (1 + exp(-β (s_an - λ)))

    Args:
        alpha: sharpness α on positives.
        beta: sharpness β on negatives.
        base: similarity λ at which a pair has half its weight.
    """

    def __init__(self, alpha: float = 2.0, beta: float = 10.0, base: float = 0.5) -> None:
        require_positive(alpha=alpha, beta=beta)
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """Two sigmoids."""
        pull, push = -self.alpha * (triplets.s_ap - self.base), self.beta * (triplets.s_an - self.base)
        return pull.sigmoid(), push.sigmoid()


@pair_weights.register("sig-ms")
class SigmoidRelative(SigmoidPairWeight):
    """As `sig`, compared with the anchor's other pairs as multi-similarity does.

    P+ = 1 / (m+ + exp(α (s_ap - λ))), m+ = mean over P of exp(α (s_ap - R)); P- = 1 / (m- + exp(-β (s_an - λ))),
    m- = mean over N of exp(-β (s_an - R)). An empty set gives m = 1, that is `sig`. P and N are those of `others_of`.

    Args:
        alpha: sharpness α on positives.
        beta: sharpness β on negatives; large ones make m- leap, which the paper finds unstable at high learning rates.
        base: similarity λ.
    """

    compares = True

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """Sigmoids whose ceiling follows the other pairs."""
        s_ap, s_an, others = triplets.s_ap, triplets.s_an, triplets.others
        pull = (self.alpha * (s_ap[:, None] - others.similarity)).exp()
        push = (-self.beta * (s_an[:, None] - others.similarity)).exp()
        m_pull, m_push = row_mean(pull, others.positive, 1.0), row_mean(push, others.negative, 1.0)
        return (
            1 / (m_pull + (self.alpha * (s_ap - self.base)).exp()),
            1 / (m_push + (-self.beta * (s_an - self.base)).exp()),
        )


@pair_weights.register("lin-ms")
class LinearRelative(PairWeight):
    """As `lin`, compared with the anchor's other pairs, without a parameter to tune.

    P+ = (1 - m+) (1 - s_ap), m+ = mean over P of (s_ap - R); P- = (1 + m-) s_an, m- = mean over N of (s_an - R). An
    empty set gives m = 0, that is `lin`. Each factor is held at zero from below, which the paper leaves open. P and N
    are those of `others_of`.
    """

    compares = True

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """The linear weights, scaled by how the pair stands among the others."""
        s_ap, s_an, others = triplets.s_ap, triplets.s_an, triplets.others
        m_pull = row_mean(s_ap[:, None] - others.similarity, others.positive, 0.0)
        m_push = row_mean(s_an[:, None] - others.similarity, others.negative, 0.0)
        return (1 - m_pull).relu() * (1 - s_ap).relu(), (1 + m_push).relu() * s_an.relu()


@triplet_weights.register("con")
class ConstantTripletWeight(TripletWeight):
    """Every triplet alike: T = 0.5."""

    def __call__(self, s_ap: Tensor, s_an: Tensor) -> Tensor:
        """One half."""
        return torch.full_like(s_ap, 0.5)


@triplet_weights.register("cos")
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


@triplet_weights.register("cir")
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
