"""What each of the ten scores adds to ERS; apart from the audit, so that pages can be made without torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CONTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
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
"""Of numbers or tensors, on a scale from 0 (the attacker always wins) to about 100. All are linear: the score of a set
of images is the mean over its images."""
