"""What a training may spend, by its recipe."""

from __future__ import annotations

import dataclasses

from holdfast.errors import DataError
from holdfast.training.recipe import load_recipe
from holdfast_studies.probes import Found, ProbeFunction, Scene, register


@register("spent")
@dataclasses.dataclass(frozen=True)
class Spent(ProbeFunction):
    """Nominal passes forward and back over each training image in the whole run: epochs times passes per batch.

    A regime that leaves out some images of a batch spends less; `log/passes` has what it did. Those that only look
    (mining, evaluation) are not counted.
    """

    def __call__(self, scene: Scene) -> Found:
        """Read the recipe."""
        if scene.run is None:
            raise DataError("spent is about a training; give it a trained run")
        recipe = load_recipe(scene.run)
        return Found(figures={"passes": float(recipe.epochs * recipe.regime.build().passes)})
