"""What a batch is made of, where the whole set is attacked: ADML's Table 1 in every make-up of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.adml_arms import HALF, HALF_MARK, NORMALISED, PIXELS, UNITS, arm, audit
from holdfast_studies.claims import Claim, Judged
from holdfast_studies.drawings import Bars, Drawing
from holdfast_studies.jobs import Arm, Audit, Scale
from holdfast_studies.results import NOT_RUN, Results
from holdfast_studies.verdict import ONE_SEED, Status

MAKE_UPS = ("ordered", "28x4", "56x2", "shuffled")
SCRIPT: dict[tuple[str, str], dict[str, float]] = {
    ("ordered", PIXELS): {"alignment": 7.4, "uniformity": 92.0, "triplet": 19.3},
    ("28x4", PIXELS): {"alignment": 8.7, "uniformity": 8.0, "triplet": 20.0},
    ("56x2", PIXELS): {"alignment": 12.7, "uniformity": 5.7, "triplet": 15.9},
    ("shuffled", PIXELS): {"alignment": 24.4, "uniformity": 5.4, "triplet": 9.2},
    ("28x4", NORMALISED): {"alignment": 12.1, "uniformity": 27.4, "triplet": 26.7},
    ("56x2", NORMALISED): {"alignment": 18.0, "uniformity": 26.2, "triplet": 24.6},
}
"""R@1 of the same model, trained and attacked by a plain script of some hundred lines; clean R@1 58.9, one seed."""

CLEAN = 58.9
WITHIN = 4.0
"""Points by which figures of the script and of this package may differ: two trainings, one seed each."""


@register("A9")
class MakeUpDecides(Study):
    """Which attack looks strongest depends on what batches are made of."""

    id = "A9"
    source = "ADML, Table 1, in every make-up of batches"
    published = (
        "ADML's Triplet-D: clean 62.4; alignment 8.7, uniformity 13.5, triplet 28.3. A plain script on this model: "
        f"clean {CLEAN}; "
        + "; ".join(
            f"{batches}, {units}: " + ", ".join(f"{name} {value:g}" for name, value in row.items())
            for (batches, units), row in SCRIPT.items()
        )
    )
    ours = True

    def audits(self) -> dict[tuple[str, str], Audit]:
        """Make-up and units → attacks."""
        return {(batches, units): audit(units, batches) for units in UNITS for batches in MAKE_UPS}

    def arms(self, scale: Scale) -> list[Arm]:
        """Multi-similarity, 128 dims, 56 × 2, a constant 1e-5, 2,600 steps on CUB; nothing at pocket scale."""
        if scale == "pocket":
            return []
        measures = tuple(self.audits().values())
        return [arm(scale, "standard", f"standard, {HALF_MARK}", settings=HALF[scale], measures=measures)]

    def claims(self, scale: Scale) -> list[Claim]:
        """The script's figures, row by row."""
        if scale == "pocket":
            return []
        (attacked,) = self.arms(scale)
        found: list[Claim] = []
        for key, row in SCRIPT.items():
            prefix = self.audits()[key].prefix
            figures = {f"{prefix}/{name}/R@1": value for name, value in row.items()}
            text = f"batches {key[0]}, {key[1]}: within {WITHIN:g} points of a plain script"
            found.append(Judged(text=text, rule=_close(attacked.name, figures), levels=True))
        return [Judged(text="clean R@1: the same", rule=_close(attacked.name, {"R@1": CLEAN}), levels=True), *found]

    def columns(self, scale: Scale) -> dict[str, str]:
        """R@1 before and after."""
        return {"R@1": "R@1"} | {
            f"{attack}, {batches}, {units}": f"{made.prefix}/{attack}/R@1"
            for (batches, units), made in self.audits().items()
            for attack in ("alignment", "uniformity", "triplet")
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Attacks by make-up, ε in pixels."""
        names = tuple(one.name for one in self.arms(scale))
        columns = {head: figure for head, figure in self.columns(scale).items() if PIXELS in head}
        return [Bars(title="R@1 by make-up of batches, ε in pixels", arms=names, figures=columns)] if names else []

    def notes(self, scale: Scale) -> str:
        """What it is for."""
        return (
            "The model is ADML's multi-similarity baseline at half its length, as the script trains it. It shows how "
            "far one protocol's figures may be from another's that the same words describe."
        )


def _close(name: str, expected: Mapping[str, float]) -> Callable[[Results], tuple[Status, str]]:
    """Whether all figures lie within the tolerance."""

    def rule(results: Results) -> tuple[Status, str]:
        found = {figure: results.mean(name, figure) for figure in expected}
        shown = "; ".join(
            f"{figure}: {NOT_RUN if value is None else f'{value:.1f}'}, script {expected[figure]:g}"
            for figure, value in found.items()
        )
        if len(results.outcomes.get(name, [])) == 1:
            shown += f" {ONE_SEED}"
        known = {figure: value for figure, value in found.items() if value is not None}
        if any(abs(value - expected[figure]) > WITHIN for figure, value in known.items()):
            return "does not hold", shown
        return ("holds" if len(known) == len(expected) else "undecided"), shown

    return rule
