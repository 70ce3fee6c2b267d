"""Training in several processes on this machine: how they are started, and a few recorded steps in double precision."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from holdfast.data import Augment, RaggedImages
from holdfast.processes import joined
from holdfast.regimes import StepContext
from holdfast.training.recipe import load_recipe
from holdfast.training.session import Session, build_session
from holdfast.training.step import gradients, load_batch, one_step
from meeting import meet

STEPS = 3

RECIPE: dict[str, Any] = {
    "data": {"name": "glyphs", "characters": 20, "per_class": 6},
    "model": {"backbone": "conv-tiny", "dim": 8},
    "batch": {"classes": 5, "per_class": 3},  # fifteen images: no two processes have equal shares
    "augment": {"name": "random-crop", "padding": 2},
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
}
MINING = {"name": "margin", "miner": "distance"}
DIRECT = {"name": "gradient", "rule": "best", "miner": "ephn"}
ARCFACE = {"name": "arcface"}
TRIPLET = {"name": "triplet", "miner": "softhard"}
S2SD = {"name": "s2sd", "loss": "multi-similarity", "dims": [12], "feature_after": 1}

BUDGET = {"eps": 0.03, "step": 0.01, "steps": 3}
# Room enough: a perturbation that rounding makes too long is shortened by a millionth, which a last bit decides.
WIDE = {"eps": 2.0, "step": 0.05, "steps": 3, "norm": "l2", "start": "uniform", "start_radius": 0.1}
HM = {"name": "hm", "budget": BUDGET}
MDPROP = {
    "name": "mdprop",
    "distributions": [
        {"name": "stax", "goal": "single-target", "budget": BUDGET},
        {"name": "mtax", "goal": {"name": "multi-target", "targets": 3}, "budget": {**BUDGET, "start": "uniform"}},
    ],
}
# An image may be its own target: the way there from the image itself is a matter of rounding, so none starts there.
RELEASED = {
    **MDPROP,
    "variant": "released",
    "distributions": [{**d, "budget": {**BUDGET, "start": "uniform"}} for d in MDPROP["distributions"]],  # type: ignore[dict-item]
}

CASES: dict[str, dict[str, Any]] = {
    **{
        f"{name}-{kind}": {"regime": regime, "loss": loss}
        for name, regime in {"standard": {"name": "standard"}, "hm": HM, "mdprop": MDPROP}.items()
        for kind, loss in {"mining": TRIPLET if name == "hm" else MINING, "direct": DIRECT, "arcface": ARCFACE}.items()
    },
    "standard-repeats": {
        "loss": DIRECT,
        "mining_groups": 2,
        "data": {"name": "glyphs", "characters": 20, "per_class": 2},
        "batch": {"classes": 6, "per_class": 3},
    },
}
MORE: dict[str, dict[str, Any]] = {
    "standard-s2sd": {"loss": S2SD},
    "standard-groups": {
        "loss": MINING,
        "mining_groups": 2,
        "batch": {"classes": 6, "per_class": 3},
        "accumulate": 3,
        "clip": 0.5,
    },
    "standard-frozen": {"loss": MINING, "model": {**RECIPE["model"], "batchnorm": "freeze"}, "cache": "none"},
    "hm-ics": {"regime": {**HM, "ics": 0.5, "statistics": "keep"}, "loss": TRIPLET},
    "hm-separate": {"regime": {**HM, "separate": True}, "loss": TRIPLET},
    "hm-few": {"regime": {**HM, "source": "semihard"}, "loss": TRIPLET, "batch": {"classes": 2, "per_class": 2}},
    "hm-extras": {
        "regime": {**HM, "source": "random"},
        "loss": TRIPLET,
        "extras": ["consistency", "all-tuples", "clean", {"name": "awp", "gamma": 0.01}],
    },
    "at-extras": {
        "regime": {"name": "at", "budget": BUDGET},
        "loss": MINING,
        "mining_groups": 2,
        "batch": {"classes": 6, "per_class": 3},
        "extras": [{"name": "clean", "separate": True}, {"name": "consistency", "measure": "rows"}, "awp"],
    },
    "mdprop-released": {"regime": RELEASED, "loss": MINING},
    "advprop-d": {"regime": {"name": "advprop-d", "budget": BUDGET, "noise": 0.1}, "loss": MINING},
    "at": {"regime": {"name": "at", "budget": BUDGET}, "loss": MINING},
    "min-max": {"regime": {"name": "min-max", "budget": BUDGET}, "loss": TRIPLET},
    "adml": {"regime": {"name": "adml", "budget": {**BUDGET, "method": "apgd"}}, "loss": MINING},
    "est": {"regime": {"name": "est", "budget": WIDE}, "loss": MINING},
    "act": {"regime": {"name": "act", "budget": BUDGET, "statistics": "keep"}, "loss": TRIPLET},
    "tride": {"regime": {"name": "tride", "budget": BUDGET}, "loss": TRIPLET},
    "tride-direct": {"regime": {"name": "tride", "budget": BUDGET, "statistics": "keep"}, "loss": DIRECT},
    "free-hm": {"regime": {"name": "free-hm", "replays": 3}, "loss": TRIPLET},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precise(Augment):
    """Another augmentation, in double precision."""

    of: Augment

    def draw(self, count: int, generator: Generator) -> Tensor:
        return self.of.draw(count, generator)

    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        return self.of.view(images, draws).double()


def double_session(case: str) -> Session:
    recipe = load_recipe({**RECIPE, **{**CASES, **MORE}[case]})
    session = build_session(recipe, "cpu", False)
    session.model.double()
    session.criterion.double()
    session.optimizer = recipe.optimizer.build().build(session.model, session.criterion)
    session.augment = Precise(of=session.augment)
    return session


def recorded(case: str) -> dict[str, Tensor]:
    """Losses, logs and gradients of every step, what was communicated, and what the model is after the last step."""
    session = double_session(case)
    context = StepContext(session.model, session.criterion, session.accelerator, 0)
    found: dict[str, Tensor] = {}
    update = session.optimizer.step
    seen: list[Tensor] = []

    def note_and_update() -> None:
        seen.extend(g.clone() for module in (session.model, session.criterion) for g in gradients(module))
        update()

    session.optimizer.step = note_and_update  # type: ignore[assignment, method-assign]
    for step, rows in zip(range(STEPS), session.batches, strict=False):
        context.start(step)
        accumulated = (step + 1) % session.recipe.accumulate == 0
        result = one_step(session, context, load_batch(session, context, rows), accumulated)
        for name, value in {"loss": result.loss, **result.terms, **result.logs, "z": result.encoded.z}.items():
            found[f"{step} {name}"] = value.detach().clone()
        found[f"{step} passes"] = torch.tensor(context.passes)
    found |= {f"gradient {position}": gradient for position, gradient in enumerate(seen)}
    found |= {f"model {name}": tensor.clone() for name, tensor in session.model.state_dict().items()}
    found |= {f"loss {name}": tensor.clone() for name, tensor in session.criterion.state_dict().items()}
    return found


def record_all(rank: int, world: int, port: int, folder: str, cases: list[str]) -> None:
    """Some cases in one of several processes."""
    meet(rank, world, port)
    with joined(torch.device("cpu")):
        for case in cases:
            torch.save(recorded(case), Path(folder) / f"{case}-{rank}.pt")
