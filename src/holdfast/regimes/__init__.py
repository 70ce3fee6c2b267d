"""How a batch becomes a loss: plain or adversarial training."""

from holdfast.config import builder
from holdfast.regimes.base import Batch, Regime, StepContext, StepResult, register, registry

build, names = builder(registry), registry.names

__all__ = ["Batch", "Regime", "StepContext", "StepResult", "build", "names", "register"]
