"""How a batch becomes a loss: plain or adversarial training."""

from holdfast.regimes.base import Batch, Regime, StepContext, StepResult, register, registry

build, names = registry.build, registry.names

__all__ = ["Batch", "Regime", "StepContext", "StepResult", "build", "names", "register"]
