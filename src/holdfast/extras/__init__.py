"""Extras: what robust classifiers are trained with, added to any regime."""

from holdfast.config import builder
from holdfast.extras.all_tuples import AllTuples
from holdfast.extras.base import (
    START,
    CleanTerm,
    Extended,
    Extra,
    Term,
    adversarial_of,
    clean_of,
    extended,
    prepare,
    register,
    registry,
)
from holdfast.extras.clean import Clean
from holdfast.extras.consistency import Consistency
from holdfast.extras.eps_warmup import EpsWarmup
from holdfast.extras.grad_align import GradAlign
from holdfast.extras.progressive_resizing import ProgressiveResizing
from holdfast.extras.teacher import Teacher
from holdfast.extras.weight_perturbation import WeightPerturbation

build, names = builder(registry), registry.names

__all__ = ["START", "CleanTerm", "Extended", "Extra", "Term", "adversarial_of", "clean_of", "extended", "prepare"]
__all__ += ["build", "names", "register"]
__all__ += ["AllTuples", "Clean", "Consistency", "EpsWarmup", "GradAlign"]
__all__ += ["ProgressiveResizing", "Teacher", "WeightPerturbation"]
