"""The Empirical Robustness Score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor

from holdfast.contributions import CONTRIBUTIONS
from holdfast.errors import DataError

V = TypeVar("V", float, Tensor)


def ers_score(scores: Mapping[str, V]) -> V:
    """ERS = mean(2·CA+, 100-CA-, 2·QA+, 100-QA-, 100(1-TMA), 50(2-ES:D), ES:R, LTM, GTM, GTT); higher is more robust.

    It rewards collapse: a model that maps everything to one point scores about 30. Read it beside R@1.

    Args:
        scores: the ten figures under their keys, `TMA` a cosine, `ES:D` a distance, the others percentages; numbers, or
            tensors with one value per image.
    """
    missing = [key for key in CONTRIBUTIONS if key not in scores]
    if missing:
        raise DataError(f"ERS needs all ten scores; missing: {', '.join(missing)}")
    parts: list[V] = [contribution(scores[key]) for key, contribution in CONTRIBUTIONS.items()]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / len(parts)
