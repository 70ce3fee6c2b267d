"""How hard a triplet's positive pair is pulled and its negative pair pushed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.configurable import Configurable
from holdfast.gradients.triplets import TripletGeometry
from holdfast.losses.unreduced import require_positive
from holdfast.registry import Registry
from holdfast.sphere import Mask


class PairWeight(Configurable, ABC):
    """The weights P+ of the positive and P- of the negative pair."""

    compares: ClassVar[bool] = False
    """Whether the anchor's other similarities matter; where they do not, `triplets.others` is empty."""

    @abstractmethod
    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """P+ and P-, of shape (t,) each, never negative."""


registry: Registry[PairWeight] = Registry("pair weight", PairWeight, "holdfast.gradients.pair_weights")
register = registry.register


@register("con")
class ConstantPairWeight(PairWeight):
    """Every pair alike: P+ = P- = 1."""

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """Ones."""
        return torch.ones_like(triplets.s_ap), torch.ones_like(triplets.s_an)


@register("euc")
class DistancePairWeight(PairWeight):
    """Distant pairs more: P+ = D_ap, P- = D_an.

    The pull fades as a positive comes close, but so does the push on a close negative.
    """

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """The distances."""
        return triplets.d_ap, triplets.d_an


@register("lin")
class LinearPairWeight(PairWeight):
    """Distant positives and close negatives more, in proportion: P+ = 1 - s_ap, P- = s_an.

    Held at zero from below, which the paper leaves open: a negative beyond a right angle is not pulled back.
    """

    def __call__(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """The gaps to where each pair should be."""
        return (1 - triplets.s_ap).relu(), triplets.s_an.relu()


@register("sig")
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


@register("sig-ms")
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


@register("lin-ms")
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


def row_mean(values: Tensor, mask: Mask, otherwise: float) -> Tensor:
    """Mean of each row's selected values; `otherwise` where none is selected."""
    count = mask.sum(1)
    mean = torch.where(mask, values, 0).sum(1) / count.clamp_min(1)
    return torch.where(count > 0, mean, otherwise)
