"""What is left of retrieval after everyday damage, and beside it after a visible patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from holdfast.attacks import Attacked, BoundGoal, Budget, Misrank, UntilMissed
from holdfast.attacks.patch import AREA, PLACES, STEPS, patch, patch_search
from holdfast.audit.base import CLEAN, Part, Protocol, register
from holdfast.audit.damage import DAMAGES, STRENGTHS, damaged
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes
from holdfast.audit.sampling import share_interval
from holdfast.audit.subject import Subject
from holdfast.errors import RecipeError, plural, unknown
from holdfast.metric_info import MetricInfo, percentage

PATCH = "patch"
KINDS = (*DAMAGES, PATCH)


@register("natural")
class Natural(Protocol):
    """What happens to images without an enemy: R@1 of queries under twelve kinds of damage at five strengths.

    JPEG, blur, noise, brightness, contrast, saturation, crop, padding, rotation, flip, downscaling, text and stickers,
    applied to the query at the size that the model sees; the gallery stays clean. A flip has no strengths: its five are
    mirrored, a quarter turn to either side, a half turn, and top to bottom. `natural R@1` is the mean over kinds and
    strengths, `natural loss` what that is below clean R@1, in points.

    Beside it `patch R@1`, where there is an enemy: one visible square anywhere in the image, its pixels free. A query
    that is wrong before counts as wrong.

    Args:
        mode: `fixed`.
        only: which kinds, `patch` among them; all of them when left out.
        area: of the patch, as a fraction of the image's.

    Requirements: labels, two or more images per class. Costs about a fifth of `ers`.
    Relations: `ers` and `thorough` change every pixel a little.
    Reference: after Hendrycks and Dietterich, ICLR 2019.
    """

    adversarial: ClassVar[bool] = False

    def __init__(self, mode: str = "fixed", only: tuple[str, ...] = (), area: float = AREA) -> None:
        super().__init__(mode)
        for name in only:
            if name not in KINDS:
                raise RecipeError(unknown("kind of damage", name, KINDS))
        if not 0 < area <= 1:
            raise RecipeError(f"area must be above 0 and at most 1, got {area}")
        self.only = only
        self.area = area

    def describe(self) -> dict[str, MetricInfo]:
        """The mean, what it is below clean R@1, and the patch."""
        loss = MetricInfo("points of R@1 that everyday damage costs on average", better="lower", digits=1, shown="page")
        return {
            "R@1": CLEAN,
            "natural R@1": percentage("R@1 under everyday damage, mean over kinds and strengths, %", title="natural"),
            "natural loss": loss,
            "patch R@1": percentage("R@1 when a visible square of the query is free to an attacker, %", title="patch"),
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What was left out, and another size of the patch."""
        only = {"only": list(self.only)} if self.only else {}
        return only | ({"area": self.area} if self.area != AREA else {})

    def budget(self, subject: Subject) -> Budget:
        """Of the patch: its pixels are free."""
        return subject.paced(Budget(eps=1.0, steps=STEPS, method="apgd"))

    def words(self, subject: Subject) -> str:
        """What is done, for people."""
        told = [kind for kind in self.only or KINDS if kind != PATCH]
        told = [f"{plural(len(told), 'kind')} of damage at {STRENGTHS} strengths"] if told else []
        told += [f"a patch of {100 * self.area:g} % of the image"] if not self.only or PATCH in self.only else []
        return ", ".join(told)

    def parts(self, subject: Subject) -> list[Part]:
        """One part per kind, with all its strengths; the patch comes last."""
        once = Passes(forward=STRENGTHS)
        parts = [Part(kind, _damage(subject, kind), passes=once) for kind in DAMAGES]
        parts.append(Part(PATCH, self._patch(subject), passes=self._patch_passes(subject)))
        return [part for part in parts if not self.only or part.name in self.only]

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """The means, and R@1 of each kind at each strength with its interval."""
        figures = Figures(subject.seed)
        figures.clean(subject)
        hits = {kind: found["hit"].double() for kind, found in measured.items() if kind != PATCH}
        if hits:
            every = torch.stack(list(hits.values())).mean((0, 2))
            clean = subject.references.hits(subject.references.clean(subject.rows), subject.rows)
            figures.mean("natural R@1", every, scale=100)
            figures.mean("natural loss", clean.cpu().double() - every, scale=100)
        if PATCH in measured:
            figures.mean("patch R@1", measured[PATCH]["hit"], scale=100)
            by = "gradient" if subject.differentiable else "search"
            figures.extra["patch"] = {"area": self.area, "by": by, "steps": self.budget(subject).steps}
        cells = {kind: [_cell(column) for column in values.unbind(1)] for kind, values in hits.items()}
        figures.extra["natural"] = {kind: [value for value, _ in row] for kind, row in cells.items()}
        figures.extra["natural_intervals"] = {kind: [ends for _, ends in row] for kind, row in cells.items()}
        return figures

    def _patch(self, subject: Subject) -> Callable[[slice], dict[str, Tensor]]:
        goal = misrank(subject, subject.rows)

        def attack(block: slice) -> dict[str, Tensor]:
            rows = subject.rows[block]
            hit = subject.references.hits(subject.references.clean(rows), rows)
            right = (hit > 0).nonzero()[:, 0]  # a query that is wrong already needs no patch
            if len(right):
                positions = torch.arange(block.start, block.stop, device=right.device)[right]
                found = patched(subject, rows[right], goal.take(positions), self.area, block.start)
                hit[right] = found.measures["hit"].to(hit)
            return {"hit": hit}

        return attack

    def _patch_passes(self, subject: Subject) -> Passes:
        if not subject.differentiable:
            return subject.search_passes
        return Passes(forward=PLACES + 3, back=1 + self.budget(subject).steps)


def misrank(subject: Subject, rows: Tensor) -> BoundGoal:
    """What a patch is for: another class found first, and no more."""
    bound = Misrank().bind(subject.references, rows)
    return UntilMissed(bound, subject.references, subject.references.rows(rows))


def patched(subject: Subject, rows: Tensor, goal: BoundGoal, area: float, number: int) -> Attacked:
    """Some queries with a patch each, by gradient where the model gives one.

    Args:
        subject: the model.
        rows: which images.
        goal: bound to them.
        area: of the patch.
        number: of the block, for draws of its own.
    """
    images, generator = subject.images(rows), subject.generator(PATCH, number)
    if not subject.differentiable:
        queries = subject.queries
        return patch_search(
            subject.model, images, goal, area=area, queries=queries, generator=generator, chunk=subject.chunk
        )
    steps = subject.paced(Budget(eps=1.0, steps=STEPS)).steps
    return patch(
        subject.model,
        images,
        goal,
        area=area,
        steps=steps,
        generator=generator,
        chunk=subject.chunk,
        precision=subject.precision,
    )


def _damage(subject: Subject, kind: str) -> Callable[[slice], dict[str, Tensor]]:
    def attack(block: slice) -> dict[str, Tensor]:
        rows = subject.rows[block]
        made = damaged(kind, subject.images(rows), subject.generator("damage", kind, block.start))
        found = torch.cat([_encoded(subject, images) for images in made])
        return {"hit": subject.references.hits(found, rows.repeat(STRENGTHS)).view(STRENGTHS, -1).T.contiguous()}

    return attack


def _encoded(subject: Subject, images: Tensor) -> Tensor:
    """Vectors of images, as many at a time as the subject takes."""
    return torch.cat([subject.encode(part) for part in torch.split(images, subject.chunk or len(images))])


def _cell(hits: Tensor) -> tuple[float | None, list[float]]:
    """R@1 at one strength and its interval; None and nothing where no image has a positive in the gallery."""
    known = hits[~hits.isnan()]
    return (100 * float(known.mean()), [100 * end for end in share_interval(known)]) if len(known) else (None, [])
