"""What became of injected faults, and the table of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One injected fault.

    Args:
        fault: its kind, a row of the table.
        where: what it struck.
        survived: whether the same command, once the cause was gone, ended as if nothing had happened.
        lost: whether something that had been saved before was gone or different.
        note: what went wrong, if something did.
    """

    fault: str
    where: str
    survived: bool
    lost: bool
    note: str = ""


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that did not end as they must."""
    return [outcome for outcome in outcomes if outcome.lost or not outcome.survived]


def table(outcomes: Iterable[Outcome]) -> str:
    """Markdown: one row per kind of fault, and the sum."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.fault, []).append(outcome)
    rows = [
        "| fault | what it struck | injected | survived | data lost |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for kind, own in kinds.items():
        where = ", ".join(dict.fromkeys(outcome.where for outcome in own))
        rows.append(f"| {kind} | {where} | {_counts(own)} |")
    every = [outcome for own in kinds.values() for outcome in own]
    return "\n".join([*rows, f"| **all** | | {_counts(every)} |"])


def _counts(outcomes: list[Outcome]) -> str:
    survived, lost = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("survived", "lost"))
    return f"{len(outcomes)} | {survived} | {lost}"
