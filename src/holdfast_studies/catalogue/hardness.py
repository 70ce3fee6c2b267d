"""HM: mined triplets (H1), source and destination (H2), steps and parts (H3), rivals (H4), settings (H5)."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.hardness_arms import (
    FIXED,
    MINERS,
    PUBLISHED,
    STEPS,
    act,
    est,
    hm,
    miner,
    named,
    standard,
    trained,
)
from holdfast_studies.drawing import Lines
from holdfast_studies.jobs import Arm, Computation, Job, Probe, Scale, Training


def _mining(scale: Scale, differs: tuple[str, ...] = (), **arguments: str) -> Job:
    """The same embeddings whatever the miner."""
    if scale == "pocket":
        probe = Probe("mined-hardness", {**arguments, "split": "test", "batches": 200})
        return Training("pocket", settings={"epochs": 6, "evaluate_every": 6}, measures=(probe,))
    probe = Probe("mined-hardness", {**arguments, "split": "train", "batches": 1000, "sampler": "pairs"})
    return Computation(
        measure=probe,
        data={"name": "cub", "validation": 0.0},  # all training classes, as in the paper
        backbone="resnet18.tv_in1k",
        model={"fit": "squash", "size": 224, "canvas": 256},  # how the paper's recipes see images
        differs=differs,
    )


@study("H1")
def hardness_of_miners(scale: Scale) -> Plan:
    """How hard the triplets of five miners are before training.

    The miner's default variant is the repaired one: its positive is never the anchor itself.
    """
    jobs = {name: _mining(scale, miner=name) for name in MINERS.values()}
    jobs["softhard, repaired"] = _mining(scale, ("the miner as it should be",), miner="softhard", variant="default")
    return Plan([Arm(name, job, (0, 1, 2)) for name, job in jobs.items()])


PAIRS = ("SM", "RM", "SH", "RS", "RH", "MS", "DM", "DH")
"""Sources and destinations that are tried at pocket scale; the claims rest on them."""
POCKET_EPOCHS = 12


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
    return Plan(named(grid))


ETAS: dict[Scale, tuple[int, ...]] = {"pocket": (1, 2, 4, 8), "paper": (2, 4, 8, 16, 32)}
GAMMA = 0.2
"""The triplet margin γ."""


def _varied(scale: Scale, eta: int) -> dict[str, Training]:
    """Methods whose η the paper varies."""
    methods = {
        "HM[S, LGA]": hm(scale, steps=eta),
        "HM[S, LGA]&ICS": hm(scale, steps=eta, regime={"ics": 0.5}),
        "HM[S, M]": hm(scale, "S", "M", steps=eta),
        "HM[R, M]": hm(scale, "R", "M", steps=eta),
        "HM[S, -γ/2]": hm(scale, "S", -GAMMA / 2, steps=eta),
    }
    return methods | ({f"ACT[{s}]": act(scale, s, steps=eta) for s in "RS"} if scale == "paper" else {})


@study("H3")
def steps_and_parts(scale: Scale) -> Plan:
    """Steps of the adversary, and the parts of HM one by one."""
    usual, etas, methods = STEPS[scale], ETAS[scale], _varied(scale, STEPS[scale])
    if scale == "paper":
        methods |= {"HM[S, -γ]": hm(scale, "S", -GAMMA), "HM[R, LGA]": hm(scale, "R", "lga")}
        for source, destination in (("R", "M"), ("S", "M"), ("R", "lga"), ("S", "lga")):
            name = f"HM[{source}, {destination.upper()}]&ICS"
            methods[name] = hm(scale, source, destination, regime={"ics": 0.5})
    jobs = {f"{name}, η {usual}": job for name, job in methods.items()}
    swept = tuple(_varied(scale, usual)) if scale == "paper" else ("HM[S, LGA]",)
    for eta in etas:
        jobs |= {f"{name}, η {eta}": job for name, job in _varied(scale, eta).items() if name in swept and eta != usual}
    lines = {name: {float(eta): f"{name}, η {eta}" for eta in etas} for name in swept}
    figures = {"ERS": "ers-fixed/ERS", "R@1": "R@1"}
    drawings = [Lines(f"{name} over η", lines, figure, x="η", logarithmic=True) for name, figure in figures.items()]
    return Plan(named(jobs), drawings=drawings)


BOTH = (FIXED, PUBLISHED)
FURTHER = {"cars": 0.5, "sop": 0.05}
"""Datasets beyond the scale's own, and their weight of the intra-class structure term."""


def _methods(scale: Scale, weight: float = 0.5, **more: Any) -> dict[str, Training]:
    """The table's four defences."""
    return {
        "EST[R]": est(scale, measures=BOTH, **more),
        "ACT[R]": act(scale, "R", measures=BOTH, **more),
        "HM[S, LGA]": hm(scale, measures=BOTH, **more),
        "HM[S, LGA]&ICS": hm(scale, regime={"ics": weight}, measures=BOTH, **more),
    }


@study("H4")
def rivals(scale: Scale) -> Plan:
    """HM against EST and ACT at equal η."""
    defences, others = _methods(scale), {"HM[S, M]": hm(scale, "S", "M", measures=BOTH)}
    same_source, plain = {"ACT[S]": act(scale, "S", measures=BOTH)}, standard(scale, measures=BOTH)
    if scale == "pocket":
        return Plan(named({"standard": plain, **defences, **others, **same_source}))
    # The table's own rows, then what explains them, other data, the strong η, another backbone
    plain_of = {d: trained(scale, "resnet18-triplet-random", {}, data=d, measures=BOTH) for d in ("cub", *FURTHER)}
    main = {name: defences.pop(name) for name in ("ACT[R]", "HM[S, LGA]", "HM[S, LGA]&ICS")}
    whole = _methods(scale, epochs=75)
    further = {**defences, **others, **{f"{name}, 75 epochs": whole[name] for name in main}}
    for data, weight in FURTHER.items():
        on_it = {"standard[R]": plain_of[data], **_methods(scale, weight, data=data)}
        further |= {f"{name}, {data}": job for name, job in on_it.items()}
    further |= {f"{name}, η 32": job for name, job in _methods(scale, steps=32).items()} | same_source
    frozen = {"model.batchnorm": "freeze-statistics"}
    further |= {"standard[S]": plain, "EST[R], BatchNorm frozen": est(scale, measures=BOTH, over=frozen)}
    tuned = Training("hm-lga-ics-tuned", "cub", settings={"evaluate_every": 50}, measures=BOTH)
    further["HM[S, LGA]&ICS, tuned"] = tuned
    return Plan(named({"standard[R]": plain_of["cub"]}) + named(main, (0, 1)) + named(further))


@study("H5")
def settings_of_hm(scale: Scale) -> Plan:
    """u, weight and margin of ICS, and other gradual adversaries."""
    jobs = {
        "HM[S, LGA]": hm(scale),
        "HM[S, LGA]&ICS": hm(scale, regime={"ics": 0.5}),
        "HM[S, M]": hm(scale, "S", "M"),
        "u 2.2": hm(scale, regime={"u": 2.2}),
        "u 0.1": hm(scale, over={"regime.u": 0.1}),
        "HM[S, g_2]": hm(scale, "S", "g-2"),
        "HM[S, g_1/2]": hm(scale, "S", "g-half"),
        "HM[S, g_B(M)]": hm(scale, "S", {"name": "g-b", "of": miner(scale, "M"), "xi": 0.1}),
        "HM[S, LGA]&ICS, weight 1": hm(scale, regime={"ics": 1.0}),
        "HM[S, LGA]&ICS, margin 0.2": hm(scale, regime={"ics": 0.5, "ics_margin": 0.2}),
    }
    for weight in (0.05, 0.5) if scale == "paper" else ():
        jobs[f"HM[S, LGA]&ICS, sop, weight {weight}"] = hm(scale, data="sop", regime={"ics": weight})
    return Plan(named(jobs))
