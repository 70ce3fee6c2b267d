"""What the GS paper prints of components on CARS: R@1 by learning rate, from its appendix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Table: TypeAlias = dict[str, dict[float, float]]
"""Rule → learning rate → R@1."""


def _table(rates: tuple[float, ...], rows: Mapping[str, tuple[float, ...]]) -> Table:
    return {rule: dict(zip(rates, figures, strict=True)) for rule, figures in rows.items()}


DIRECTIONS = _table(
    (0.025, 0.05, 0.1, 0.2),
    {
        "euc": (66.8, 69.5, 66.9, 59.2),
        "cos": (67.9, 74.3, 75.5, 71.0),
        "euc-orth": (58.9, 66.9, 65.0, 60.0),
        "cos-orth": (69.3, 75.2, 77.0, 73.7),
    },
)
"""Appendix Table 1."""

PAIRS = _table(
    (0.05, 0.1, 0.2, 0.4),
    {
        "cos, con": (74.3, 75.5, 71.0, 62.5),
        "cos, euc": (71.2, 76.6, 77.0, 71.8),
        "cos, lin": (67.2, 73.7, 77.2, 77.8),
        "cos, lin-ms": (69.8, 75.8, 78.2, 78.8),
        "cos, sig": (67.2, 72.8, 74.3, 74.0),
        "cos, sig-ms": (68.0, 73.0, 76.2, 76.0),
        "euc, con": (69.5, 66.9, 59.2, 52.4),
        "euc, euc": (72.6, 75.2, 74.3, 67.2),
        "euc, lin": (67.5, 73.4, 76.6, 76.7),
        "euc, lin-ms": (69.7, 75.5, 77.9, 78.2),
        "euc, sig": (68.0, 71.9, 71.1, 69.2),
        "euc, sig-ms": (67.7, 73.3, 74.6, 74.0),
    },
)
"""Appendix Table 2."""

TRIPLETS = _table(
    (0.05, 0.1, 0.2, 0.4),
    {
        "con": (74.3, 75.5, 71.0, 62.5),
        "cos": (73.5, 75.8, 74.1, 67.0),
        "cos + sc1": (74.7, 77.0, 75.9, 69.2),
        "cir": (72.1, 75.5, 75.0, 70.6),
        "cir + sc2": (70.9, 76.1, 76.6, 73.1),
    },
) | _table(
    (0.2, 0.4, 0.6, 0.8),
    {
        "lin, con": (77.2, 77.8, 77.0, 76.3),
        "lin, cos": (76.6, 77.4, 77.5, 77.3),
        "lin, cos + sc1": (76.2, 78.8, 78.6, 78.0),
        "lin, cir": (75.2, 77.2, 78.3, 76.9),
        "lin, cir + sc2": (75.4, 78.0, 78.8, 78.5),
    },
)
"""Appendix Table 3."""

WITHOUT_RATES = {"cos + sc2": 77.2, "cir + sc1": 77.0, "lin, cos + sc2": 78.4, "lin, cir + sc1": 78.1}
"""Rows of Table 4 that the appendix leaves out; they are trained at the rate of the same weight with the other mask."""

OTHER_MASK = {
    "cos + sc2": "cos + sc1",
    "cir + sc1": "cir + sc2",
    "lin, cos + sc2": "lin, cos + sc1",
    "lin, cir + sc1": "lin, cir + sc2",
    "cos + sc2 as printed": "cos + sc1",
    "cir + sc2 as printed": "cir + sc2",
}


def best(table: Table) -> dict[str, float]:
    """Rule → the learning rate of its best figure."""
    return {rule: max(row, key=lambda rate: row[rate]) for rule, row in table.items()}


def highest(table: Table) -> dict[str, float]:
    """Rule → its best figure, which Tables 2 to 4 print."""
    return {rule: max(row.values()) for rule, row in table.items()}
