"""H1: how hard the published miners' triplets are."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.hardness_arms import MINERS
from holdfast_studies.catalogue.paper_settings import STAND_IN
from holdfast_studies.claims import All, Claim, Near, Ordered
from holdfast_studies.drawings import Bars, Drawing
from holdfast_studies.jobs import Arm, Computation, Job, Probe, Scale, Training

HARDNESS, VARIANCE, OF_MEANS = (f"mined-hardness/{name}" for name in ("hardness", "variance", "variance of means"))
SEED_NOISE = 0.005
"""Of a mean over hundreds of batches: enough for one seed."""
SAME = 0.02
"""What counts as equally hard: a sixth of the published step from softhard to distance."""


REPAIRED = "softhard, repaired"
"""The miner's default variant: its positive is never the anchor itself."""


@register("H1")
class HardnessOfMiners(Study):
    """How hard the triplets of five miners are before training."""

    id = "H1"
    source = "HM, Table 1"
    published = (
        "ImageNet ResNet-18 on CUB, random, semihard, softhard, distance, hardest: E[H] -0.164, -0.126, -0.085, 0.043, "
        "0.044; Var[H] 0.00035, 0.00013, 0.00122, 0.00021, 0.00021"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """One per miner; all mine the same embeddings."""
        jobs = {name: _job(scale, miner=name) for name in MINERS.values()}
        jobs[REPAIRED] = _job(scale, ("the miner as it should be",), miner="softhard", variant="default")
        return [Arm(name=name, job=job, seeds=(0, 1, 2)) for name, job in jobs.items()]

    def claims(self, scale: Scale) -> list[Claim]:
        """The published order, also with the softhard miner as it should be."""
        return [
            *(
                Ordered(
                    text=f"random < semihard < {softhard} < distance in mean hardness",
                    arms=("distance", softhard, "semihard", "random"),
                    figure=HARDNESS,
                    noise=SEED_NOISE,
                )
                for softhard in ("softhard", REPAIRED)
            ),
            Near(
                text="distance and hardest are equally hard",
                arms=("distance", "hardest"),
                within=SAME,
                figure=HARDNESS,
                noise=SEED_NOISE,
            ),
            *(
                All(
                    text=f"the hardness of softhard triplets varies most, {where}",
                    parts=tuple(
                        Ordered(text=other, arms=("softhard", other), figure=figure, noise=noise)
                        for other in MINERS.values()
                        if other != "softhard"
                    ),
                )
                for where, figure, noise in (
                    ("within batches", VARIANCE, 1e-4),
                    ("from batch to batch", OF_MEANS, 1e-5),
                )
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The printed variance is of the size of the one of batch means."""
        return {"E[H]": HARDNESS, "Var[H] within batches": VARIANCE, "Var of batch means": OF_MEANS}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The means."""
        return [
            Bars(
                title="Hardness of mined triplets",
                arms=(*MINERS.values(), REPAIRED),
                figures={"E[H]": HARDNESS},
                unit="",
            )
        ]

    def notes(self, scale: Scale) -> str:
        """Whose embeddings."""
        how = (
            "Published variants of the miners, 56 pairs per batch, the first of each pair as anchor. The published "
            "softhard miner may take the anchor as its own positive, which makes an easy triplet; the repaired one, "
            "added after the published one came out below semihard at pocket scale, does not. "
        )
        if scale == "pocket":
            return how + (
                "Test classes of glyphs, embedded by conv-small after 6 epochs on the training classes: 3 epochs "
                "retrieve validation classes no better than the untrained network does."
            )
        return how + (
            "Training classes of CUB, every image an anchor once in an epoch of batches, pooled features of ImageNet "
            "MobileNetV2 in the place of ResNet-18's; seeds draw batches."
        )


def _job(scale: Scale, differs: tuple[str, ...] = (), **miner: str) -> Job:
    """The same embeddings whatever the miner.

    Args:
        scale: whose embeddings.
        differs: what is not the paper's.
        miner: arguments of the probe.
    """
    if scale == "pocket":
        probe = Probe(function="mined-hardness", arguments={**miner, "split": "test", "batches": 200})
        return Training(recipe="pocket", settings={"epochs": 6, "evaluate_every": 6}, measures=(probe,))
    published = {"split": "train", "batches": 1000, "sampler": "pairs"}
    probe = Probe(function="mined-hardness", arguments={**miner, **published})
    backbone = str(STAND_IN["model.backbone"])
    return Computation(measure=probe, data="cub", backbone=backbone, differs=differs, stand_in="resnet18.tv_in1k")
