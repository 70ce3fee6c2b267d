"""Functions that measure what no metric or audit does, by name."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any

import torch

from holdfast.data import ImageTable, load
from holdfast.errors import DataError, HoldfastError
from holdfast.models import Embedder
from holdfast.registry import Registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """What a probe may look at.

    Args:
        seed: of everything random.
        device: where to compute.
        model: trained, or with a backbone's starting weights; None where the computation names none.
        table: the images of the dataset, all splits; None where the computation names none.
        run: plain recipe of the trained run, its data as they lie here; None where nothing was trained.
    """

    seed: int
    device: torch.device
    model: Embedder | None = None
    table: ImageTable | None = None
    run: dict[str, Any] | None = None

    def shown(self, probe: str) -> tuple[Embedder, ImageTable]:
        """The model and the images, which most probes need."""
        if self.model is None or self.table is None:
            raise DataError(f"{probe} needs a model and images; give it to a training, or to data and a backbone")
        return self.model, self.table

    def images(self, split: str, data: dict[str, Any]) -> ImageTable:
        """The images of a split, with fields of the dataset otherwise than the run had them: `{"protocol": "seen"}`."""
        if self.table is None:
            raise HoldfastError("no images to look at; give the probe a dataset")
        if not data:
            return self.table.split(split)
        if self.run is None:
            raise HoldfastError("another form of a dataset can be asked for after a training alone")
        return load({**self.run["data"], **data}).split(split)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What a probe found: figures are numbers for tables and claims, series lists for drawings."""

    figures: dict[str, float | None]
    series: dict[str, Any] = dataclasses.field(default_factory=dict)


class ProbeFunction(ABC):
    """A measurement; its dataclass fields are the arguments of a `Probe`."""

    @abstractmethod
    def __call__(self, scene: Scene) -> ProbeResult:
        """Measure."""


registry: Registry[ProbeFunction] = Registry("probe", ProbeFunction, "holdfast_studies.measures")
register, names = registry.register, registry.names
