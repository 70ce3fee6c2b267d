"""Where a triplet's gradient points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.configurable import Configurable
from holdfast.registry import Registry


class Moves(NamedTuple):
    """Unit vectors of the gradient, one row per triplet; zero where a direction does not exist.

    Args:
        e_p: at the positive.
        e_n: at the negative.
        e_ap: at the anchor because of its positive.
        e_an: at the anchor because of its negative.
    """

    e_p: Tensor
    e_n: Tensor
    e_ap: Tensor
    e_an: Tensor


class Direction(Configurable, ABC):
    """Where anchor, positive and negative are moved; descent goes against it."""

    @abstractmethod
    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Moves:
        """The directions of triplets.

        Args:
            anchor: unit vectors of shape (t, dim), as the others.
        """

    @abstractmethod
    def force(self, similarity: Tensor) -> Tensor:
        """The fraction of a unit push on one member of a pair that turns it, at a similarity of the pair.

        The rest points along the vector itself and is lost in the normalisation. For the orthogonal directions this
        is the force on the positive pair; that on the negative pair depends on the whole triplet.
        """


registry: Registry[Direction] = Registry("direction", Direction, "holdfast.gradients.directions")
register = registry.register


@register("euc")
class EuclideanDirection(Direction):
    """Straight towards the positive and straight away from the negative.

    e_p = (f_p - f_a) / |f_p - f_a|, e_n = (f_a - f_n) / |f_a - f_n|, e_ap = -e_p, e_an = -e_n

    Coinciding vectors have no direction between them and get zero.
    """

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Moves:
        """The differences, at unit length."""
        pull, push = unit(positive - anchor), unit(anchor - negative)
        return Moves(pull, push, -pull, -push)

    def force(self, similarity: Tensor) -> Tensor:
        """Strongest for close pairs: sqrt((1 + s) / 2)."""
        return ((1 + similarity) / 2).clamp_min(0).sqrt()


@register("cos")
class CosineDirection(Direction):
    """Along the other vector of the pair, as the derivative of a dot product.

    e_p = -f_a, e_n = f_a, e_ap = -f_p, e_an = f_n
    """

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Moves:
        """The vectors themselves."""
        return Moves(-anchor, anchor, -positive, negative)

    def force(self, similarity: Tensor) -> Tensor:
        """Fades for close pairs: sqrt(1 - s²)."""
        return (1 - similarity.square()).clamp_min(0).sqrt()


@register("euc-orth")
class EuclideanOrthogonal(EuclideanDirection):
    """As `euc`, with the negative pair moving at right angles to the positive pair.

    e_n and e_an lose their component along f_a - f_p and are brought back to unit length. The paper asks this of e_n
    only and does not say whether the length is restored; here both members of the negative pair are treated alike, at
    unit length, so that weights stay comparable between directions.
    """

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Moves:
        """The euclidean directions, straightened."""
        return straightened(super().__call__(anchor, positive, negative), anchor - positive)


@register("cos-orth")
class CosineOrthogonal(CosineDirection):
    """As `cos`, with the negative pair moving at right angles to the positive pair.

    e_n and e_an lose their component along f_a - f_p and are brought back to unit length, as in `euc-orth`.
    """

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Moves:
        """The cosine directions, straightened."""
        return straightened(super().__call__(anchor, positive, negative), anchor - positive)


def straightened(moves: Moves, line: Tensor) -> Moves:
    """The same moves, those of the negative pair without their component along a line."""
    axis = unit(line)
    # Less than this of a unit vector is what rounding leaves of a parallel one; its direction would be noise.
    floor = torch.finfo(line.dtype).eps ** 0.5

    def across(vectors: Tensor) -> Tensor:
        return unit(vectors - (vectors * axis).sum(1, keepdim=True) * axis, floor)

    return moves._replace(e_n=across(moves.e_n), e_an=across(moves.e_an))


def unit(vectors: Tensor, floor: float = 0.0) -> Tensor:
    """Rows at unit length; those no longer than `floor` become zero."""
    length = vectors.norm(dim=1, keepdim=True)
    return torch.where(length > floor, vectors / length.clamp_min(torch.finfo(vectors.dtype).tiny), 0)
