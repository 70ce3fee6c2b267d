"""MDProp's evaluation: inputs that imitate other classes, whether they reach them, and where classes overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.attacks import Attacked, Budget, References
from holdfast.audit.adml import refuse_queries
from holdfast.audit.base import CLEAN, Part, Protocol, register
from holdfast.audit.figures import Figures, stacked
from holdfast.audit.subject import Subject
from holdfast.errors import RecipeError, unknown
from holdfast.metric_info import MetricInfo, percentage
from holdfast.metrics.base import blocks
from holdfast.sphere import distance, distances

KEYS = ("R@1", "R@4")
INPUTS = {"stax": "single-target", "mtax": "multi-target"}
LARGER = 10
"""The paper's second eps, 0.1, is ten times its first."""
START = 0.0005
"""How far from the image attacks start, in normalised units and whatever ε: as in the released training."""
KINDS = tuple(kind + suffix for suffix in ("", "-large") for kind in INPUTS)
CLASSES = 6
"""Five targets of different other classes, and the own."""


@register("stax")
class Stax(Protocol):
    """Images made to look like one or several other classes: R@1, R@4, NMI and π_ratio before and after.

    20 steps of ε/20 with ε 0.01 in normalised units, and again with ten times that, both from within 0.0005 of the
    image. `fixed` searches the clean gallery; `replaced` replaces every image.

    `overlap` is the percentage of images that are as near to another class's centre as half of the gallery is to the
    own (Eq. 6), `false_overlap` of those that are, beside it, no nearer to an image of their class (Eq. 7);
    `stax/success_rate` of imitations that are at least as near to all their targets as the clean image was to one of
    its class (Eq. 4). Images of the own class are averaged over. Centres and gallery are the clean ones in both modes.

    A model that brings auxiliary BatchNorm sets (MDProp, AdvProp-D) is also measured through each of them, gallery
    included: `set/NAME/R@1` for clean images and `set/NAME/stax/R@1` for single-target inputs crafted against that
    set, both with R@4. Unmarked figures are those of the clean set, which is the model.

    Args:
        mode: `fixed` or `replaced`.
        eps: in normalised units.
        only: which of `stax`, `mtax`, `stax-large` and `mtax-large` to craft; when left out all of them, and what a
            model's auxiliary sets need.

    Requirements: labels of six or more classes.
    Relations: `ers` has the same aim in TMA, without looking at classes.
    Reference: MDProp, Table 1.
    """

    modes: ClassVar[tuple[str, ...]] = ("fixed", "replaced")
    through_sets: ClassVar[bool] = True

    def __init__(self, mode: str = "fixed", eps: float | None = None, only: tuple[str, ...] = ()) -> None:
        super().__init__(mode, eps)
        for name in only:
            if name not in KINDS:
                raise RecipeError(unknown("kind of input", name, KINDS))
        self.only = only

    def describe(self) -> dict[str, MetricInfo]:
        """The figures that papers print."""
        return {
            "R@1": CLEAN,
            "stax/R@1": percentage("R@1 of single-target inputs, which imitate one other class, %", title="STAX"),
            "stax/R@4": percentage("R@4 of single-target inputs, %", title="STAX R@4"),
            "stax/NMI": percentage("how well clusters of single-target inputs match classes, %", title="STAX NMI"),
            "mtax/R@1": percentage("R@1 of multi-target inputs, which imitate five other classes, %", title="MTAX"),
            "stax-large/R@1": percentage("R@1 of single-target inputs with ten times the eps, %", title="STAX ×10"),
            "mtax-large/R@1": percentage("R@1 of multi-target inputs with ten times the eps, %", "page"),
            "stax/success_rate": percentage("imitations as near to their target as to their own class, %", "page"),
            "mtax/success_rate": percentage("imitations as near to all five targets as to their class, %", "page"),
            "overlap": percentage("images that another class's centre claims, %", "page"),
            "false_overlap": percentage("of those, beside it, no nearer to an image of their class, %", "page"),
        }

    @property
    def pixel_eps(self) -> None:
        """None: its eps is in normalised units."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """What was left out."""
        return {"only": list(self.only)} if self.only else {}

    def budget(self, subject: Subject) -> Budget:
        """0.01 in normalised units, or as asked."""
        return _budget(self.eps or 0.01, subject)

    def parts(self, subject: Subject) -> list[Part]:
        """Both kinds of input at each eps, and single-target ones through each auxiliary set."""
        classes = len(torch.unique(subject.references.labels))
        if classes < CLASSES:
            raise RecipeError(f"stax needs six or more classes, this data has {classes}; use --protocol ers or adml")
        if self.mode == "replaced":
            refuse_queries(subject)
        small, alone = self.budget(subject), self.mode == "fixed"
        parts = []
        for name in (kind for kind in KINDS if not self.only or kind in self.only):
            kind, large = name.removesuffix("-large"), name.endswith("-large")
            budget = _budget(LARGER * (self.eps or 0.01), subject) if large else small
            attack = subject.attack_on(name, INPUTS[kind], budget, _kept)
            parts.append(Part(name, attack, budget=budget if alone else None))
        for name, view in self._sets(subject).items():
            # The draws of plain stax, so that what differs between figures is the set.
            parts.append(Part(_set_part(name), view.attack_on("stax", INPUTS["stax"], small)))
        return parts

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """Clean figures, and those of each kind of input under its name."""
        figures = Figures(subject.seed)
        centres = Centres.of(subject.references)
        references, rows, labels = subject.references, subject.rows, subject.labels[subject.rows]
        clean = references.clean(rows)
        sets = self._sets(subject)
        through = {_set_part(name) for name in sets}
        for part in ("", *(part for part in measured if part not in through)):
            prefix = f"{part}/" if part else ""
            vectors = stacked(measured[part], subject) if part else clean
            figures.retrieval(KEYS, subject, vectors, self.mode, prefix)
            figures.clustering(f"{prefix}NMI", vectors, labels)
            figures.spread_ratio(f"{prefix}pi_ratio", vectors, labels)
            near, nearer = centres.overlap(subject, vectors)
            figures.mean(f"{prefix}overlap", near.cpu(), scale=100)
            figures.mean(f"{prefix}false_overlap", nearer.cpu(), scale=100)
            if part:
                reached = own_images_beyond(references, rows, clean, measured[part]["farthest"].to(clean.device))
                figures.mean(f"{prefix}success_rate", reached.cpu(), scale=100)
        for name, view in sets.items():
            part = _set_part(name)
            figures.retrieval(KEYS, view, view.references.clean(rows), self.mode, f"set/{name}/")
            figures.retrieval(KEYS, view, stacked(measured[part], view), self.mode, f"{part}/")
        return figures

    def _sets(self, subject: Subject) -> Mapping[str, Subject]:
        return {} if self.only else subject.sets


def _kept(found: Attacked) -> dict[str, Tensor]:
    return {"vectors": found.vectors, "farthest": found.measures["farthest"]}


def _budget(eps: float, subject: Subject) -> Budget:
    """20 steps of ε/20."""
    start = min(START, eps)
    budget = Budget(eps=eps, step=eps / 20, steps=20, start="uniform", start_radius=start, units="normalized")
    return subject.paced(budget.in_pixels(subject.std))


def _set_part(name: str) -> str:
    """Single-target inputs through an auxiliary set: the name of the part and the start of its figures."""
    return f"set/{name}/stax"


@torch.no_grad()
def own_images_beyond(references: References, rows: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
    """Share of an image's own class in the gallery that is at least so far from it; NaN where there is none.

    For a clean image and the length to the farthest target it is how often Equation 4 holds: d(f(x'), f(t)) <=
    d(f(x), f(r)) for every target t, as the mean over all images r of the own class; the paper does not say which.

    Args:
        references: the clean gallery.
        rows: which images.
        vectors: where they are.
        lengths: how far, one length per image.
    """
    found = []
    for part in references.parts(rows):
        own = references.positives(rows[part])
        beyond = distances(vectors[part], references.vectors) >= lengths[part][:, None]
        found.append((own & beyond).sum(1).double() / own.sum(1).double())  # 0 / 0 is NaN
    return torch.cat(found)


@dataclasses.dataclass(frozen=True)
class Centres:
    """Where the classes of a gallery are, for Equations 6 and 7.

    Args:
        references: the clean gallery.
        labels: its classes, sorted.
        vectors: their centres: means of clean embeddings, scaled to unit length.
        within: τ of Equation 6, which the paper leaves open: the distance within which half of the gallery lies of the
            own class's centre.
    """

    references: References
    labels: Tensor
    vectors: Tensor
    within: float

    @classmethod
    def of(cls, references: References) -> Centres:
        """The centres of a gallery with labels."""
        labels, index = references.labels.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        sums = torch.zeros(len(labels), references.vectors.shape[1], dtype=torch.float64, device=references.device)
        sums.index_add_(0, index, references.vectors.double())
        centres = F.normalize(sums, dim=1).to(references.vectors.dtype)
        own = torch.cat([distance(references.vectors[b], centres[index[b]]) for b in blocks(*references.vectors.shape)])
        return cls(references, labels, centres, float(own.median()))

    @torch.no_grad()
    def overlap(self, subject: Subject, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Whether Equation 6 holds for each attacked image, and how often 6 and 7 do.

        6: d(f(x), c) <= τ for the centre c of another class, the least B that overlaps with the own.
        7: d(f(x), c) <= d(f(x), f(g)), g an image of the own class; the mean over all g there are, NaN without any.

        Args:
            subject: whose attacked images are meant.
            vectors: where they are, clean or adversarial; centres, gallery and τ are clean.
        """
        rows = subject.rows.to(vectors.device)
        classes, found = subject.labels.to(vectors.device)[rows], []
        for part in blocks(len(vectors), len(self.labels)):
            others = classes[part][:, None] != self.labels
            found.append(distances(vectors[part], self.vectors).masked_fill(~others, torch.inf).amin(1))
        nearest = torch.cat(found)
        within = (nearest <= self.within).double()
        return within, within * own_images_beyond(self.references, rows, vectors, nearest)
