"""M1: MDProp against standard training, AT and AdvProp-D."""

from __future__ import annotations

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.mdprop_arms import (
    ATTACKED_NOISE,
    BUDGET,
    R1_NOISE,
    STAX_FIXED,
    STAX_REPLACED,
    arcface,
    fixed,
    replaced,
    training,
)
from holdfast.studies.catalogue.named_arms import named
from holdfast.studies.catalogue.paper_settings import SEVERAL
from holdfast.studies.claims import All, Claim, Ordered, gaps
from holdfast.studies.drawings import Bars, Drawing, Scatter
from holdfast.studies.jobs import Arm, Scale, Training

METHODS = ("standard", "AT", "AdvProp-D", "MDProp-1", "MDProp")
ORDER = ("MDProp", "AdvProp-D", "standard", "AT")
BACKBONES = {"ResNet-18": "resnet18", "ResNet-152": "resnet152"}
PRINTED: dict[str, dict[str, float]] = {
    "": {"standard": 62.8, "AT": 61.7, "AdvProp-D": 63.7, "MDProp": 65.8},
    ", ArcFace": {"standard": 62.2, "AT": 60.2, "AdvProp-D": 63.2, "MDProp": 64.1},
    ", S2SD": {"standard": 67.7, "AT": 66.5, "AdvProp-D": 68.1, "MDProp": 69.1},
    ", ResNet-18": {"standard": 58.8, "AT": 58.3, "AdvProp-D": 60.9, "MDProp": 61.7},
    ", ResNet-152": {"standard": 65.1, "AT": 65.0, "AdvProp-D": 67.0, "MDProp": 67.6},
    ", CARS": {"standard": 81.7, "AT": 80.0, "AdvProp-D": 82.4, "MDProp": 83.8},
    ", SOP": {"standard": 78.1, "MDProp": 78.7},
}
"""Suffix of arms → clean R@1 as the paper has it."""
FAR = 10.0
"""Points of R@1 that count as far above; the paper has 12.5 to 39."""


@register("M1")
class MDPropTable(Study):
    """MDProp raises clean R@1, and R@1 under attack far more."""

    id = "M1"
    source = "MDProp, Tables 1-3"
    published = (
        "R@1 clean, standard / AT / AdvProp-D / MDProp-1 / MDProp: CUB MS 62.8 / 61.7 / 63.7 / 64.7 / 65.8, ArcFace "
        "62.2 / 60.2 / 63.2 / 63.8 / 64.1; CARS MS 81.7 / 80.0 / 82.4 / 83.1 / 83.8; single-target attack, ε 0.01: CUB "
        "MS 33.0 / 38.9 / 58.8 / 57.1 / 57.3; CARS MS 52.0 / 52.4 / 79.1 / 78.2 / 80.3; CUB with S2SD 67.7 / 66.5 / "
        "68.1 / 68.8 / 69.1, ResNet-18 58.8 / 58.3 / 60.9 / 60.9 / 61.7, ResNet-152 65.1 / 65.0 / 67.0 / 66.7 / 67.6; "
        "SOP 78.1 / - / 77.4 / 77.7 / 78.7"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Multi-similarity with all methods first, then the other loss, S2SD, and at paper scale backbones and data."""
        both = (fixed(scale), replaced(scale))
        arms = {name: training(scale, name, measures=both) for name in METHODS}
        methods = METHODS if scale == "paper" else ("standard", "MDProp")
        arms |= {f"{name}, ArcFace": _single(scale, name, arcface(scale)) for name in methods}
        arms |= {name: _single(scale, name) for name in ("standard, S2SD", "MDProp, S2SD")}
        if scale == "pocket":
            return named(arms)
        more = {f"{n}, CARS": training(scale, n, data="cars", measures=both) for n in METHODS}
        more |= {f"{n}, CARS, ArcFace": _single(scale, n, arcface(scale), "cars") for n in METHODS}
        more |= {f"{n}, SOP": _single(scale, n, {"batch.classes": 56}, "sop") for n in METHODS if n != "AT"}
        for label, backbone in BACKBONES.items():
            more |= {f"{n}, {label}": _single(scale, n, {"model.backbone": backbone}) for n in METHODS}
        return named(arms, SEVERAL) + named(more)

    def claims(self, scale: Scale) -> list[Claim]:
        """The orders of the tables."""
        claims: list[Claim] = [_clean(scale, "", "multi-similarity"), *_attacked("", "multi-similarity")]
        if scale == "pocket":
            claims.append(_gain(scale, ", ArcFace", "ArcFace"))
        else:
            claims += [_clean(scale, ", ArcFace", "ArcFace"), _attacked(", ArcFace", "ArcFace")[0]]
        claims.append(_gain(scale, ", S2SD", "S2SD"))
        if scale == "paper":
            claims += [_clean(scale, f", {label}", label) for label in BACKBONES]
            claims += [_clean(scale, ", CARS", "CARS"), *_attacked(", CARS", "CARS")]
            claims += [_clean(scale, ", CARS, ArcFace", "CARS, ArcFace"), _gain(scale, ", SOP", "SOP")]
        return claims

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean, and under single-target attacks."""
        return {
            "R@1": "R@1",
            "NMI": "NMI",
            "π_ratio": "pi_ratio",
            "attacked R@1": STAX_FIXED,
            "attacked, large ε": "stax-fixed/stax-large/R@1",
            "attacked R@1, all images": STAX_REPLACED,
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Clean and attacked R@1 of the main comparison."""
        figures = {"clean": "R@1", "attacked": STAX_FIXED, "attacked, all images": STAX_REPLACED}
        return [
            Bars(title="Multi-similarity", arms=METHODS, figures=figures),
            Scatter(title="Clean and attacked R@1", arms=METHODS, x="R@1", y=STAX_FIXED),
        ]

    def notes(self, scale: Scale) -> str:
        """What differs from the paper."""
        if scale == "paper":
            return (
                f"{BUDGET} CARS and SOP rows have the paper's setting. The paper attacks the whole test set (`all "
                "images`); `attacked R@1` moves queries only. Rows on CUB with ResNet-50 are planned with three "
                "seeds, as one cannot tell the paper's own differences from chance; the table says how many were run."
            )
        return (
            "Small characters and a network from random weights in the place of photographs and ImageNet weights. ε is "
            "0.03 in training and in the attack, in place of 0.01: the recipes' settings, found earlier (see the page "
            "on choosing) with test figures of seed 0 in view, so a clean R@1 level with standard training is "
            "partly a choice of ε. ArcFace and S2SD with standard training and MDProp alone."
        )


def _single(scale: Scale, name: str, settings: dict[str, object] | None = None, data: str | None = None) -> Training:
    return training(scale, name, settings, data=data, measures=(fixed(scale),))


def _clean(scale: Scale, suffix: str, words: str) -> Claim:
    text = f"{words}: clean R@1 of MDProp > AdvProp-D > standard > AT"
    return _order(scale, text, ORDER, suffix)


def _gain(scale: Scale, suffix: str, words: str) -> Claim:
    return _order(scale, f"{words}: MDProp raises clean R@1", ("MDProp", "standard"), suffix)


def _order(scale: Scale, text: str, methods: tuple[str, ...], suffix: str) -> Claim:
    arms = tuple(f"{name}{suffix}" for name in methods)
    known = PRINTED.get(suffix, {}) if scale == "paper" else {}
    printed = gaps([known[name] for name in methods]) if known else ()
    return Ordered(text=text, arms=arms, noise=R1_NOISE[scale], printed=printed)


def _attacked(suffix: str, words: str) -> list[Claim]:
    """Queries attacked, and all images."""
    return [
        All(
            text=f"{words}: attacked R@1 of models with separate BatchNorm far above standard training, {what}",
            parts=tuple(
                Ordered(
                    text=f"{name} far above standard",
                    arms=(f"{name}{suffix}", f"standard{suffix}"),
                    figure=figure,
                    noise=ATTACKED_NOISE,
                    least=FAR,
                )
                for name in ("AdvProp-D", "MDProp-1", "MDProp")
            ),
        )
        for what, figure in (("queries attacked", STAX_FIXED), ("all images attacked", STAX_REPLACED))
    ]
