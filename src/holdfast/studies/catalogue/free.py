"""X2: hardness manipulation without passes for crafting."""

from __future__ import annotations

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.hardness_arms import (
    EPOCHS,
    ERS,
    ERS_NOISE,
    STEPS,
    audits,
    hm,
    miner,
    named,
    standard,
    trained,
)
from holdfast.studies.catalogue.hardness_claims import more_ers
from holdfast.studies.claims import All, Claim, Ordered
from holdfast.studies.drawings import Drawing, Scatter
from holdfast.studies.jobs import Arm, Measure, Probe, Scale, Training

REPLAYS = 4
SPENT = "spent/passes"
WHOLE, HALF = "HM[S, LGA]", "HM[S, LGA], half the epochs"
FREE, FREE_HALF, FREE_EPOCHS = "free HM, equal passes", "free HM, half the passes", "free HM, equal epochs"


@register("X2")
class Free(Study):
    """Free HM: the ERS of HM at a fraction of the passes."""

    id = "X2"
    source = "beyond the papers (HM, Section 3.1 and Appendix B.6 name the idea)"
    published = "none"

    def arms(self, scale: Scale) -> list[Arm]:
        """HM at its length and half of it; free HM at as many passes, half as many, and as many epochs."""
        epochs, per_batch = EPOCHS[scale], STEPS[scale] + 1
        half = epochs // 2
        return named(
            {
                WHOLE: hm(scale, measures=_measures(scale)),
                FREE_HALF: _free(scale, half * per_batch // REPLAYS),
                FREE: _free(scale, epochs * per_batch // REPLAYS),
                HALF: hm(scale, epochs=half, measures=_measures(scale)),
                FREE_EPOCHS: _free(scale, epochs),
                "standard": standard(scale, measures=_measures(scale)),
            }
        )

    def claims(self, scale: Scale) -> list[Claim]:
        """As robust for half the price; more robust for the same."""
        return [
            more_ers(
                "with half the passes, free HM comes within 1.5 of the ERS of HM", FREE_HALF, WHOLE, least=-ERS_NOISE
            ),
            Ordered(
                text="with half the passes, free HM keeps R@1 within a point of HM",
                arms=(FREE_HALF, WHOLE),
                least=-1.0,
            ),
            All(
                text="for the same passes, free HM reaches more ERS than HM, at the whole length and at half of it",
                parts=tuple(
                    more_ers(f"{free} > {plain}", free, plain) for free, plain in ((FREE, WHOLE), (FREE_HALF, HALF))
                ),
            ),
            more_ers("for the same epochs, with fewer passes, free HM reaches more ERS than HM", FREE_EPOCHS, WHOLE),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """What it costs and what it brings."""
        return {
            "R@1": "R@1",
            "ERS": ERS,
            "passes per batch": "log/passes",
            "passes per image": SPENT,
            "seconds": "log/seconds",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Robustness for its price."""
        arms = tuple(arm.name for arm in self.arms(scale))
        return [
            Scatter(title="ERS for its price", arms=arms, x=SPENT, y=ERS),
            Scatter(title="Robustness against retrieval", arms=arms, x="R@1", y=ERS),
        ]

    def notes(self, scale: Scale) -> str:
        """How passes are counted."""
        return (
            f"A batch costs HM η + 1 = {STEPS[scale] + 1} passes forward and back, free HM {REPLAYS} (its replays, "
            "each an update). Schedules are stretched to each arm's own length."
        )


def _free(scale: Scale, epochs: int) -> Training:
    settings = {"regime.source": miner(scale, "S"), "regime.replays": REPLAYS}
    return trained(scale, "free-hm", settings, epochs=epochs, measures=_measures(scale))


def _measures(scale: Scale) -> tuple[Measure, ...]:
    return (*audits(scale), Probe(function="spent"))
