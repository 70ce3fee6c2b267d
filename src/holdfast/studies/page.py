"""The results of one scale as a page, made from raw files alone; every verdict is computed again."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.files import write_atomic
from holdfast.studies import base, drawing
from holdfast.studies.cost import Ran, Spent, device, spent
from holdfast.studies.document import read, read_plain, title, verdicts
from holdfast.studies.invocation import invocation
from holdfast.studies.jobs import Scale
from holdfast.studies.results import Outcome, Results
from holdfast.studies.tables import arm_table, duration, inert, inert_table, markdown, plural, prose
from holdfast.studies.verdict import Status, Verdict

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

HEAD = (
    "Made by `make results` from the raw files beside this page; no figure or verdict is written by hand. Each study "
    "names the command that runs it; `DIR` is the folder of a dataset."
)
WEIGHTS = (
    " `FILE` holds ImageNet weights, `FILE@stride-1x1` those of a ResNet in the layout of 2015 (its blocks stride in "
    "their first convolution); without `--weights` they are fetched."
)
READING = (
    "Tables show mean ± standard deviation over seeds, R@k, NMI, mAP and ERS in percent; a number in brackets is how "
    "many seeds have the figure, where fewer do than were run. The time per seed is that of the device that most of an "
    "arm's seeds ran on, named where a table has several. Of attacks, *fixed* (or *attacked* alone) means single "
    "queries, a sample of them, attacked against the clean gallery; *replaced* (or *all images*) means all images "
    "attacked at once."
)
JUDGING = (
    "With two seeds or more, a difference counts when it clears its one-sided 95 % t interval; with one, when it "
    "clears the noise between two runs of one recipe, and the verdict is marked (one seed). Arms that come out level "
    "refute an order where half of the published difference lies beyond the interval, and the verdict is marked "
    "(level). That rule, and one way to measure the noise (GS borrows that of ADML), came after results had been seen."
)

Picture: TypeAlias = tuple[str, str]
"""Title and file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finished:
    """A study with what was found.

    Args:
        study: which.
        scale: at which scale.
        results: of its arms.
        plain: the raw file.
        verdicts: computed from the results.
    """

    study: base.Study
    scale: Scale
    results: Results
    plain: Mapping[str, Any]
    verdicts: Sequence[Verdict]

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
    def planned(self) -> dict[str, list[int]]:
        """Arm → seeds."""
        return {name: arm["planned"] for name, arm in self.plain["arms"].items()}


def mark(verdict: Verdict) -> str:
    """A verdict in a sign and a word."""
    return f"{'–' if verdict.unfinished else SIGNS[verdict.status]} {verdict.words}"


def order(ids: Iterable[str]) -> list[str]:
    """As the papers come: A1, A2, ..., then G, E, H, M and X."""
    papers = "".join(PAPERS)
    return sorted(ids, key=lambda name: (papers.find(name[0]) % (len(papers) + 1), int(name[1:] or 0), name))


def load(file: Path) -> Finished:
    """A raw file with its study's code."""
    name, scale, results = read(file)
    study = base.get(name)
    judged = verdicts(study, scale, results)
    return Finished(study=study, scale=scale, results=results, plain=read_plain(file), verdicts=judged)


def write_page(scale: Scale, raw: Path, page: Path, figures: Path, reading: Path | None = None) -> None:
    """Draw the figures of all raw files in a folder and write the page.

    Args:
        scale: of the raw files.
        raw: folder with one JSON file per study.
        page: the Markdown file.
        figures: folder for PNG files.
        reading: folder with a person's remarks, `SCALE-ID.md`; they stand beside the verdicts and change none.
    """
    files = [raw / f"{name}.json" for name in base.names()]  # what else lies there is not ours
    found = [one for file in files if file.is_file() and (one := load(file)).begun]
    ready = {f.study.id: f for f in found}
    links = {
        f.study.id: [(text, Path(os.path.relpath(file, page.parent)).as_posix()) for text, file in _draw(f, figures)]
        for f in found
    }
    write_atomic(page, page_text(scale, [ready[name] for name in order(ready)], links, reading))


def page_text(
    scale: Scale, found: Sequence[Finished], figures: Mapping[str, Sequence[Picture]], reading: Path | None = None
) -> str:
    """The page.

    Args:
        scale: of all of it.
        found: in the order of the page.
        figures: study → titles and files as seen from the page.
        reading: folder with a person's remarks.
    """
    every = [cell for f in found for cell in f.ran]
    parts = [f"# {TITLES[scale]}", HEAD + (WEIGHTS if scale == "paper" else ""), READING, JUDGING]
    parts += [_extent(scale, found, spent(every, every))] if found else []
    parts += ["## Verdicts", _summary(found)]
    for letter, paper in PAPERS.items():
        own = [f for f in found if f.study.id[0] == letter]
        parts += [f"## {paper}"] if own else []
        for one in own:
            parts += _section(one, spent(one.ran, every), figures.get(one.study.id, ()), reading)
    parts += _absent(scale, {f.study.id for f in found})
    return "\n\n".join(parts) + "\n"


def _absent(scale: Scale, found: set[str]) -> list[str]:
    """Studies without results, each with what it asks and the command that runs it."""
    studies = [study for name in order(base.names()) if name not in found and (study := base.get(name)).arms(scale)]
    if not studies:
        return []
    listed = "\n".join(f"- {study.id}: {inert(title(study))}. `{invocation(study, scale)}`" for study in studies)
    return ["## Not run", listed]


def _extent(scale: Scale, found: Sequence[Finished], whole: Spent) -> str:
    """Where and when, and how much of all."""
    outcomes = [outcome for f in found for own in f.results.outcomes.values() for outcome in own]
    devices = Counter(map(device, outcomes))
    weights = sorted({file for outcome in outcomes for file in outcome.place.get("files", ())})
    seeds = sorted({outcome.seed for outcome in outcomes})
    rows = [
        ["hardware", ", ".join(name for name, _ in devices.most_common()) or "-"],
        ["versions", _versions(outcomes)],
        *([["weights", ", ".join(weights)]] if weights else []),
        ["seeds", ", ".join(map(str, seeds)) or "-"],
        ["computing time", duration(whole.seconds) + _left_out(whole)],
        ["extent", f"{len(found)} of {_possible(scale)} studies begun, {plural(whole.cells, 'cell')} run"],
    ]
    return markdown(inert_table((["", ""], rows)), right=False)


def _summary(found: Sequence[Finished]) -> str:
    if not found:
        return "No results are in yet."
    every = [verdict for f in found for verdict in f.verdicts]
    counts = Counter(verdict.status for verdict in every if not verdict.unfinished)
    told = ", ".join(f"{counts[status]} {word}" for status, word in _COUNTED.items())
    told += f", {len(every) - counts.total()} not all run"
    rows = [
        [f"[{f.study.id}](#{f.study.id.lower()})", inert(verdict.claim), mark(verdict), inert(verdict.evidence)]
        for f in found
        for verdict in f.verdicts
    ]
    table = markdown((["study", "claim", "verdict", "numbers"], rows), right=False)
    return f"{plural(len(every), 'claim')}: {told}.\n\n{table}"


_COUNTED: dict[Status, str] = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided"}


def _section(one: Finished, cost: Spent, figures: Sequence[Picture], reading: Path | None) -> list[str]:
    study = one.study
    parts = [f"### {study.id}", f"**{inert(title(study))}.** {inert(study.source)}."]
    parts.append(f"Published: {inert(study.published)}" + ("" if study.published.endswith(".") else "."))
    if notes := study.notes(one.scale):
        parts.append(prose(notes))
    parts.append(f"{inert(_how(one, cost))} `{invocation(study, one.scale)}`")
    parts.append(markdown(inert_table(arm_table(study, one.scale, one.results, one.planned))))
    parts += [f"![{inert(text)}]({file})" for text, file in figures]
    parts.append("\n".join(f"- **{mark(v)}**: {inert(v.claim)}. {inert(v.evidence)}." for v in one.verdicts))
    remark = reading / f"{one.scale}-{study.id}.md" if reading else None
    if remark and remark.is_file():
        parts.append(remark.read_text("utf-8").strip())
    return parts


def _how(one: Finished, cost: Spent) -> str:
    """Budget, in one line."""
    jobs = [arm["job"] for arm in one.plain["arms"].values() if arm["cells"] and "recipe" in arm["job"]]
    if not jobs:
        return f"Computed in {duration(cost.seconds)}."
    data = sorted({job["data"] if isinstance(job["data"], str) else job["data"]["name"] for job in jobs})
    backbones = sorted({job["backbone"] for job in jobs})
    epochs = " or ".join(map(str, sorted({job["epochs"] for job in jobs})))
    whole = f"{duration(cost.seconds)} in all{_left_out(cost)}"
    return f"Run: {', '.join(backbones)} on {', '.join(data)}, {epochs} epochs, {whole}."


def _left_out(cost: Spent) -> str:
    """What the time lacks, if anything."""
    return f", without {plural(cost.unknown, 'training')} that cells start from" if cost.unknown else ""


def _draw(one: Finished, folder: Path) -> list[tuple[str, Path]]:
    names = {figure: heading for heading, figure in one.study.columns(one.scale).items()}
    drawn = []
    for number, what in enumerate(one.study.drawings(one.scale), 1):
        figure = drawing.draw(what, one.results, names)
        if figure is not None:
            file = folder / f"{one.study.id}-{number}.png"
            drawing.write(figure, file)
            drawn.append((what.title, file))
    return drawn


def _possible(scale: Scale) -> int:
    return sum(bool(base.get(name).arms(scale)) for name in base.names())


def _versions(outcomes: Sequence[Outcome]) -> str:
    known: dict[str, set[str]] = {}
    for outcome in outcomes:
        for package, version in outcome.place.get("versions", {}).items():
            known.setdefault(package, set()).add(version)
    return ", ".join(f"{package} {' and '.join(sorted(found))}" for package, found in known.items()) or "-"
