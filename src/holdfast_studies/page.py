"""The results of one scale as a page, made from raw files alone; every verdict is computed again."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jinja2

from holdfast.errors import plural
from holdfast.files import write_atomic
from holdfast_studies import base, drawing
from holdfast_studies.claims import Verdict
from holdfast_studies.document import Void, read_plain, valid
from holdfast_studies.jobs import Scale
from holdfast_studies.judging import by_reading, counted, verdicts
from holdfast_studies.judging import judged as judge
from holdfast_studies.results import Results, Status
from holdfast_studies.setting import settings
from holdfast_studies.sharing import shared
from holdfast_studies.tables import (
    Ran,
    Spent,
    Table,
    arm_table,
    duration,
    inert,
    inert_table,
    markdown,
    prose,
    spent,
)

PAPERS = {
    "A": "ADML: alignment and uniformity",
    "G": "GS: direct gradients",
    "E": "EPS: easy positives",
    "H": "HM: hardness manipulation and ERS",
    "M": "MDProp: several input distributions",
    "X": "Beyond the papers",
}
"""First letter of an id → heading of its part of the page."""

SIGNS: dict[Status, str] = {"holds": "✔", "does not hold": "✘", "undecided": "?"}
TITLES: dict[Scale, str] = {"pocket": "Results at pocket scale", "paper": "Results at paper scale"}

NAMED = 3
"""So many void arms are named; more are counted."""

Drawn: TypeAlias = tuple[str, str]
"""Title and file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finished:
    """A study with what was found.

    Args:
        study: which.
        scale: at which scale.
        results: of its arms, those that count.
        plain: the raw file.
        verdicts: computed from the results.
        void: what of the raw file does not count any more.
    """

    study: base.Study
    scale: Scale
    results: Results
    plain: Mapping[str, Any]
    verdicts: Sequence[Verdict]
    void: Sequence[Void] = ()

    @property
    def begun(self) -> bool:
        """Whether anything of it was run."""
        return any(self.results.outcomes.values())

    @property
    def ran(self) -> list[Ran]:
        """Its cells that were run."""
        arms = self.study.arms(self.scale)
        return [(arm.job, outcome) for arm in arms for outcome in self.results.outcomes.get(arm.name, [])]

    @property
    def letter(self) -> str:
        """Of its paper."""
        return self.study.id[0]

    @property
    def table(self) -> Table:
        """One row per arm."""
        planned = {name: arm["planned"] for name, arm in self.plain["arms"].items()}
        return arm_table(self.study, self.scale, self.results, planned)

    @property
    def by_reading(self) -> dict[str, list[Verdict]]:
        """Its verdicts under each reading of what the paper leaves unsaid."""
        return {said: [v for v in self.verdicts if v.reading == said] for said in [v.reading for v in self.verdicts]}

    @property
    def differing(self) -> dict[str, list[str]]:
        """What arms that were run differ from the paper in, where a table's cell does not say it → those arms."""
        told: dict[str, list[str]] = {}
        for arm, own in settings(self.study.arms(self.scale)).items():
            if own.kind == "ours" and self.results.outcomes.get(arm):
                told.setdefault(f"{own.short}: {'; '.join(own.how)}", []).append(arm)
        return told

    @property
    def doubted(self) -> dict[str, list[str]]:
        """What the flags of audits say against figures → the arms, and seeds, that it is said of."""
        told: dict[str, list[str]] = {}
        for arm, outcomes in self.results.outcomes.items():
            for outcome in outcomes:
                for prefix, flags in outcome.flags.items():
                    told.setdefault(f"{prefix}: {', '.join(flags)}", []).append(f"{arm}, seed {outcome.seed}")
        return told

    def how(self, every: Sequence[Ran]) -> str:
        """Budget, in one line; `every` has the cells of all studies, some of which its own start from."""
        cost = spent(self.ran, every)
        ran = {name: arm["job"] for name, arm in self.plain["arms"].items() if self.results.outcomes.get(name)}
        jobs = [job for job in ran.values() if "recipe" in job]
        if not jobs:
            return f"Computed in {duration(cost.seconds)}."
        data = sorted({job["data"] if isinstance(job["data"], str) else job["data"]["name"] for job in jobs})
        backbones = sorted({job["backbone"] for job in jobs})
        epochs = " or ".join(map(str, sorted({job["epochs"] for job in jobs})))
        whole = f"{duration(cost.seconds)} in all{_left_out(cost)}"
        return f"Run: {', '.join(backbones)} on {', '.join(data)}, {epochs} epochs, {whole}."


def mark(verdict: Verdict) -> str:
    """A verdict in a sign and a word; what judges no claim of a paper has a sign of its own."""
    sign = SIGNS[verdict.status] if verdict.standing in ("verdict", "ours") else "·"
    return f"{'–' if verdict.unfinished else sign} {verdict.words}"


def order(ids: Iterable[str]) -> list[str]:
    """As the papers come: A1, A2, ..., then G, E, H, M and X."""
    papers = "".join(PAPERS)
    return sorted(ids, key=lambda name: (papers.find(name[0]) % (len(papers) + 1), int(name[1:] or 0), name))


def load(file: Path) -> Finished:
    """A raw file with its study's code; what is void in it is left out."""
    plain = read_plain(file)
    study, scale = base.get(plain["study"]), plain["scale"]
    results, void = valid(study, scale, plain)
    judged = verdicts(study, scale, results)
    return Finished(study=study, scale=scale, results=results, plain=plain, verdicts=judged, void=void)


def load_all(files: Iterable[Path]) -> list[Finished]:
    """The raw files of one scale that are there; what one study ran of an arm that another has, too, counts in both."""
    loaded = [load(file) for file in files if file.is_file()]
    every = [(one.study, one.results) for one in loaded]
    found = []
    for one in loaded:
        results = shared(one.study, one.scale, one.results, every)
        judged = verdicts(one.study, one.scale, results)
        found.append(dataclasses.replace(one, results=results, verdicts=judged))
    return found


def write_page(scale: Scale, raw: Path, page: Path, figures: Path, reading: Path | None = None) -> list[Finished]:
    """Draw the figures of all raw files in a folder and write the page; returns what it found there.

    Args:
        scale: of the raw files.
        raw: folder with one JSON file per study.
        page: the Markdown file.
        figures: folder for PNG files.
        reading: folder with a person's remarks, `SCALE-ID.md`; they stand beside the verdicts and change none. A study
            of which anything is void has none.
    """
    loaded = load_all(raw / f"{name}.json" for name in base.names())  # what else lies there is not ours
    ready = {one.study.id: one for one in loaded if one.begun}
    found = [ready[name] for name in order(ready)]
    void = {one.study.id: one.void for one in loaded if one.void}
    drawn = {f.study.id: _draw(f, figures) for f in found}
    for file in {figures / f"{name}-{n}.png" for name in base.names() for n in range(1, 10)}:
        if file not in {file for own in drawn.values() for _, file in own}:
            file.unlink(missing_ok=True)  # of results that do not count any more
    links = {
        name: [(text, Path(os.path.relpath(file, page.parent)).as_posix()) for text, file in own]
        for name, own in drawn.items()
    }
    write_atomic(page, page_text(scale, found, links, reading, void))
    return found


def page_text(
    scale: Scale,
    found: Sequence[Finished],
    figures: Mapping[str, Sequence[Drawn]],
    reading: Path | None = None,
    void: Mapping[str, Sequence[Void]] | None = None,
) -> str:
    """The page.

    Args:
        scale: of all that was found.
        found: studies of which something was run, in the order of the page.
        figures: study → title and link of each.
        reading: folder with a person's remarks.
        void: study → what of it does not count, also of studies of which nothing else was run.
    """
    judged = all_verdicts(scale, found)
    absent = [base.get(name) for name in judged if name not in {f.study.id for f in found}]
    remarks = {f.study.id: reading / f"{scale}-{f.study.id}.md" for f in found if reading and not f.void}
    text = template("page.md").render(
        title=TITLES[scale],
        scale=scale,
        counted=counted([v for own in judged.values() for v in own]),
        found=found,
        every=(every := [cell for f in found for cell in f.ran]),
        extent=_extent(scale, found, spent(every, every), void or {}),
        papers=PAPERS,
        readings={
            letter: by_reading([v for name, own in judged.items() if name[0] == letter for v in own])
            for letter in PAPERS
        },
        figures=figures,
        remarks={name: file.read_text("utf-8").strip() for name, file in remarks.items() if file.is_file()},
        absent=[study for study in absent if study.arms(scale)],
        void=void or {},
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def all_verdicts(scale: Scale, found: Sequence[Finished]) -> dict[str, Sequence[Verdict]]:
    """Study → its verdicts, in the order of the pages.

    Args:
        scale: of all that was found.
        found: studies of which something was run; claims of the others wait, whatever ground they would stand on.
    """
    judged = {one.study.id: one.verdicts for one in found}
    nothing = Results(outcomes={})
    for study in (base.get(name) for name in base.names() if name not in judged):
        judged[study.id] = [judge(claim, nothing, {}, study.ours) for claim in study.claims(scale)]
    return {name: judged[name] for name in order(judged)}


@functools.cache
def template(name: str) -> jinja2.Template:
    """One of this package's pages."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "cell": lambda text: inert(text).replace("|", "\\|"),
        "table": lambda table, right=True: markdown(inert_table(table), right),
        **{filter.__name__.strip("_"): filter for filter in (inert, mark, prose, _voided)},
    }
    return environment.from_string((Path(__file__).parent / "templates" / name).read_text("utf-8"))


def _voided(void: Sequence[Void]) -> str:
    """What does not count, and why, in a sentence."""
    told = []
    for why in dict.fromkeys(one.why for one in void):
        own = [one for one in void if one.why == why]
        names = [f"{one.measure} of {one.arm}" if one.measure else one.arm for one in own]
        arms = ", ".join(names) if len(names) <= NAMED else plural(len({one.arm for one in own}), "arm")
        told.append(inert(f"{arms} ({why})"))
    return f"Void, not shown: {'; '.join(told)}."


def _extent(scale: Scale, found: Sequence[Finished], whole: Spent, void: Mapping[str, Sequence[Void]]) -> Table:
    """Where and when, and how much of all."""
    outcomes = [outcome for f in found for own in f.results.outcomes.values() for outcome in own]
    known: dict[str, set[str]] = {}
    for package, version in (pair for o in outcomes for pair in o.place.get("versions", {}).items()):
        known.setdefault(package, set()).add(version)
    devices = Counter(outcome.device for outcome in outcomes)
    weights = sorted({file for outcome in outcomes for file in outcome.place.get("files", ())})
    seeds = sorted({outcome.seed for outcome in outcomes})
    possible = sum(bool(base.get(name).arms(scale)) for name in base.names())
    rows = [
        ["hardware", ", ".join(name for name, _ in devices.most_common()) or "-"],
        ["versions", ", ".join(f"{package} {' and '.join(sorted(found))}" for package, found in known.items()) or "-"],
        *([["weights", ", ".join(weights)]] if weights else []),
        ["seeds", ", ".join(map(str, seeds)) or "-"],
        ["computing time", duration(whole.seconds) + _left_out(whole)],
        ["extent", f"{len(found)} of {possible} studies begun, {plural(whole.cells, 'cell')} run"],
    ]
    if gone := sum(one.cells for own in void.values() for one in own if not one.measure):
        rows.append(["void", f"{plural(gone, 'record')}, made otherwise than today; not shown"])
    return ["", ""], rows


def _left_out(cost: Spent) -> str:
    """What the time lacks, if anything."""
    return f", without {plural(cost.unknown, 'training')} that cells start from" if cost.unknown else ""


def _draw(one: Finished, folder: Path) -> list[tuple[str, Path]]:
    names = {figure: heading for heading, figure in one.study.columns(one.scale).items()}
    drawn = []
    for number, what in enumerate(one.study.figures(one.scale), 1):
        figure = drawing.draw(what, one.results, names)
        if figure is not None:
            file = folder / f"{one.study.id}-{number}.png"
            drawing.write(figure, file)
            drawn.append((what.title, file))
    return drawn
