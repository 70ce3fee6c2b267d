"""What an audit says of a model, beside what is true of it."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import torch
from torch import Tensor, nn
from zoo_fakes import Fake
from zoo_models import HONEST, Trained
from zoo_oracle import EPS, adversaries, recall, seen, true_recall

from holdfast.attacks.frozen import frozen
from holdfast.audit import Ers, Subject
from holdfast.audit.flags import Flag, collapse
from holdfast.audit.masking import find_masking, reported_hits
from holdfast.audit.plan import Passes, Progress
from holdfast.data import ImageTable

LIMIT = 40
RANDOM_LIMIT = 16
"""Images of a random model, each of which is looked at eight times."""
REPORTED = ("es", "ltm", "gtm")
"""Attacks of `ers` that are measured by R@1."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One model.

    Args:
        kind: of fake, empty for an honest model.
        name: of the model.
        clean: R@1 on clean images.
        reported: R@1 under each of the attacks that `ers` reports.
        flags: name → (level, why).
        bare: R@1 of the network behind a fake on clean images.
        true: R@1 of a fake under transfer from that network, and under BPDA by hand.
    """

    kind: str
    name: str
    clean: float
    reported: tuple[float, ...]
    flags: dict[str, tuple[str, str]]
    bare: float | None = None
    true: float | None = None

    @property
    def errors(self) -> list[str]:
        return [name for name, (level, _) in self.flags.items() if level == "error"]

    @property
    def claimed(self) -> float:
        """The mean of what is reported."""
        return sum(self.reported) / len(self.reported)


@dataclasses.dataclass
class Calibration:
    """Audits of fakes and honest models, without what says nothing about masked gradients.

    Args:
        models: trained ones.
        table: the images.
    """

    models: Trained
    table: ImageTable

    @cached_property
    def _bare(self) -> dict[tuple[str, int], tuple[float, list[Tensor]]]:
        return {}

    def bare(self, name: str, limit: int) -> tuple[float, list[Tensor]]:
        """R@1 of a trained model on the attacked images, and adversaries of it."""
        if (name, limit) not in self._bare:
            model = self.models[name]
            with frozen(model), torch.random.fork_rng():
                subject, _ = seen(model, self.table, limit)
                self._bare[name, limit] = recall(subject), list(adversaries(model, subject))
        return self._bare[name, limit]

    def fake(self, fake: Fake) -> Row:
        """Audit a fake, and find out what is true of it."""
        model = fake.build(self.models)
        limit = RANDOM_LIMIT if fake.kind.startswith("random") else LIMIT
        clean, attacked = self.bare(fake.base, limit)
        with frozen(model), torch.random.fork_rng():
            subject, flags = seen(model, self.table, limit)
            true = true_recall(model, attacked, subject)
            row = audited(subject, flags)
        return dataclasses.replace(row, kind=fake.kind, name=fake.name, bare=clean, true=true)

    def honest(self, name: str) -> Row:
        """Audit an honest model."""
        model: nn.Module = HONEST[name](self.models)
        with frozen(model), torch.random.fork_rng():
            row = audited(*seen(model, self.table, LIMIT))
        return dataclasses.replace(row, name=name)


def audited(subject: Subject, flags: list[Flag]) -> Row:
    """The attacks of `ers` on R@1, and every check, as `audit.run` makes them.

    Args:
        subject: what is audited.
        flags: of the first checks.
    """
    whole = slice(0, len(subject.rows))
    measured = {part.name: part.attack(whole) for part in Ers().parts(subject) if part.name in REPORTED}
    probed = find_masking(subject, EPS, reported_hits(subject, measured), Progress(Passes()))
    collapsed, _ = collapse(subject.references.vectors, subject.references.labels, subject.seed)
    raised = [flag.plain() for flag in (*flags, *collapsed, *probed.flags)]
    return Row(
        kind="",
        name="",
        clean=recall(subject),
        reported=tuple(100 * float(measured[name]["hit"].mean()) for name in REPORTED),
        flags={flag["name"]: (flag["level"], flag["why"]) for flag in raised},
    )
