"""How many claims are decided on the papers' ground, and what the others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast_studies.tables import Table, plural
from holdfast_studies.verdict import Verdict


def counted(verdicts: Sequence[Verdict]) -> str:
    """All of a page in a sentence or two."""
    judged, seen, waiting = _parts(verdicts)
    kinds = Counter(verdict.standing for verdict in verdicts)
    decided = judged["holds"] + judged["does not hold"]
    return (
        f"{plural(judged.total() + seen + waiting, 'claim')} of the papers: {decided} decided on the papers' ground "
        f"({judged['holds']} hold, {judged['does not hold']} do not), {judged['undecided']} undecided there, "
        f"{plural(seen, 'observation')} in other settings, {waiting} not all run. "
        f"Besides, {plural(kinds['limit'], 'limit')} of claims and {plural(kinds['ours'], 'claim')} of ours."
    )


def by_reading(verdicts: Sequence[Verdict]) -> Table | None:
    """Those of one paper, a row for each reading of what it leaves unsaid; None where it has no claims."""
    claims = [verdict for verdict in verdicts if verdict.standing in ("verdict", "observation")]
    rows = []
    for reading in dict.fromkeys(verdict.reading for verdict in claims):
        judged, seen, waiting = _parts([verdict for verdict in claims if verdict.reading == reading])
        numbers = (judged["holds"], judged["does not hold"], judged["undecided"], seen, waiting)
        rows.append([reading or "none needed", *map(str, numbers)])
    headings = ["reading", "hold", "do not hold", "undecided", "observations", "not all run"]
    return (headings, rows) if rows else None


def _parts(verdicts: Sequence[Verdict]) -> tuple[Counter[str], int, int]:
    """Verdicts by status, observations, and claims of a paper that wait for runs."""
    judged = Counter[str](v.status for v in verdicts if v.standing == "verdict" and not v.unfinished)
    seen = sum(v.standing == "observation" and not v.unfinished for v in verdicts)
    waiting = sum(v.standing in ("verdict", "observation") and v.unfinished for v in verdicts)
    return judged, seen, waiting
