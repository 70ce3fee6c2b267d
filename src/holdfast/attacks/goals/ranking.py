"""Raising or lowering one image in a ranking of the whole gallery (CA, QA, GTT)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References, gallery_sum
from holdfast.mining.draw import sample
from holdfast.sphere import Mask, distance, distances


@dataclasses.dataclass(eq=False)
class _BoundRanking(BoundGoal):
    """Compare the distance to a target with those of every gallery item; the attacked image is the query (QA).

    Args:
        references: the gallery.
        target: the candidate of each image (QA), or its query (CA).
        raise_rank: the candidate is to rise.
    """

    references: References
    target: Tensor
    raise_rank: bool

    floor = 0.0
    per_group: ClassVar[tuple[str, ...]] = ("target",)

    def loss(self, z: Tensor) -> Tensor:
        """The mean hinge over the gallery."""
        aim = self.references.vectors[self.target]
        sign = 1 if self.raise_rank else -1

        def hinges(z: Tensor, block: slice) -> Tensor:
            gaps = sign * (distance(z, aim)[:, None] - self.rest(z, block))
            return torch.relu(gaps).masked_fill(self.candidate(block), 0).sum(1)

        return gallery_sum(z, len(self.references), hinges) / len(self.references)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`rank`: percentage of the gallery that is nearer to the query than the candidate is."""
        return {"rank": 100 * self.closer(z, self.candidate) / len(self.references)}

    @torch.no_grad()
    def closer(self, z: Tensor, aside: Callable[[slice], Mask]) -> Tensor:
        """How many gallery items are nearer to the query than the candidate is, apart from some."""
        aim = distance(z, self.references.vectors[self.target])

        def count(z: Tensor, block: slice) -> Tensor:
            return ((self.rest(z, block) < aim[:, None]) & ~aside(block)).sum(1).to(aim.dtype)

        return gallery_sum(z.detach(), len(self.references), count)

    def rest(self, z: Tensor, block: slice) -> Tensor:
        """Distances of a block of the gallery, seen from whoever is the query."""
        return distances(z, self.references.vectors[block].to(z.dtype))

    def candidate(self, block: slice) -> Tensor:
        """Which items of a block are the candidate: compared with itself it would count by a rounding error."""
        items = torch.arange(len(self.references), device=self.target.device)[block]
        return self.target[:, None] == items[None, :]


@dataclasses.dataclass(eq=False)
class _BoundCandidate(_BoundRanking):
    """The attacked image is the candidate: the query, with its distances to everything else, stays where it is."""

    rows: Tensor

    per_group: ClassVar[tuple[str, ...]] = ("target", "rows")

    def rest(self, z: Tensor, block: slice) -> Tensor:
        """Distances of a block of the gallery from the query."""
        return distances(self.references.vectors[self.target].to(z.dtype), self.references.vectors[block].to(z.dtype))

    def candidate(self, block: slice) -> Tensor:
        """None: the attacked candidate is not in the gallery."""
        return torch.zeros((), dtype=torch.bool, device=self.target.device)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Also `place` and `clean_place` in the query's list, from 1; query and own clean copy are not in the list."""
        clean, query = self.references.clean(self.rows), self.references.vectors[self.target]
        # Measured alike: a candidate that did not move would else be behind its own copy by a rounding error.
        behind = self.closer(z, self._own)
        if self.references.queries is None:
            behind = behind + (distance(clean, query) < distance(z, query))
        places = {name: 1 + self.closer(where, self._aside) for name, where in (("place", z), ("clean_place", clean))}
        return {"rank": 100 * behind / len(self.references)} | places

    def _own(self, block: slice) -> Mask:
        return self.references.itself(self.rows, block)

    def _aside(self, block: slice) -> Mask:
        return super().candidate(block) | self._own(block)


class _Ranking(Goal):
    """Binds every image to another one: drawn from the whole gallery to rise, from the nearest 1 % to fall."""

    of_query: ClassVar[bool]
    upwards: ClassVar[bool]

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw the query or candidate of each image."""
        rows = references.rows(rows)
        target = references.draw_any(len(rows), generator) if self.upwards else self._near(references, rows, generator)
        if self.of_query:
            return _BoundRanking(references, target, self.upwards)
        return _BoundCandidate(references, target, self.upwards, rows)

    def _near(self, references: References, rows: Tensor, generator: Generator | None) -> Tensor:
        # The nearest 1 % are floor(n / 100) neighbours, or the only one; the image's own copy is none.
        near = references.nearest(references.clean(rows), rows, max(1, len(references) // 100))
        chosen = sample(torch.randint, near.shape[1], (len(rows), 1), device=near.device, generator=generator)
        return near.gather(1, chosen).squeeze(1)


@register("ca+")
class CandidateUp(_Ranking):
    """Bring an image to the top of another image's ranking (CA+).

    L = mean_x relu(d(c', q) - d(x, q)), q uniform in the gallery

    Relations: `qa+` attacks the query instead; `tma` only the one distance.
    Reference: Zhou et al., ECCV 2020; HM, Section 4.
    """

    of_query, upwards = False, True


@register("ca-")
class CandidateDown(_Ranking):
    """Push an image down the ranking of one of its neighbours (CA-).

    L = mean_x relu(d(x, q) - d(c', q)), q uniform in the nearest 1 % of c

    Relations: `ca+` is the other direction.
    Reference: Zhou et al., ECCV 2020; HM, Section 4.
    """

    of_query, upwards = False, False


@register("qa+")
class QueryUp(_Ranking):
    """Change a query so that a chosen image comes out on top (QA+).

    L = mean_x relu(d(q', c) - d(q', x)), c uniform in the gallery

    Relations: `ca+` changes the candidate instead.
    Reference: Zhou et al., ECCV 2020; HM, Section 4.
    """

    of_query, upwards = True, True


@register("qa-")
class QueryDown(_Ranking):
    """Change a query so that one of its neighbours falls behind (QA-).

    L = mean_x relu(d(q', x) - d(q', c)), c uniform in the nearest 1 % of q

    Relations: `gtt` aims at the nearest neighbour and asks only for the top four.
    Reference: Zhou et al., ECCV 2020; HM, Section 4.
    """

    of_query, upwards = True, False


@dataclasses.dataclass(eq=False)
class _BoundTopFour(_BoundRanking):
    """Adds whether the candidate is still among the first four."""

    rows: Tensor

    per_group: ClassVar[tuple[str, ...]] = ("target", "rows")

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`top4`: 1 where the clean nearest neighbour is still in the top four, ignored items aside."""
        first = self.references.nearest(z, self.rows, 4)
        return {"top4": (first == self.target[:, None]).any(1).to(z.dtype)}


@register("gtt")
class GreedyTopOne(Goal):
    """Move a query's nearest neighbour out of its first four (GTT).

    L = mean_x relu(d(q', x) - d(q', m)), m the clean nearest neighbour

    Relations: `qa-` with a fixed candidate.
    Reference: HM, Section 4.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find the nearest neighbour of each clean image."""
        rows = references.rows(rows)
        nearest = references.nearest(references.clean(rows), rows, 1).squeeze(1)
        return _BoundTopFour(references, nearest, raise_rank=False, rows=rows)
