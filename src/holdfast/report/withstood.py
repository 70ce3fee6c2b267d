"""What a score of an audit says of the model, on the scale of ERS."""

from __future__ import annotations

from holdfast.audit.ers import TERMS


def withstood(key: str, value: float | None) -> float | None:
    """What a score adds to ERS: 0 where the attacker always wins, 100 where an attack changes nothing.

    It is not clipped: an attack that fails badly enough adds more than 100, and does so in ERS, too.

    Args:
        key: of the score.
        value: as the audit reports it.
    """
    return None if value is None else float(TERMS[key](value))
