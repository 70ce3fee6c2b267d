"""What a rule does, in numbers: its weights, its force, and where the triplets of an embedding lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from holdfast.errors import DataError, HoldfastError
from holdfast.gradients.directions import registry as directions
from holdfast.gradients.named import RULES, Components
from holdfast.gradients.rule import DirectGradient, named
from holdfast.gradients.triplets import Others, TripletGeometry
from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.sphere import similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAPS = (0.0, 0.1)
"""How much farther than the pair itself the anchor's other pairs lie, where a weight depends on them."""


class PairCurve(NamedTuple):
    """Pair weights along the grid of similarities.

    Args:
        gap: how much less similar the anchor's other pairs are; None where the weight does not depend on them.
        positive: P+.
        negative: P-.
    """

    gap: float | None
    positive: Tensor
    negative: Tensor


class Diagram(NamedTuple):
    """The triplet diagram of an embedding: similarity to the nearest positive and nearest negative of each image."""

    s_ap: Tensor
    s_an: Tensor

    @property
    def solved(self) -> float:
        """Share of images whose nearest positive is closer than their nearest negative: R@1 in percent."""
        return 100 * float((self.s_ap > self.s_an).double().mean())


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A rule in numbers; `figure` draws it.

    Args:
        name: of the rule, or its components where it has none.
        components: names of its parts.
        grid: similarities from -1 to 1.
        pair: (a) pair weight against similarity.
        triplet: (b) triplet weight; rows are s_an, columns s_ap.
        pulls: (b) where the positive is pulled at all.
        force: (c) effective force against similarity of the two kinds of direction.
        diagrams: (d) triplet diagrams of embedded images by name.
    """

    name: str
    components: Components
    grid: Tensor
    pair: list[PairCurve]
    triplet: Tensor
    pulls: Tensor
    force: dict[str, Tensor]
    diagrams: dict[str, Diagram]

    def figure(self) -> Figure:
        """The panels (a) to (c), and (d) where there are diagrams."""
        from holdfast.gradients.drawing import draw

        return draw(self)

    def save(self, file: str | Path) -> None:
        """Write the figure; the ending of the name says how (png, svg, pdf)."""
        try:
            self.figure().savefig(file, dpi=160)
        except (OSError, ValueError) as error:
            allowed = "give another --out ending in .png, .svg or .pdf"
            raise HoldfastError(f"cannot write {file}: {error}; {allowed}") from error

    def plain(self) -> dict[str, Any]:
        """The numbers as plain data."""
        return {
            "rule": self.name,
            "components": self.components._asdict(),
            "similarity": self.grid.tolist(),
            "pair": [{"gap": c.gap, "P+": c.positive.tolist(), "P-": c.negative.tolist()} for c in self.pair],
            "triplet": self.triplet.tolist(),
            "pulls": self.pulls.tolist(),
            "force": {name: values.tolist() for name, values in self.force.items()},
            "diagrams": {name: {"images": len(d.s_ap), "R@1": d.solved} for name, d in self.diagrams.items()},
        }


def explain(
    rule: str | DirectGradient, embedded: Mapping[str, tuple[Tensor, Tensor]] | None = None, points: int = 201
) -> Explanation:
    """What a rule does at every similarity, and where embedded images lie under it.

    Args:
        rule: one of `gradients.names()`, or a rule that was built.
        embedded: unit vectors and labels by name, such as the train and the test images of a run.
        points: grid points between -1 and 1.
    """
    rule = named(rule) if isinstance(rule, str) else rule
    grid = torch.linspace(-1, 1, points, dtype=torch.float64)
    s_ap, s_an = grid[None, :].expand(points, points), grid[:, None].expand(points, points)
    return Explanation(
        name=next((name for name, parts in RULES.items() if parts == rule.components), str(rule.components)),
        components=rule.components,
        grid=grid,
        pair=[_pair_curve(rule, grid, gap) for gap in (GAPS if rule.pair.compares else (None,))],
        triplet=rule.triplet(s_ap, s_an),
        pulls=torch.ones_like(s_ap, dtype=torch.bool) if rule.mask is None else rule.mask(s_ap, s_an),
        force={name: directions.get(name)().force(grid) for name in ("euc", "cos")},
        diagrams={name: diagram(*pair) for name, pair in (embedded or {}).items()},
    )


@torch.no_grad()
def diagram(embeddings: Tensor, labels: Tensor) -> Diagram:
    """Nearest positive and nearest negative of every image that has both, a block of images at a time.

    Args:
        embeddings: unit vectors of shape (n, dim).
        labels: their classes.
    """
    images = EmbeddedSet.of(embeddings, labels)
    z, y = images.embeddings, images.labels
    s_ap, s_an = torch.empty(len(z), device=z.device), torch.empty(len(z), device=z.device)
    for block in blocks(len(z), len(z)):
        s, same = similarity(z[block], z), y[block, None] == y[None, :]
        s_an[block] = s.masked_fill(same, -torch.inf).amax(1)
        s[:, block].fill_diagonal_(-torch.inf)
        s_ap[block] = s.masked_fill(~same, -torch.inf).amax(1)
    complete = s_ap.isfinite() & s_an.isfinite()
    if not bool(complete.any()):
        raise DataError("no image has both a positive and a negative; give two classes, one of them of two images")
    return Diagram(s_ap[complete], s_an[complete])


def _pair_curve(rule: DirectGradient, grid: Tensor, gap: float | None) -> PairCurve:
    if gap is None:
        return PairCurve(None, *rule.pair(TripletGeometry.at(grid, grid)))
    counted = torch.ones(len(grid), 1, dtype=torch.bool)
    others = Others((grid - gap)[:, None], counted, counted)
    return PairCurve(gap, *rule.pair(TripletGeometry.at(grid, grid, others)))
