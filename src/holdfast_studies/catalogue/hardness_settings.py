"""H5: the settings of HM."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.hardness_arms import ERS, SETTINGS, hm, miner, scores
from holdfast_studies.catalogue.hardness_claims import (
    COLLAPSE_NOTE,
    SAME_ERS,
    by_protocol,
    more_ers,
    more_r1,
    same_ers,
)
from holdfast_studies.catalogue.named_arms import named
from holdfast_studies.claims import All, Claim
from holdfast_studies.drawings import Drawing, Lines, Scatter
from holdfast_studies.jobs import Arm, Scale

LGA, ICS = "HM[S, LGA]", "HM[S, LGA]&ICS"
MARGIN = f"{ICS}, margin 0.2"


@register("H5")
class Settings(Study):
    """u, weight and margin of ICS, and other gradual adversaries."""

    id = "H5"
    source = "HM, Tables 4, 5 and 7-10"
    published = (
        "CUB R@1 / ERS at η 8: HM[S, LGA] 38.0 / 32.4, u 2.2: 34.8 / 36.1; g_1/2 38.7 / 31.7, g_2 37.4 / 33.1, "
        "g_B(M) 36.5 / 33.8 from HM[S, M] 38.4 / 29.6; ICS 37.2 / 33.5, weight 1: 36.0 / 33.7, "
        "margin 0.2: 35.8 / 33.6; SOP, ICS weight 0.05: 48.3 / 61.2, weight 0.5: 42.4 / 60.1"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Each differs from HM[S, LGA] or from &ICS in one setting."""
        boosted = {"name": "g-b", "of": miner(scale, "M"), "xi": 0.1}
        arms = {
            LGA: hm(scale),
            ICS: hm(scale, regime={"ics": 0.5}),
            "HM[S, M]": hm(scale, "S", "M"),
            "u 2.2": hm(scale, regime={"u": 2.2}),
            "u 0.1": hm(scale, over={"regime.u": 0.1}),
            "HM[S, g_2]": hm(scale, "S", "g-2"),
            "HM[S, g_1/2]": hm(scale, "S", "g-half"),
            "HM[S, g_B(M)]": hm(scale, "S", boosted),
            f"{ICS}, weight 1": hm(scale, regime={"ics": 1.0}),
            MARGIN: hm(scale, regime={"ics": 0.5, "ics_margin": 0.2}),
        }
        if scale == "paper":
            arms |= {
                f"{ICS}, sop, weight {weight}": hm(scale, data="sop", regime={"ics": weight}) for weight in (0.05, 0.5)
            }
        return named(arms)

    def claims(self, scale: Scale) -> list[Claim]:
        """A stronger adversary buys ERS with R@1, by whichever setting."""
        gradual = ("HM[S, g_2]", LGA, "HM[S, g_1/2]")
        small, large = (f"{ICS}, sop, weight {weight}" for weight in (0.05, 0.5))
        claims = [
            more_r1("a larger u (2.2) costs R@1", LGA, "u 2.2"),
            more_r1("R@1: g_1/2 > LGA > g_2", *gradual[::-1]),
            more_r1("twice the weight of ICS costs R@1", ICS, f"{ICS}, weight 1"),
            *by_protocol(
                scale,
                lambda suffix, figure: more_ers(f"a larger u (2.2) gains ERS{suffix}", "u 2.2", LGA, figure=figure),
                lambda suffix, figure: more_ers(f"ERS: g_2 > LGA > g_1/2{suffix}", *gradual, figure=figure),
                lambda suffix, figure: All(
                    text=f"boosting M (g_B) gains ERS and costs R@1{suffix}",
                    parts=(
                        more_ers("ERS", "HM[S, g_B(M)]", "HM[S, M]", figure=figure),
                        more_r1("R@1", "HM[S, M]", "HM[S, g_B(M)]"),
                    ),
                ),
                lambda suffix, figure: All(
                    text=f"a margin in ICS costs R@1 and changes ERS by less than {SAME_ERS:g}{suffix}",
                    parts=(more_r1("R@1", ICS, MARGIN), same_ers("ERS", MARGIN, ICS, figure=figure)),
                ),
            ),
        ]
        if scale == "pocket":
            return claims
        return claims + by_protocol(
            scale,
            lambda suffix, figure: All(
                text=f"on SOP the weight 0.5 is worse than 0.05 in both{suffix}",
                parts=(more_r1("R@1", small, large), more_ers("ERS", small, large, figure=figure)),
            ),
        )

    def columns(self, scale: Scale) -> dict[str, str]:
        """What is traded."""
        return {"R@1": "R@1", **scores(scale), "TMA": "ers-fixed/TMA", "ES:D": "ers-fixed/ES:D"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The trade, and u alone."""
        arms = tuple(arm.name for arm in self.arms(scale))
        along = {"HM[S, LGA]": {0.1: "u 0.1", 0.2: LGA, 2.2: "u 2.2"}}
        return [
            Scatter(title="Settings of HM", arms=arms, x="R@1", y=ERS),
            Lines(title="ERS over u", lines=along, figure=ERS, x="u", logarithmic=True),
        ]

    def notes(self, scale: Scale) -> str:
        """What stands for what."""
        steps = " 24 epochs, η 4 at step 2/255." if scale == "pocket" else ""
        return f"{SETTINGS[scale]}{steps} {COLLAPSE_NOTE} u 0.1 is not in the paper."
