"""Budgets of the papers that several regimes start from."""

from __future__ import annotations

from holdfast.attacks import Budget

EIGHT_STEPS = Budget(eps=8 / 255, step=1 / 255, steps=8)
"""Of the HM paper, for EST, ACT and HM alike."""

ONE_STEP = Budget(eps=0.01, steps=1, start="uniform", start_radius=0.0005, units="normalized")
"""Of the released MDProp code: one step of ε, from within ±0.0005."""
