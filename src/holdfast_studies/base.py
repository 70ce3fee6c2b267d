"""A study: a paper's claim as an experiment that can fail."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from holdfast.config import instantiate
from holdfast.registry import Registry
from holdfast_studies.claims import Claim
from holdfast_studies.declared import declared
from holdfast_studies.drawing import Curves, Drawing, described
from holdfast_studies.jobs import EMBEDDED, Arm, Cell, Scale, called
from holdfast_studies.results import ON_TEST

SEEDS: dict[Scale, tuple[int, ...]] = {"pocket": (0, 1, 2), "paper": (0,)}
"""Where neither the study nor the user says otherwise."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a study is at one scale; claims, drawings, columns and notes in its paper's YAML file come after these.

    Args:
        arms: what is compared; the same job in two studies is done once. Empty where the study has no such scale.
        claims: what must come out.
        drawings: its figures.
        columns: heading → figure, of the table of arms.
        notes: what a reader must know: how this scale differs from the paper's setting.
    """

    arms: Sequence[Arm]
    claims: Sequence[Claim] = ()
    drawings: Sequence[Drawing] = ()
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """One study.

    Args:
        id: as the papers' tables are cited: `A1`.
        title: what it is about, one line.
        source: paper and table.
        published: the figures printed there, one line.
        plan: from the scale to what is compared and claimed there.
        ours: its claims are of no paper, so that they are judged in whatever setting they are about.
    """

    id: str
    title: str
    source: str
    published: str
    plan: Callable[[Scale], Plan]
    ours: bool = False

    def arms(self, scale: Scale) -> list[Arm]:
        """What is compared."""
        return list(self.plan(scale).arms)

    def claims(self, scale: Scale) -> list[Claim]:
        """What must come out."""
        return list(self.plan(scale).claims)

    def columns(self, scale: Scale) -> dict[str, str]:
        """Heading → figure."""
        return dict(self.plan(scale).columns)

    def notes(self, scale: Scale) -> str:
        """What a reader must know."""
        return self.plan(scale).notes

    def figures(self, scale: Scale) -> list[Drawing]:
        """Its drawings, and R@1 over epochs of the arms that looked at the test classes while training."""
        plan = self.plan(scale)
        title = "R@1 on the test classes over epochs"
        return [*plan.drawings, Curves(title, called(plan.arms), series=ON_TEST, x="epoch", y="R@1, %")]

    def cells(self, scale: Scale, seeds: tuple[int, ...] | None = None) -> list[Cell]:
        """All arms with all seeds, the first seed of every arm before the second of any."""
        arms = [(arm, seeds or arm.seeds or SEEDS[scale]) for arm in self.plan(scale).arms]
        rounds = max((len(own) for _, own in arms), default=0)
        return [
            Cell(arm=arm.name, job=arm.job, seed=own[n]) for n in range(rounds) for arm, own in arms if n < len(own)
        ]

    def invocation(self, scale: Scale) -> str:
        """`holdfast study A1 --scale paper --place cub=DIR --weights resnet50=FILE`.

        It names every dataset that must be placed and every backbone whose weights would be fetched: a command that
        names weights no arm begins with is refused.
        """
        jobs = [arm.job for arm in self.plan(scale).arms]
        places = sorted({name for job in jobs for name in job.datasets} - set(EMBEDDED))
        weights = sorted({job.fetched for job in jobs if job.fetched})
        words = ["holdfast study", self.id, "--scale", scale]
        words += ["--place", *(f"{name}=DIR" for name in places)] if places else []
        words += ["--weights", *(f"{name}=FILE" for name in weights)] if weights else []
        return " ".join(words)


registry: Registry[Study] = Registry("study", Study, "holdfast_studies.catalogue")
names = registry.names

Planned = Callable[[Scale], Plan]


def study(name: str) -> Callable[[Planned], Planned]:
    """Decorator that registers a study, of which the YAML file of its paper says all that needs no code.

    Args:
        name: the study's id. The first line of the function's docstring is its title.
    """

    def add(plan: Planned) -> Planned:
        title = (plan.__doc__ or "").strip().partition("\n")[0].rstrip(".")

        @functools.cache
        def whole(scale: Scale) -> Plan:
            own, text = plan(scale), declared(name, scale)
            claims: tuple[Claim, ...] = instantiate(tuple[Claim, ...], text["claims"], where=f"{name}: claims")
            notes, columns = text.get("notes", ""), {**own.columns, **text["columns"]}
            drawings = [described(block, called(own.arms), columns) for block in text["drawings"]]
            return Plan(own.arms, [*own.claims, *claims], [*own.drawings, *drawings], columns, notes)

        @registry.register(name)
        @functools.wraps(plan)
        def made() -> Study:
            text = declared(name, "paper")
            source, published, ours = text["source"], text["published"], text.get("ours", False)
            return Study(id=name, title=title, source=source, published=published, plan=whole, ours=ours)

        return plan

    return add


def get(name: str) -> Study:
    """A study by its id, in any case."""
    return registry.get(name.upper())()
