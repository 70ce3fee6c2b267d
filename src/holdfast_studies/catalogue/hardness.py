"""HM: how hard mined triplets are (H1), from which hardness to which (H2), and its settings (H5)."""

from __future__ import annotations

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.hardness_arms import (
    ERS,
    MINERS,
    NEAR_CHANCE,
    SAME_ERS,
    STAND_IN,
    by_protocol,
    hm,
    miner,
    more_ers,
    more_r1,
    named,
    same_ers,
    scores,
    standard,
)
from holdfast_studies.claims import All, Beyond, Near, Ordered
from holdfast_studies.drawing import Bars, Lines, Scatter
from holdfast_studies.jobs import Arm, Computation, Job, Probe, Scale, Training, called

HARDNESS, VARIANCE, OF_MEANS = (f"mined-hardness/{name}" for name in ("hardness", "variance", "variance of means"))
SEED_NOISE = 0.005
"""Of a mean over hundreds of batches: enough for one seed."""
SAME = 0.02
"""What counts as equally hard: a sixth of the published step from softhard to distance."""
REPAIRED = "softhard, repaired"
"""The miner's default variant: its positive is never the anchor itself."""


def _mining(scale: Scale, differs: tuple[str, ...] = (), **arguments: str) -> Job:
    """The same embeddings whatever the miner."""
    if scale == "pocket":
        probe = Probe("mined-hardness", {**arguments, "split": "test", "batches": 200})
        return Training("pocket", settings={"epochs": 6, "evaluate_every": 6}, measures=(probe,))
    probe = Probe("mined-hardness", {**arguments, "split": "train", "batches": 1000, "sampler": "pairs"})
    backbone = str(STAND_IN["model.backbone"])
    return Computation(measure=probe, data="cub", backbone=backbone, differs=differs, stand_in="resnet18.tv_in1k")


@study("H1")
def hardness_of_miners(scale: Scale) -> Plan:
    """How hard the triplets of five miners are before training."""
    jobs = {name: _mining(scale, miner=name) for name in MINERS.values()}
    jobs[REPAIRED] = _mining(scale, ("the miner as it should be",), miner="softhard", variant="default")
    spread = (("within batches", VARIANCE, 1e-4), ("from batch to batch", OF_MEANS, 1e-5))
    others = [name for name in MINERS.values() if name != "softhard"]
    return Plan(
        [Arm(name, job, (0, 1, 2)) for name, job in jobs.items()],
        [
            *(
                Ordered(
                    f"random < semihard < {softhard} < distance in mean hardness",
                    ("distance", softhard, "semihard", "random"),
                    HARDNESS,
                    noise=SEED_NOISE,
                )
                for softhard in ("softhard", REPAIRED)
            ),
            Near("distance and hardest are equally hard", ("distance", "hardest"), SAME, HARDNESS, noise=SEED_NOISE),
            *(
                All(
                    f"the hardness of softhard triplets varies most, {where}",
                    tuple(Ordered(other, ("softhard", other), figure, noise=noise) for other in others),
                )
                for where, figure, noise in spread
            ),
        ],
        [Bars("Hardness of mined triplets", tuple(jobs), {"E[H]": HARDNESS}, unit="")],
        {"E[H]": HARDNESS, "Var[H] within batches": VARIANCE, "Var of batch means": OF_MEANS},
    )


PAIRS = ("SM", "RM", "SH", "RS", "RH", "MS", "DM", "DH")
"""Sources and destinations that are tried at pocket scale; the claims rest on them."""
POCKET_EPOCHS = 12
CHANCE_NOISE = 1.0
"""Points of R@1 near chance that one seed may be off by: there, runs differ less than those of models that learn."""
TRAIN = ("HM[S, M]", "HM[R, M]", "HM[S, LGA]", "HM[D, M]", "HM[D, H]")
COLLAPSE = ("HM[R, S]", "HM[R, H]", "HM[M, S]", "HM[S, H]", "HM[S, 0]")


@study("H2")
def source_and_destination(scale: Scale) -> Plan:
    """Source × destination: which pairs train, which collapse."""
    epochs, pairs = POCKET_EPOCHS if scale == "pocket" else None, list(PAIRS)
    if scale == "paper":
        pairs += [a + b for a in MINERS for b in MINERS if a != b and a + b not in PAIRS]
    grid = {f"HM[{pair[0]}, {pair[1]}]": hm(scale, pair[0], pair[1], epochs=epochs) for pair in pairs}
    grid |= {"HM[S, LGA]": hm(scale, epochs=epochs), "HM[S, 0]": hm(scale, "S", 0.0, epochs=epochs)}
    if scale == "paper":  # source and destination the same: plain training
        grid |= {f"standard[{letter}]": standard(scale, letter) for letter in MINERS}
    return Plan(
        named(grid),
        [
            All(
                "S and R towards M, S towards LGA, and D towards M or H do not collapse",
                tuple(Beyond(arm, arm, "R@1", above=NEAR_CHANCE, noise=CHANCE_NOISE) for arm in TRAIN),
            ),
            All(
                "R and M towards S, R and S towards H, and S towards the constant 0 collapse",
                tuple(Beyond(arm, arm, "R@1", below=NEAR_CHANCE, noise=CHANCE_NOISE) for arm in COLLAPSE),
            ),
            *by_protocol(
                scale,
                lambda figure: All(
                    "D towards M or H, which moves little, gains less ERS than S or R towards M",
                    tuple(
                        more_ers(f"{more} > {less}", more, less, figure=figure)
                        for more in ("HM[S, M]", "HM[R, M]")
                        for less in ("HM[D, M]", "HM[D, H]")
                    ),
                ),
            ),
            more_r1("towards M, the source S keeps more R@1 than R", "HM[S, M]", "HM[R, M]"),
        ],
        [Scatter("Sources and destinations", tuple(grid), "R@1", ERS)],
        {"R@1": "R@1", **scores(scale), "one point or line": "collapsed", "mean distance": "distance_all"},
    )


LGA, ICS = "HM[S, LGA]", "HM[S, LGA]&ICS"
MARGIN, HEAVY, BOOSTED = f"{ICS}, margin 0.2", f"{ICS}, weight 1", "HM[S, g_B(M)]"


@study("H5")
def settings_of_hm(scale: Scale) -> Plan:
    """u, weight and margin of ICS, and other gradual adversaries."""
    jobs = {
        LGA: hm(scale),
        ICS: hm(scale, regime={"ics": 0.5}),
        "HM[S, M]": hm(scale, "S", "M"),
        "u 2.2": hm(scale, regime={"u": 2.2}),
        "u 0.1": hm(scale, over={"regime.u": 0.1}),
        "HM[S, g_2]": hm(scale, "S", "g-2"),
        "HM[S, g_1/2]": hm(scale, "S", "g-half"),
        BOOSTED: hm(scale, "S", {"name": "g-b", "of": miner(scale, "M"), "xi": 0.1}),
        HEAVY: hm(scale, regime={"ics": 1.0}),
        MARGIN: hm(scale, regime={"ics": 0.5, "ics_margin": 0.2}),
    }
    small, large = (f"{ICS}, sop, weight {weight}" for weight in (0.05, 0.5))
    if scale == "paper":
        jobs |= {name: hm(scale, data="sop", regime={"ics": weight}) for name, weight in ((small, 0.05), (large, 0.5))}
    gradual = ("HM[S, g_2]", LGA, "HM[S, g_1/2]")
    makers = [
        lambda figure: more_ers("a larger u (2.2) gains ERS", "u 2.2", LGA, figure=figure),
        lambda figure: more_ers("ERS: g_2 > LGA > g_1/2", *gradual, figure=figure),
        lambda figure: All(
            "boosting M (g_B) gains ERS and costs R@1",
            (more_ers("ERS", BOOSTED, "HM[S, M]", figure=figure), more_r1("R@1", "HM[S, M]", BOOSTED)),
        ),
        lambda figure: All(
            f"a margin in ICS costs R@1 and changes ERS by less than {SAME_ERS:g}",
            (more_r1("R@1", ICS, MARGIN), same_ers("ERS", MARGIN, ICS, figure=figure)),
        ),
    ]
    if scale == "paper":
        makers.append(
            lambda figure: All(
                "on SOP the weight 0.5 is worse than 0.05 in both",
                (more_r1("R@1", small, large), more_ers("ERS", small, large, figure=figure)),
            )
        )
    arms = named(jobs)
    return Plan(
        arms,
        [
            more_r1("a larger u (2.2) costs R@1", LGA, "u 2.2"),
            more_r1("R@1: g_1/2 > LGA > g_2", *gradual[::-1]),
            more_r1("twice the weight of ICS costs R@1", ICS, HEAVY),
            *by_protocol(scale, *makers),
        ],
        [
            Scatter("Settings of HM", called(arms), "R@1", ERS),
            Lines("ERS over u", {LGA: {0.1: "u 0.1", 0.2: LGA, 2.2: "u 2.2"}}, ERS, x="u", logarithmic=True),
        ],
        {"R@1": "R@1", **scores(scale), "TMA": "ers-fixed/TMA", "ES:D": "ers-fixed/ES:D"},
    )
