"""CA-TRIDE's goals: the candidates of all triplets of a batch, or their anchors, attacked together."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from holdfast.attacks.base import BoundGoal
from holdfast.sphere import pairwise_distance

REACHED = 1e-5
"""The loss at which an attack stops, as in the released code."""


def collapseness(distances: Tensor, sharpness: float) -> Tensor:
    """A mean in which large distances count most, so that it falls only where all of them do.

    C = Σ w d / Σ w, w = exp(λ (d - max d))

    Args:
        distances: of shape (n,), d.
        sharpness: λ; 0 is the plain mean, and the limit of large ones is the largest distance.
    """
    return (torch.softmax(sharpness * distances, 0) * distances).sum()


def nearer_half(distances: Tensor) -> Tensor:
    """The mean of the smaller half of some distances; with an odd number the middle one is left out."""
    return distances.topk(max(1, len(distances) // 2), largest=False).values.mean()


@dataclasses.dataclass(eq=False)
class MixCandidates(BoundGoal):
    """Move positives away and negatives near until they are equally collapsed, seen from clean anchors.

    L = relu(C_n - C_p), C the collapseness of d(a, n') and of d(a, p')

    The images are all positives, then all negatives. It is bound to triplets by being built, and is one group.

    Args:
        anchor: clean embeddings, one per triplet.
        sharpness: λ of the collapseness.

    Relations: `collapse` makes the two of each pair collide, whatever the rest of the batch does.
    Reference: the released code of CA-TRIDE.
    """

    anchor: Tensor
    sharpness: float

    group = None
    floor = REACHED

    def images(self) -> int:
        """Two per triplet."""
        return 2 * len(self.anchor)

    def loss(self, z: Tensor) -> Tensor:
        """How much less collapsed negatives are than positives."""
        return torch.relu(-self.measure(z)["collapseness"])

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`collapseness`: C_p - C_n."""
        positive, negative = z.chunk(2)
        return {"collapseness": _gap(self.anchor, positive, negative, self.sharpness)}


@dataclasses.dataclass(eq=False)
class MisplaceAnchors(BoundGoal):
    """Move anchors from where they were, to their nearest negatives, without parting them from their positives.

    L = relu(C_p - C_n) + exp(-relu(C_n - C_p)) relu(D_n - S),
    D_n the mean of the nearer half of d(a', n), S the mean shift d(a', a); the weight of the second term is constant

    The images are the anchors. It is bound to triplets by being built, and is one group.

    Args:
        anchor: clean embeddings, one per triplet.
        positive: likewise.
        negative: likewise.
        sharpness: λ of the collapseness C of d(a', p) and of d(a', n).

    Relations: `MixCandidates` has the first term with the opposite sign; `shift` has the last part of the second alone.
    Reference: the released code of CA-TRIDE.
    """

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    sharpness: float

    group = None
    floor = REACHED

    def images(self) -> int:
        """One per triplet."""
        return len(self.anchor)

    def loss(self, z: Tensor) -> Tensor:
        """Both terms."""
        gap = self.measure(z)["collapseness"]
        weight = torch.exp(-torch.relu(-gap)).detach()
        shift = pairwise_distance(z, self.anchor).mean()
        return torch.relu(gap) + weight * torch.relu(nearer_half(pairwise_distance(z, self.negative)) - shift)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`collapseness`: C_p - C_n."""
        return {"collapseness": _gap(z, self.positive, self.negative, self.sharpness)}


def _gap(anchor: Tensor, positive: Tensor, negative: Tensor, sharpness: float) -> Tensor:
    """How much less collapsed positives are than negatives, as the one value of one group."""
    near, far = pairwise_distance(anchor, positive), pairwise_distance(anchor, negative)
    return (collapseness(near, sharpness) - collapseness(far, sharpness))[None]
