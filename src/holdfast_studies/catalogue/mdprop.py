"""MDProp: its tables (M1), separate BatchNorm sets (M2), little data (M3), targets (M4), drift of the sets (M5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.mdprop_arms import (
    BASELINES,
    METHODS,
    arcface,
    fixed,
    named,
    replaced,
    s2sd,
    towards,
    training,
)
from holdfast_studies.drawing import Lines
from holdfast_studies.jobs import AuditMeasure, Probe, Scale, Training

WITHOUT_SETS = "AT, clean too"
"""What the released code does where there are no separate sets."""
BACKBONES = {"ResNet-18": "resnet18.tv_in1k", "ResNet-152": "resnet152.tv_in1k"}
SEEDS = (0, 1)
"""Of the main table on CUB at paper scale."""


@study("M1")
def mdprop_table(scale: Scale) -> Plan:
    """MDProp raises clean R@1, and R@1 under attack far more."""
    methods, queries, both = METHODS[scale], (fixed(scale),), (fixed(scale), replaced(scale))
    shared = {WITHOUT_SETS: {**towards(scale, stax=1), "regime.separate": False}}
    main = {name: training(scale, name, shared.get(name), measures=both) for name in methods}

    def rows(
        of: Iterable[str], label: str, row: Mapping[str, Any], measures: tuple[AuditMeasure, ...] = both, **data: str
    ) -> dict[str, Training]:
        return {f"{name}, {label}": training(scale, name, row, measures=measures, **data) for name in of}

    if scale == "pocket":
        few = ("standard", "MDProp")
        other = rows(few, "ArcFace", arcface(scale), queries) | rows(few, "S2SD", s2sd(scale), queries)
        return Plan(named(scale, {**main, **other}))
    published = [name for name in methods if name not in ("released", WITHOUT_SETS)]
    other = rows([name for name in methods if name != WITHOUT_SETS], "CARS", {}, data="cars")
    other |= rows(published, "ArcFace", arcface(scale)) | rows(published, "S2SD", s2sd(scale))
    other |= rows(published, "CARS, ArcFace", arcface(scale), data="cars")
    for label, backbone in BACKBONES.items():
        other |= rows(published, label, {"model.backbone": backbone}, ())
    other |= rows([name for name in published if name != "AT"], "SOP", {}, data="sop")
    return Plan(named(scale, main, SEEDS) + named(scale, other))


SHARED = "MDProp-1, one set for all"


@study("M2")
def separate_sets(scale: Scale) -> Plan:
    """Without separate BatchNorm the clean gain disappears."""
    audit = (fixed(scale),)
    jobs = {name: training(scale, name, measures=audit) for name in (*BASELINES[scale], "AT", "MDProp-1")}
    jobs[SHARED] = training(scale, "MDProp-1", {"regime.separate": False}, measures=audit)
    return Plan(named(scale, jobs))


FRACTIONS = (1.0, 0.75, 0.5, 0.25)
DATASETS: dict[Scale, dict[str, str]] = {"pocket": {"": "glyphs"}, "paper": {"": "cub", ", CARS": "cars"}}
"""What follows the names of arms → dataset."""


@study("M3")
def little_data(scale: Scale) -> Plan:
    """MDProp with half of the images matches standard training with all of them."""
    jobs: dict[str, Training] = {}
    drawings = []
    for suffix, data in DATASETS[scale].items():
        lines: dict[str, dict[float, str]] = {method: {} for method in (*BASELINES[scale], "MDProp")}
        for share in FRACTIONS:
            row, some = ({}, "") if share == 1 else ({"data.train_fraction": share}, f", {share:g} of the images")
            for method, line in lines.items():
                line[share] = f"{method}{some}{suffix}"
                jobs[line[share]] = training(scale, method, row, data=data)
        title = f"R@1 by share of the training images, {data}"
        drawings.append(Lines(title, lines, x="share of each class's training images"))
    return Plan(named(scale, jobs), drawings=drawings)


COUNTS = (1, 2, 3, 5, 10)
ONE = {count: f"one set, T {count}" for count in COUNTS}
TWO = {count: f"two sets, T {count}" for count in COUNTS}
"""T → arm; with two sets, the first always has one target."""
THREE, WITH = "three sets, T 1, 3 and 5", "two sets and UX"


@study("M4")
def targets(scale: Scale) -> Plan:
    """Three targets are best with one extra set, five with two; unadversarial images help a little."""

    def made(kind: str, **of_sets: int) -> Training:
        return training(scale, kind, towards(scale, **of_sets) if of_sets else None, measures=(fixed(scale),))

    jobs = {name: made(name) for name in BASELINES[scale]}
    # One target and one set is AdvProp-D; T 3 with one set and T 5 with two are the recipes as shipped.
    jobs |= {ONE[1]: made("AdvProp-D"), ONE[3]: made("MDProp-1"), TWO[5]: made("MDProp"), "UX": made("UX")}
    jobs |= {ONE[count]: made("MDProp-1", mtax=count) for count in COUNTS if ONE[count] not in jobs}
    jobs |= {TWO[count]: made("MDProp", stax=1, mtax=count) for count in COUNTS if TWO[count] not in jobs}
    jobs |= {THREE: made("MDProp", stax=1, three=3, mtax=5), WITH: made("MDProp", stax=1, mtax=5, ux=0)}
    return Plan(named(scale, jobs))


TWINS = "two sets of single targets"
"""As a measure of chance: two sets for the same kind of images."""


@study("M5")
def drift(scale: Scale) -> Plan:
    """The BatchNorm sets drift apart."""
    rows = {"MDProp": None, TWINS: towards(scale, stax=1, mtax=1)}
    measures = (fixed(scale), Probe("batchnorm-drift", name="drift"))
    return Plan(named(scale, {name: training(scale, "MDProp", row, measures=measures) for name, row in rows.items()}))
