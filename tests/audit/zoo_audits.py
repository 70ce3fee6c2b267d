"""What an audit says of a model, beside what is true of it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from zoo_fakes import Fake
from zoo_models import HONEST, Trained
from zoo_oracle import LIMIT, plain_attacks, recall, subject_of, true_recall

from holdfast import audit
from holdfast.attacks.frozen import frozen
from holdfast.audit.state import read_measurements
from holdfast.data import ImageTable
from holdfast.models import Embedder

REPORTED = ("ES:R", "LTM", "GTM")
RANDOM_LIMIT = 16
"""Images of a random model, each of which is looked at eight times."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One model.

    Args:
        kind: of fake, empty for an honest model.
        name: of the model.
        base: the trained model that a fake is made of.
        bare: R@1 of that model on clean images.
        clean: R@1 on clean images.
        reported: R@1 under each of the attacks that `ers` reports.
        worst: R@1 of the queries that hold against each of these.
        ers: the score.
        robust: robust R@1, where the audit has it.
        true: R@1 of a fake under transfer from the network behind it, and under BPDA by hand.
        flags: name → (level, why).
        seconds: that the audit took.
    """

    kind: str
    name: str
    base: str
    bare: float
    clean: float
    reported: tuple[float, ...]
    worst: float
    ers: float
    robust: float | None
    true: float | None
    flags: dict[str, tuple[str, str]]
    seconds: float

    @property
    def errors(self) -> list[str]:
        return [name for name, (level, _) in self.flags.items() if level == "error"]

    @property
    def claimed(self) -> float:
        """The lowest of what `ers` reports."""
        return min(self.reported)


@dataclasses.dataclass
class Calibration:
    """Audits of fakes and honest models.

    Args:
        models: trained ones.
        table: the images.
        limit: how many are attacked.
    """

    models: Trained
    table: ImageTable
    limit: int = LIMIT

    @cached_property
    def _bare(self) -> dict[tuple[str, int], tuple[float, list[Tensor]]]:
        return {}

    def bare(self, name: str, limit: int) -> tuple[float, list[Tensor]]:
        """R@1 of a trained model on the attacked images, and adversaries of it."""
        if (name, limit) not in self._bare:
            model = self.models[name]
            subject = subject_of(model, self.table, limit)
            with frozen(model), torch.random.fork_rng():
                self._bare[name, limit] = recall(subject, []), plain_attacks(subject)
        return self._bare[name, limit]

    def fake(self, fake: Fake) -> Row:
        """Audit a fake, and find out what is true of it."""
        model = fake.build(self.models)
        limit = RANDOM_LIMIT if fake.kind.startswith("random") else self.limit
        clean, adversaries = self.bare(fake.base, limit)
        subject = subject_of(model, self.table, limit)
        with frozen(model), torch.random.fork_rng():
            torch.manual_seed(0)
            true = true_recall(model, adversaries, subject)
        return self._row(model, limit, (fake.kind, fake.name, fake.base), clean, true)

    def honest(self, name: str) -> Row:
        """Audit an honest model."""
        model = HONEST[name](self.models)
        clean = recall(subject_of(model, self.table, self.limit), [])
        return self._row(model, self.limit, ("", name, ""), clean, None)

    def _row(self, model: nn.Module, limit: int, who: tuple[str, str, str], bare: float, true: float | None) -> Row:
        document, worst = self._audit(model, limit)
        metrics = document["metrics"]
        return Row(
            kind=who[0],
            name=who[1],
            base=who[2],
            bare=bare,
            clean=metrics["R@1"],
            reported=tuple(metrics[key] for key in REPORTED),
            worst=worst,
            ers=metrics["ERS"],
            robust=metrics.get("robust R@1"),
            true=true,
            flags={flag["name"]: (flag["level"], flag["why"]) for flag in document["flags"]},
            seconds=sum(_numbers(document["seconds"])),
        )

    def _audit(self, model: nn.Module, limit: int) -> tuple[dict[str, Any], float]:
        """The document, and R@1 of the queries that hold against every attack on R@1."""
        size = None if isinstance(model, Embedder) else 32
        with tempfile.TemporaryDirectory() as place:
            document = audit.run(model, self.table, limit=limit, size=size, out=place).document
            measured = read_measurements(Path(place) / document["artifacts"][0])
        hits = torch.stack([measured[goal]["hit"].double() for goal in ("es", "ltm", "gtm")])
        return document, 100 * float(hits.amin(0).nanmean())


def _numbers(seconds: Any) -> Sequence[float]:
    if isinstance(seconds, dict):
        return [number for value in seconds.values() for number in _numbers(value)]
    return [float(seconds)]
