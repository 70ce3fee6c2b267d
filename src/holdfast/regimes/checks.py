"""Values that no regime can work with, refused when it is built."""

from __future__ import annotations

import math

from holdfast.errors import RecipeError
from holdfast.mining import Miner


def require_positive(key: str, value: float) -> None:
    """Refuse what is not a number above zero; `key` is where the recipe has it."""
    if not (math.isfinite(value) and value > 0):
        raise RecipeError(f"{key} must be a number above 0, got {value}")


def require_not_negative(key: str, value: float) -> None:
    """Refuse what is not a number of zero or more; `key` is where the recipe has it."""
    if not (math.isfinite(value) and value >= 0):
        raise RecipeError(f"{key} must be a number of 0 or more, got {value}")


def require_triplets(key: str, miner: Miner) -> None:
    """Refuse a miner of pairs; `key` is where the recipe has it."""
    if not miner.triplets:
        raise RecipeError(f"{key}: {type(miner).__name__} mines pairs, and this regime moves triplets; use softhard")
