"""How far the BatchNorm sets of a model are from one another."""

from __future__ import annotations

import dataclasses
import itertools
import statistics

from torch import Tensor

from holdfast.errors import DataError
from holdfast.models import Embedder
from holdfast.models.bank import CLEAN
from holdfast_studies.probes import Found, ProbeFunction, Scene, register

KINDS = ("weight", "bias")


@register("batchnorm-drift")
@dataclasses.dataclass(frozen=True)
class BatchNormDrift(ProbeFunction):
    """Learnt weights and biases of each pair of sets, compared layer by layer.

    |u - v| / √((|u|² + |v|²) / 2) of each layer: 0 for equal sets, √2 for unrelated ones

    Figures are `weight/A-B` and `bias/A-B`, means over the layers; series of the same names have every layer. The clean
    set comes first, the others by name.
    """

    def __call__(self, scene: Scene) -> Found:
        """Compare all pairs."""
        if scene.model is None or not len(scene.model.bank):
            raise DataError("batchnorm-drift compares BatchNorm sets; give it a model of mdprop or advprop-d")
        sets = _sets(scene.model)
        figures: dict[str, float | None] = {}
        series = {}
        for (first, own), (second, other) in itertools.combinations(sets.items(), 2):
            for kind in KINDS:
                layers = [name for name in own if name.endswith(f".{kind}")]
                gaps = [_gap(own[name], other[name]) for name in layers]
                figures[f"{kind}/{first}-{second}"] = statistics.fmean(gaps)
                series[f"{kind}/{first}-{second}"] = [[place, gap] for place, gap in enumerate(gaps)]
        return Found(figures=figures, series=series)


def _sets(model: Embedder) -> dict[str, dict[str, Tensor]]:
    """Set → name in the backbone → tensor, of weights and biases."""
    sets: dict[str, dict[str, Tensor]] = {CLEAN: dict(model.backbone.named_parameters())}
    sets |= {name: model.bank.tensors(name) for name in sorted(model.bank.names())}
    learnt = [name for name in sets[CLEAN] if all(name in tensors for tensors in sets.values())]
    return {name: {place: tensors[place].detach().double() for place in learnt} for name, tensors in sets.items()}


def _gap(u: Tensor, v: Tensor) -> float:
    size = float((u.square().sum() + v.square().sum()) / 2) ** 0.5
    return float((u - v).norm()) / size if size else 0.0
