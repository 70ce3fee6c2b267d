"""EPS: digits (E1), losses (E2), letters (E3, E7), batches (E4), trimming (E5), and label noise, computed (E6)."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import easy_positives_arms as eps
from holdfast_studies.catalogue.easy_positives_arms import LOSSES, OMNIGLOT, R1_NOISE, SEEN, SOFT, LossGround
from holdfast_studies.claims import All, Beyond, Claim, Ordered, gaps
from holdfast_studies.drawing import Bars, Curves, Lines
from holdfast_studies.jobs import Arm, Computation, Measure, Probe, Scale, called
from holdfast_studies.measures.noisy_labels import ENOUGH, SEARCHED

SEEDS = tuple(range(8))
"""Of E1, as many runs as the paper's tables have: a network into the plane comes out differently each time."""

LENGTHS: dict[Scale, tuple[int, ...]] = {"pocket": (2,), "paper": (2, 10, 30)}
"""Epochs on MNIST, which the paper does not say."""

DIGITS = LossGround(
    "Digits",
    {"name": "digits", "labels": "coarse", "size": 28},
    "eps-mnist",
    settings={**eps.KEEP_GOING, "epochs": 40, "evaluate_every": 40},
    seeds=SEEDS,
)
"""Scikit-learn's digits have no images to hold out."""

ADDED: dict[str, dict[str, tuple[float, ...]]] = {
    "MNIST": {"R@1": gaps((42.3, 35.2)), "seen/R@1": gaps((65.8, 42.0))},
    "CARS": {"triplet": gaps((78.3, 76.1)), "margin": gaps((83.6, 79.6)), "MS": gaps((82.9, 81.2))},
    "CUB": {"triplet": gaps((61.8, 61.5)), "margin": gaps((64.7, 63.6)), "MS": gaps((63.3, 62.3))},
    "letters": {"triplet": gaps((68.4, 49.4)), "margin": gaps((66.2, 49.4)), "MS": gaps((68.7, 57.7))},
    "languages": {"triplet": gaps((85.2, 71.0)), "margin": gaps((83.0, 73.2)), "MS": gaps((86.2, 78.8))},
    "seen languages": {"triplet": gaps((99.9, 94.5))},
    "seen letters": {"triplet": gaps((77.5, 70.3))},
}
"""What easy positives add in the paper's tables; of the training set, where it has triplets alone, what they change."""

OTHER_MS = "MS, λ 0.5, β 40"
SOFTHARD = "triplet, softhard"


def mnist(epochs: int) -> LossGround:
    """MNIST, learnt for so long."""
    settings = {**eps.KEEP_GOING, "evaluate_every": epochs}
    data, reading = {"name": "mnist", "labels": "coarse"}, f"{epochs} epochs"
    return LossGround(
        f"MNIST, {reading},", data, "eps-mnist", {"epochs": epochs}, settings, seeds=SEEDS, reading=reading
    )


@study("E1")
def odd_and_even(scale: Scale) -> Plan:
    """Trained on odd against even, easy positives keep the digits apart and retrieve unseen ones better."""
    held_out = {"split": "test", "data": {"protocol": "seen"}}  # of the digits trained on, as in the paper's figure 2
    grounds = [(mnist(epochs), held_out) for epochs in LENGTHS[scale]]
    grounds += [(DIGITS, {"split": "train"})] if scale == "pocket" else []
    arms: list[Arm] = []
    claims = []
    for ground, seen in grounds:
        measures: tuple[Measure, ...] = (Probe("retrieval", seen, "seen"), Probe("plane", seen))
        arms += ground.pair("triplet", eps.PLAIN, measures)
        for text, figure in (
            ("EPS retrieves unseen digits (6-9) better", "R@1"),
            ("EPS keeps the digits it trained on (0-5) apart", "seen/R@1"),
        ):
            printed = () if ground is DIGITS else ADDED["MNIST"][figure]
            text, names = f"{ground.label.removesuffix(',')}: {text}", ground.names("triplet")
            claims.append(Ordered(text, names, figure, noise=R1_NOISE, printed=printed, reading=ground.reading))
    figures = {"unseen digits": "R@1", "seen digits": "seen/R@1"}
    return Plan(
        arms,
        claims,
        [
            Bars("Digits retrieved after learning odd from even", called(arms), figures),
            Curves("Digits 0-5 in the plane", called(arms), "plane/points", "first", "second", points=True),
        ],
    )


@study("E2")
def three_losses(scale: Scale) -> Plan:
    """Easy positives improve triplet, margin and multi-similarity."""
    several = {("CARS", "margin"): (0, 1)}  # seeds of the rows that the paper is cited for
    arms: list[Arm] = []
    claims = []
    for ground in (eps.GLYPHS,) if scale == "pocket" else (eps.photographs("cub"), eps.photographs("cars")):
        added = ADDED.get(ground.label, {})
        rows = [(name, ground.names(name), added.get(name, ()), pair.reading) for name, pair in LOSSES.items()]
        for name, pair in LOSSES.items():
            arms += ground.pair(name, pair, seeds=several.get((ground.label, name)))
        if scale == "paper":
            arms += [ground.arm(SOFTHARD, eps.SOFTHARD, reading=SOFT), *ground.pair(OTHER_MS, eps.OWN_MS)]
            softhard = (ground.names("triplet")[0], f"{ground.label} {SOFTHARD}")
            rows += [("triplet", softhard, added["triplet"], SOFT), (OTHER_MS, ground.names(OTHER_MS), (), "")]
        claims += [
            Ordered(f"{ground.label}: EPS improves {name}", names, noise=R1_NOISE, printed=printed, reading=reading)
            for name, names, printed, reading in rows
        ]
    return Plan(arms, claims, [Bars("Easy positives with three losses", called(arms), {"R@1": "R@1"})])


FAR = 5.0
"""Points of R@1 that count as far better; the paper's smallest gain is 11."""

EMBEDDED_LOSSES = ("triplet", "MS")
"""Of the three, those that the embedded data are asked with."""


def omniglot_arms(scale: Scale) -> list[Arm]:
    """Three losses without and with easy positives, at paper scale also triplets read the other way."""
    ground = OMNIGLOT[scale]
    arms = [arm for name, pair in LOSSES.items() for arm in ground.pair(name, pair, (SEEN,))]
    return arms + ([ground.arm(SOFTHARD, eps.SOFTHARD, (SEEN,), reading=SOFT)] if scale == "paper" else [])


def on_omniglot(scale: Scale, what: str, table: str, figure: str, **more: Any) -> list[Claim]:
    """A comparison of each loss without and with easy positives; beyond the paper's own losses it is a limit."""
    return [
        Ordered(
            f"{what} with {name}",
            OMNIGLOT[scale].names(name),
            figure,
            noise=R1_NOISE,
            printed=ADDED[table].get(name, ()),
            reading=pair.reading,
            limit=name not in ADDED[table],
            **more,
        )
        for name, pair in LOSSES.items()
    ]


def against_softhard(what: str, table: str, figure: str, **more: Any) -> Claim:
    """The same of triplets against the other baseline, at paper scale."""
    arms = (OMNIGLOT["paper"].names("triplet")[0], f"Omniglot {SOFTHARD}")
    text, printed = f"{what} with triplet", ADDED[table]["triplet"]
    return Ordered(text, arms, figure, noise=R1_NOISE, printed=printed, reading=SOFT, **more)


@study("E3")
def letters_unseen(scale: Scale) -> Plan:
    """Trained on languages only, easy positives retrieve the letters of unseen languages far better."""
    ground = OMNIGLOT[scale]
    letters, languages = (f"Omniglot {labels}: EPS is better" for labels in ("letters", "languages"))
    far = tuple(Ordered(f"far better with {name}", ground.names(name), least=FAR, noise=R1_NOISE) for name in LOSSES)
    text = f"Omniglot letters: far better ({FAR:g} points or more) with every loss"
    claims = [
        *on_omniglot(scale, letters, "letters", "R@1"),
        All(text, far, reading=LOSSES["triplet"].reading),
        *on_omniglot(scale, languages, "languages", "coarse/R@1"),
    ]
    arms = omniglot_arms(scale)
    if scale == "paper":
        arms += ground.pair(OTHER_MS, eps.OWN_MS)
        claims += [
            against_softhard(letters, "letters", "R@1"),
            against_softhard(languages, "languages", "coarse/R@1"),
            Ordered(f"{letters} with {OTHER_MS}", ground.names(OTHER_MS), noise=R1_NOISE),
        ]
    for name in EMBEDDED_LOSSES if scale == "pocket" else ():
        pair, text = LOSSES[name], f"Characters of scripts: EPS is better with {name}"
        arms += eps.SCRIPTS.pair(name, pair)
        claims.append(Ordered(text, eps.SCRIPTS.names(name), noise=R1_NOISE, reading=pair.reading))
    return Plan(
        arms,
        claims,
        [
            Bars(
                "Letters and languages after learning languages",
                called(arms),
                {"letters": "R@1", "languages": "coarse/R@1"},
            )
        ],
    )


@study("E7")
def letters_seen(scale: Scale) -> Plan:
    """On the training set easy positives fit languages less and letters more."""
    arms = omniglot_arms(scale)
    less = ("Training languages: EPS fits them less", "seen languages", "seen/coarse/R@1")
    more = ("Training letters: EPS fits them more", "seen letters", "seen/R@1")
    claims = [*on_omniglot(scale, *less, smaller=True), *on_omniglot(scale, *more)]
    claims += [against_softhard(*less, smaller=True), against_softhard(*more)] if scale == "paper" else []
    return Plan(
        arms,
        claims,
        [
            Bars(
                "Letters and languages on the training set",
                called(arms),
                {"letters": "seen/R@1", "languages": "seen/coarse/R@1"},
            )
        ],
    )


IMAGES: dict[Scale, int] = {"pocket": 112, "paper": 160}
"""Of one update."""

BATCHES: dict[Scale, dict[int, int]] = {"pocket": {2: 2, 4: 1, 8: 1}, "paper": {2: 4, 4: 2, 8: 1}}
"""Images per class → batches that make one update: there are 30 languages, and few images of each do not fill one."""

MOST = 16
"""Images per class of E3's batches: the largest number of E4 is its training."""


@study("E4")
def positives_in_batch(scale: Scale) -> Plan:
    """More positives in a batch to choose the easiest from, better letters."""
    ground, pair = OMNIGLOT[scale], LOSSES["margin"]
    arms = []
    for number, parts in BATCHES[scale].items():
        classes = IMAGES[scale] // number
        row = {**pair.easy, "batch.classes": classes, "batch.per_class": number}
        ours: dict[str, Any] = {} if parts == 1 else {"batch.classes": classes // parts, "accumulate": parts}
        if scale == "pocket":
            ours = {"batch.classes": classes // parts, "batch.per_class": number, **ours}
        arms.append(ground.arm(f"{number} per language", row, settings=ours))
    arms += [ground.arm(f"{MOST} per language", pair.easy, (SEEN,)), ground.arm("without EPS", pair.usual, (SEEN,))]
    names = {number: f"Omniglot {number} per language" for number in (*BATCHES[scale], MOST)}
    rising = tuple(reversed(names.values()))
    return Plan(
        arms,
        [
            Ordered("16 drawings of a language to choose from beat 2", (rising[0], rising[-1]), noise=R1_NOISE),
            Ordered("every doubling helps", rising, noise=R1_NOISE),
        ],
        [
            Lines(
                "Letters by the number of drawings of a language in the batch",
                {"EPS + margin": {float(number): name for number, name in names.items()}},
                x="drawings per language",
                logarithmic=True,
            )
        ],
    )


KEPT: dict[str, tuple[float, ...]] = {"margin": (0.9, 0.7, 0.5), "random triplet": (0.9, 0.7)}
"""Shares of the tuples that still count."""


@study("E5")
def trimming(scale: Scale) -> Plan:
    """Leaving out the costliest tuples does not replace easy positives."""
    ground = OMNIGLOT[scale]
    arms: list[Arm] = []
    claims = []
    lines: dict[str, dict[float, str]] = {}
    for name, kept in KEPT.items():
        pair, measures = (LOSSES["margin"], (SEEN,)) if name == "margin" else (eps.PLAIN, ())  # as E3 has them
        arms += ground.pair(name, pair, measures)
        easy, usual = ground.names(name)
        trimmed = {keep: f"{usual}, keep {keep:g}" for keep in kept}
        for keep in kept:
            loss = {"name": "trimmed", "keep": keep, "loss": pair.usual["loss"]}
            arms.append(ground.arm(f"{name}, keep {keep:g}", {**pair.usual, "loss": loss}))
        parts = tuple(Ordered(f"keep {keep:g}", (easy, arm), noise=R1_NOISE) for keep, arm in trimmed.items())
        claims.append(All(f"Omniglot letters: no trimming of {name} comes up to EPS", parts))
        lines |= {name: {1.0: usual, **trimmed}, f"{name} + EPS": dict.fromkeys((min(kept), 1.0), easy)}
    return Plan(arms, claims, [Lines("Letters by the share of tuples kept", lines, x="share kept")])


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
