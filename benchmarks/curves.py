"""What `growth.py` lets grow: one piece of work for each value of one quantity, all else held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from steps import HM_BUDGET, TrainingStep
from torch import Tensor

from holdfast import attacks, metrics
from holdfast.attacks import Budget, References
from holdfast.models import Embedder
from holdfast.regimes import Batch

Work = Callable[[], object]
DIM = 128
PER_CLASS = 5
ATTACKED = 64


@dataclass(frozen=True)
class Setting:
    """What all curves of a run share.

    Args:
        device: `cpu` or `cuda`.
        backbone: of the model that is trained or attacked.
        size: of its images.
        batch: images in a step whose batch does not grow.
    """

    device: str
    backbone: str
    size: int
    batch: int

    @property
    def scale(self) -> int:
        """How many times larger a gallery must be to keep the device busy."""
        return 4 if self.device == "cuda" else 1

    def model(self) -> Embedder:
        """A fresh model."""
        torch.manual_seed(0)
        made = Embedder(self.backbone, dim=DIM, size=self.size)
        made.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return made

    def images(self, count: int) -> Tensor:
        """Noise: speed does not depend on what is in a picture."""
        generator = torch.Generator(self.device).manual_seed(0)
        drawn = torch.rand(count, 3, self.size, self.size, device=self.device, generator=generator)
        return drawn.contiguous(memory_format=torch.channels_last)

    def vectors(self, count: int) -> Tensor:
        """Random unit vectors."""
        generator = torch.Generator(self.device).manual_seed(1)
        drawn = torch.randn(count, DIM, device=self.device, generator=generator)
        return drawn.div_(drawn.norm(dim=1, keepdim=True))


@dataclass(frozen=True)
class Curve:
    """One quantity that grows.

    Args:
        title: what is measured.
        along: what grows.
        values: what is set, smallest first.
        work: a setting and one of the values → a call to be timed.
        amount: one of the values → how much there is to do. This is the x of the curve: a step of η passes that craft
            and one that learns is proportional to η + 1, not to η.
    """

    title: str
    along: str
    values: Callable[[Setting], list[int]]
    work: Callable[[Setting, int], Work]
    amount: Callable[[int], int] = int


def search(setting: Setting, queries: int, items: int) -> Work:
    """All retrieval metrics; every query has matches, as many in a large gallery as in a small one."""
    vectors = setting.vectors(queries + items)
    labels = torch.arange(len(vectors), device=setting.device) % (len(vectors) // PER_CLASS)
    return lambda: metrics.retrieval(
        vectors[:queries], labels[:queries], gallery=vectors[queries:], gallery_labels=labels[queries:]
    )


def ranking_attack(setting: Setting, items: int) -> Work:
    """One step of QA+, which compares every attacked image with the whole gallery."""
    model, images = setting.model().eval(), setting.images(ATTACKED)
    references = References(setting.vectors(items), normalize=False)
    rows = torch.arange(ATTACKED, device=setting.device)
    goal = attacks.build("qa+").bind(references, rows, torch.Generator(setting.device).manual_seed(0))
    budget = Budget(eps=8 / 255, step=1 / 255, steps=1)
    precision: Any = "bfloat16" if setting.device == "cuda" else "float32"
    return lambda: attacks.craft(model, images, goal, budget, precision=precision, checked=False)


def training(setting: Setting, regime: str, images: int, **changed: Any) -> Work:
    """A training step of a regime, in pairs of images."""
    batch = Batch(setting.images(images), torch.arange(images, device=setting.device) // 2)
    return TrainingStep(setting.model(), regime, batch, **changed)


def hm(setting: Setting, steps: int) -> Work:
    """Hardness manipulation in so many steps."""
    return training(setting, "hm", setting.batch, budget={**HM_BUDGET, "steps": steps})


def mdprop(setting: Setting, sets: int) -> Work:
    """As many single-target distributions beside the clean one."""
    distributions = [{"name": f"set{number}", "goal": "single-target"} for number in range(sets)]
    return training(setting, "mdprop", setting.batch, distributions=distributions)


def _powers(first: int, last: int) -> list[int]:
    return [2**power for power in range(first, last + 1)]


CURVES = {
    "queries": Curve(
        "retrieval, gallery held",
        "queries",
        lambda setting: [setting.scale * n for n in _powers(8, 12)],
        lambda setting, x: search(setting, x, 32768 * setting.scale),
    ),
    "gallery": Curve(
        "retrieval, 512 queries",
        "gallery items",
        lambda setting: [setting.scale * n for n in _powers(14, 19)],
        lambda setting, x: search(setting, 512, x),
    ),
    "qa": Curve(
        f"QA+ step, {ATTACKED} images",
        "gallery items",
        lambda setting: [setting.scale * n for n in _powers(14, 19)],
        ranking_attack,
    ),
    "batch": Curve(
        "plain training step",
        "images in a batch",
        lambda setting: _powers(4, 9) if setting.device == "cuda" else _powers(5, 10),
        lambda setting, x: training(setting, "standard", x),
    ),
    "eta": Curve("HM training step", "passes, η + 1", lambda _: _powers(0, 5), hm, lambda eta: eta + 1),
    "sets": Curve("MDProp training step", "passes, 1 + 2 per set", lambda _: [1, 2, 3, 4], mdprop, lambda n: 1 + 2 * n),
}
