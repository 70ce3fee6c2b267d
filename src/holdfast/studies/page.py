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
from holdfast.studies.claims import Status, Verdict
from holdfast.studies.document import read, read_plain, title, verdicts
from holdfast.studies.jobs import Scale
from holdfast.studies.results import Outcome, Results
from holdfast.studies.tables import arm_table, duration, inert, inert_table, markdown, plural, prose

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
    parts = [f"# {TITLES[scale]}", _head(scale, found), "## Verdicts", _summary(found)]
    for letter, paper in PAPERS.items():
        own = [f for f in found if f.study.id[0] == letter]
        parts += [f"## {paper}"] if own else []
        for one in own:
            parts += _section(one, figures.get(one.study.id, ()), reading)
    parts += _absent(scale, {f.study.id for f in found})
    return "\n\n".join(parts) + "\n"


def _absent(scale: Scale, found: set[str]) -> list[str]:
    """Studies without results, each with what it asks."""
    studies = [study for name in order(base.names()) if name not in found and (study := base.get(name)).arms(scale)]
    if not studies:
        return []
    listed = "\n".join(f"- {study.id}: {inert(title(study))}" for study in studies)
    return ["## Not run", f"One command each, `holdfast study ID --scale {scale}`:", listed]


def _head(scale: Scale, found: Sequence[Finished]) -> str:
    outcomes = [outcome for f in found for own in f.results.outcomes.values() for outcome in own]
    devices = Counter(str(outcome.place.get("device", "unknown hardware")) for outcome in outcomes)
    weights = sorted({file for outcome in outcomes for file in outcome.place.get("files", ())})
    seeds = sorted({outcome.seed for outcome in outcomes})
    rows = [
        ["hardware", ", ".join(name for name, _ in devices.most_common()) or "-"],
        ["versions", _versions(outcomes)],
        *([["weights", ", ".join(weights)]] if weights else []),
        ["seeds", ", ".join(map(str, seeds)) or "-"],
        ["computing time", duration(sum(_distinct(found).values()))],
        ["extent", f"{len(found)} of {_possible(scale)} studies, {plural(len(_distinct(found)), 'cell')} run"],
    ]
    table = "\n\n" + markdown(inert_table((["", ""], rows)), right=False) if found else ""
    return (
        "Made by `make results` from the raw files beside this page; no figure or verdict is written by hand. "
        f"To run a study yourself: `holdfast study ID --scale {scale}`. Tables show mean ± standard deviation over "
        "seeds, R@k, NMI, mAP and ERS in percent. With two seeds or more, a difference counts when it clears its "
        "one-sided 95 % t interval; with one, when it clears the noise between two runs of one recipe, and the verdict "
        "is marked (one seed). Arms that come out level refute an order where half of the published difference lies "
        "beyond the interval." + table
    )


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


def _section(one: Finished, figures: Sequence[Picture], reading: Path | None) -> list[str]:
    study = one.study
    parts = [f"### {study.id}", f"**{inert(title(study))}.** {inert(study.source)}."]
    parts.append(f"Published: {inert(study.published)}" + ("" if study.published.endswith(".") else "."))
    if notes := study.notes(one.scale):
        parts.append(prose(notes))
    parts.append(_how(one))
    parts.append(markdown(inert_table(arm_table(study, one.scale, one.results, one.planned))))
    parts += [f"![{inert(text)}]({file})" for text, file in figures]
    parts.append("\n".join(f"- **{mark(v)}**: {inert(v.claim)}. {inert(v.evidence)}." for v in one.verdicts))
    remark = reading / f"{one.scale}-{study.id}.md" if reading else None
    if remark and remark.is_file():
        parts.append(remark.read_text("utf-8").strip())
    return parts


def _how(one: Finished) -> str:
    """Budget, in one line."""
    jobs = [arm["job"] for arm in one.plain["arms"].values() if arm["cells"] and "recipe" in arm["job"]]
    whole = duration(sum(_distinct([one]).values()))
    if not jobs:
        return f"Computed in {whole}."
    data = sorted({job["data"] if isinstance(job["data"], str) else job["data"]["name"] for job in jobs})
    backbones = sorted({job["backbone"] for job in jobs})
    epochs = " or ".join(map(str, sorted({job["epochs"] for job in jobs})))
    return inert(f"Run: {', '.join(backbones)} on {', '.join(data)}, {epochs} epochs, {whole} in all.")


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


def _distinct(found: Sequence[Finished]) -> dict[str, float]:
    """Each training and computation → seconds; one that studies share counts once, with its longest measures."""
    known: dict[str, float] = {}
    for one in found:
        for name, arm in one.plain["arms"].items():
            job = {key: value for key, value in arm["job"].items() if key != "measures"}
            for outcome in one.results.outcomes[name]:
                key = f"{job} {outcome.seed}"
                known[key] = max(known.get(key, 0.0), outcome.seconds)
    return known


def _possible(scale: Scale) -> int:
    return sum(bool(base.get(name).arms(scale)) for name in base.names())


def _versions(outcomes: Sequence[Outcome]) -> str:
    known: dict[str, set[str]] = {}
    for outcome in outcomes:
        for package, version in outcome.place.get("versions", {}).items():
            known.setdefault(package, set()).add(version)
    return ", ".join(f"{package} {' and '.join(sorted(found))}" for package, found in known.items()) or "-"
