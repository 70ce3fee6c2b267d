"""E6: what the losses prefer under label noise, computed."""

from __future__ import annotations

from holdfast_studies.base import Plan, study
from holdfast_studies.claims import Beyond
from holdfast_studies.drawing import Curves
from holdfast_studies.jobs import Arm, Computation, Probe, Scale, called
from holdfast_studies.measures.noisy_labels import ENOUGH, SEARCHED

MOST_POINTS, STEP = 48, 4
NOISE = {
    (THEOREMS := "two classes, p 0.8"): (2, 0.8),
    "two classes, p 0.6": (2, 0.6),
    "four classes, p 0.8": (4, 0.8),
    (LIMIT := "four classes, p 0.6"): (4, 0.6),
}
"""Arm → number of classes, and probability that a label is true: the theorems' own first, then how far they reach."""

PROOFS = {"triplet": "Theorem 1", "margin": "Theorem 2", "EPS triplet": "Claim 1", "EPS margin": "Claim 2"}
"""Loss → what the paper proves of it: the theorems that it prefers collapsed classes, the claims that two modes."""


def _arm(name: str) -> Arm:
    """From two points per class to 48 in all."""
    classes, p = NOISE[name]
    points = list(range(2 * classes, MOST_POINTS + 1, STEP))
    measure = Probe(
        "noisy-labels", {"classes": classes, "p": p, "points": points, "search": classes == 2}, name="noise"
    )
    return Arm(name, Computation(measure=measure, differs=() if name == THEOREMS else (f"{name} for {THEOREMS}",)))


def _side(text: str, arm: str, figure: str, bound: float, below: bool, limit: bool = False) -> Beyond:
    """A figure on one side of a bound."""
    above, under = (None, bound) if below else (bound, None)
    return Beyond(text, arm, f"noise/{figure}", above=above, below=under, limit=limit)


def _prefers(text: str, arm: str, loss: str, limit: bool = False) -> Beyond:
    """Two modes (or collapsed classes) are cheaper with every number of points from 12."""
    modes = loss.startswith("EPS")
    where = f"{arm}, {ENOUGH} to {MOST_POINTS} points"
    return _side(f"{text}: {where}", arm, f"{loss}, {'most' if modes else 'least'}", 0.0, modes, limit)


def _best(text: str, loss: str, where: str = "") -> Beyond:
    """The cheapest of all embeddings of 12 points in a triangle, or elsewhere."""
    text, figure = f"{text}: {THEOREMS}, {ENOUGH} points", f"{loss}, collapsed is best{where}"
    return _side(text, THEOREMS, figure, 0.5, loss.startswith("EPS"), limit=bool(where))


@study("E6")
def under_label_noise(scale: Scale) -> Plan:
    """Under label noise the losses prefer collapsed classes; with easy positives and enough points, two modes."""
    arms = [_arm(name) for name in NOISE]
    preferred = {loss: "two modes" if loss.startswith("EPS") else "collapsed classes" for loss in PROOFS}
    cheapest = {loss: f"for {loss} has {'not' if loss.startswith('EPS') else 'collapsed classes'}" for loss in PROOFS}
    betas = (("above 0", "best β > 0"), ("of any sign", "best β"))
    at_8 = f"Claim 1 needs no more than 8 points: {THEOREMS}"
    return Plan(
        arms,
        [
            *(_prefers(f"{proof}: {loss} prefers {preferred[loss]}", THEOREMS, loss) for loss, proof in PROOFS.items()),
            *(_best(f"{proof}: the best embedding {cheapest[loss]}", loss) for loss, proof in PROOFS.items()),
            *(_best(f"{proof} also on a line", loss, " on a line") for loss, proof in PROOFS.items()),
            *(_prefers(f"{proof} reaches farther", LIMIT, loss, limit=True) for loss, proof in PROOFS.items()),
            _side(at_8, THEOREMS, "EPS triplet at 8", 0.0, below=True, limit=True),
            *(
                _prefers(f"Claim 2 with each anchor's best β {kind}", THEOREMS, f"EPS margin, {loss}", limit=True)
                for kind, loss in betas
            ),
        ],
        [
            Curves(
                f"What two modes cost more than one: {loss}",
                called(arms),
                f"noise/{loss}",
                "points",
                "% of the collapsed embedding",
            )
            for loss in SEARCHED
        ],
        {
            "triplet, least": "noise/triplet, least",
            "margin, least": "noise/margin, least",
            "EPS triplet, most": "noise/EPS triplet, most",
            "EPS triplet, 48 points": f"noise/EPS triplet at {MOST_POINTS}",
            "EPS margin, most": "noise/EPS margin, most",
            "EPS margin, best β, most": "noise/EPS margin, best β, most",
        },
    )
