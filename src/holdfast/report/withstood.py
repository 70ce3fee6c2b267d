"""What each of the ten scores adds to ERS; the pages may not import the audit, which needs torch."""

from __future__ import annotations

from collections.abc import Callable

CONTRIBUTIONS: dict[str, Callable[[float], float]] = {
    "CA+": lambda v: 2 * v,
    "CA-": lambda v: 100 - v,
    "QA+": lambda v: 2 * v,
    "QA-": lambda v: 100 - v,
    "TMA": lambda v: 100 * (1 - v),
    "ES:D": lambda v: 50 * (2 - v),
    "ES:R": lambda v: v,
    "LTM": lambda v: v,
    "GTM": lambda v: v,
    "GTT": lambda v: v,
}
"""The same as `holdfast.audit.score.CONTRIBUTIONS`, which a test makes sure of."""


def withstood(key: str, value: float | None) -> float | None:
    """What a score adds to ERS: 0 where the attacker always wins, 100 where an attack changes nothing.

    It is not clipped: an attack that fails badly enough adds more than 100, and does so in ERS, too.

    Args:
        key: of the score.
        value: as the audit reports it.
    """
    return None if value is None else CONTRIBUTIONS[key](value)
