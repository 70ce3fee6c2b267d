"""Training regimes: how a batch becomes a loss, on clean or adversarial images."""

from holdfast.config import builder
from holdfast.regimes.act import AntiCollapseTriplets
from holdfast.regimes.adml import AdversarialMetricLearning
from holdfast.regimes.advprop_d import AdvPropD
from holdfast.regimes.at import AdversarialTraining
from holdfast.regimes.base import Adversarial, Batch, Regime, StepResult, register, registry
from holdfast.regimes.context import StepContext
from holdfast.regimes.est import EmbeddingShiftedTraining
from holdfast.regimes.free_hm import FreeHardnessManipulation
from holdfast.regimes.hardness_schedules import (
    ConstantHardness,
    Destination,
    GradualAdversary,
    GradualBoost,
    LinearGradualAdversary,
    MinerHardness,
    QuadraticGradualAdversary,
    Ramp,
    RootGradualAdversary,
)
from holdfast.regimes.hm import HardnessManipulation
from holdfast.regimes.manipulation import Manipulation
from holdfast.regimes.mdprop import Distribution, MDProp
from holdfast.regimes.min_max import MinMax
from holdfast.regimes.standard import Standard
from holdfast.regimes.tride import CollapseAwareTriplets

build, names = builder(registry), registry.names

__all__ = ["Adversarial", "Batch", "Regime", "StepContext", "StepResult", "build", "names", "register"]
__all__ += ["AdversarialMetricLearning", "AdversarialTraining", "EmbeddingShiftedTraining", "Standard"]
__all__ += ["AdvPropD", "Distribution", "MDProp"]
__all__ += ["AntiCollapseTriplets", "CollapseAwareTriplets", "FreeHardnessManipulation", "HardnessManipulation"]
__all__ += ["ConstantHardness", "Destination", "GradualAdversary", "GradualBoost", "LinearGradualAdversary"]
__all__ += ["Manipulation", "MinMax", "MinerHardness", "QuadraticGradualAdversary", "Ramp", "RootGradualAdversary"]
