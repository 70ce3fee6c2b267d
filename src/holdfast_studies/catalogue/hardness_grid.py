"""H2: from which hardness to which."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.hardness_arms import ERS, MINERS, SETTINGS, hm, scores, standard
from holdfast_studies.catalogue.hardness_claims import COLLAPSE_NOTE, NEAR_CHANCE, by_protocol, more_ers, more_r1
from holdfast_studies.catalogue.named_arms import named
from holdfast_studies.claims import All, Beyond, Claim
from holdfast_studies.drawings import Drawing, Scatter
from holdfast_studies.jobs import Arm, Scale, Training

POCKET = ("SM", "RM", "SH", "RS", "RH", "MS", "DM", "DH")
"""Pairs of source and destination that are tried at pocket scale."""
POCKET_EPOCHS = 12
TRAIN = ("HM[S, M]", "HM[R, M]", "HM[S, LGA]", "HM[D, M]", "HM[D, H]")
CHANCE_NOISE = 1.0
"""Points of R@1 near chance that one seed may be off by: there, runs differ less than those of models that learn."""
COLLAPSE = ("HM[R, S]", "HM[R, H]", "HM[M, S]", "HM[S, H]", "HM[S, 0]")


@register("H2")
class SourceAndDestination(Study):
    """Source × destination: which pairs train, which collapse."""

    id = "H2"
    source = "HM, Tables 2, 4 and 11"
    published = (
        "CUB R@1 / ERS, η 8: HM[R, M] 27.0 / 35.1, HM[S, M] 38.4 / 29.6, HM[D, M] 50.7 / 4.8, HM[D, H] 54.7 / 5.4; "
        "every source (but S itself) to S collapses, and so do R, M, S to D or H and HM[S, 0]"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """The grid, and two destinations that no miner sets."""
        epochs = POCKET_EPOCHS if scale == "pocket" else None
        pairs = POCKET if scale == "pocket" else _every_pair()
        grid: dict[str, Training] = {
            f"HM[{pair[0]}, {pair[1]}]": hm(scale, pair[0], pair[1], epochs=epochs) for pair in pairs
        }
        grid |= {"HM[S, LGA]": hm(scale, epochs=epochs), "HM[S, 0]": hm(scale, "S", 0.0, epochs=epochs)}
        if scale == "paper":  # source and destination the same: plain training
            grid |= {f"standard[{letter}]": standard(scale, letter) for letter in MINERS}
        return named(grid)

    def claims(self, scale: Scale) -> list[Claim]:
        """Who collapses, who gets robust, who keeps R@1."""
        return [
            All(
                text="S and R towards M, S towards LGA, and D towards M or H do not collapse",
                parts=tuple(
                    Beyond(text=arm, arm=arm, figure="R@1", above=NEAR_CHANCE, noise=CHANCE_NOISE) for arm in TRAIN
                ),
            ),
            All(
                text="R and M towards S, R and S towards H, and S towards the constant 0 collapse",
                parts=tuple(
                    Beyond(text=arm, arm=arm, figure="R@1", below=NEAR_CHANCE, noise=CHANCE_NOISE) for arm in COLLAPSE
                ),
            ),
            *by_protocol(
                scale,
                lambda suffix, figure: All(
                    text=f"D towards M or H, which moves little, gains less ERS than S or R towards M{suffix}",
                    parts=tuple(
                        more_ers(f"{more} > {less}", more, less, figure=figure)
                        for more in ("HM[S, M]", "HM[R, M]")
                        for less in ("HM[D, M]", "HM[D, H]")
                    ),
                ),
            ),
            more_r1("towards M, the source S keeps more R@1 than R", "HM[S, M]", "HM[R, M]"),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The grid's figures, and the geometry, which tells another kind of collapse."""
        return {"R@1": "R@1", **scores(scale), "one point or line": "collapsed", "mean distance": "distance_all"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Robustness against retrieval."""
        arms = tuple(arm.name for arm in self.arms(scale))
        return [Scatter(title="Sources and destinations", arms=arms, x="R@1", y=ERS)]

    def notes(self, scale: Scale) -> str:
        """What stands for what."""
        lines = f"{SETTINGS[scale]} {COLLAPSE_NOTE} A collapse that takes the paper's whole length would not show here."
        if scale == "pocket":
            return f"{lines} {POCKET_EPOCHS} epochs, η 4 at step 2/255, ten pairs."
        return f"{lines} The diagonal is plain training."


def _every_pair() -> tuple[str, ...]:
    """Those of `POCKET` first: the claims rest on them."""
    rest = tuple(a + b for a in MINERS for b in MINERS if a != b and a + b not in POCKET)
    return POCKET + rest
