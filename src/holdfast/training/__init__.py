"""Training: recipes, the loop, checkpoints, logs."""

from holdfast.training.loop import Interrupted, Run, train
from holdfast.training.recipe import Recipe, load_recipe

__all__ = ["Interrupted", "Recipe", "Run", "load_recipe", "train"]
