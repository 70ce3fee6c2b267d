"""What is left of a fake when its disguise is known: attacks on the network behind it, and BPDA written by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from zoo_disguises import Disguised

from holdfast import attacks
from holdfast.attacks import Budget, pgd
from holdfast.attacks.frozen import frozen
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.audit.subject import Expectation, Subject
from holdfast.data import ImageTable
from holdfast.models import Embedder, as_embedder

EPS = 8 / 255
STEPS = 40
LIMIT = 40
PASSES = 8
"""Averaged where a disguise is random."""


class Known(nn.Module):
    """A fake as one sees it who knows the disguise."""

    def __init__(self, fake: Disguised, passes: int) -> None:
        super().__init__()
        self.fake, self.passes = fake, passes
        self.training = False

    def forward(self, images: Tensor) -> Tensor:
        return torch.stack([self.fake.unmasked(images) for _ in range(self.passes)]).mean(0)


def subject_of(model: nn.Module, table: ImageTable, limit: int = LIMIT) -> Subject:
    """A model as the audit sees it, with the images that the audit attacks."""
    size = None if isinstance(model, Embedder) else 32
    embedder = as_embedder(model, size)
    with frozen(embedder), torch.random.fork_rng():
        return make_subject(embedder, Selection(table, "test", limit), Execution())[0]


def plain_attacks(subject: Subject) -> list[Tensor]:
    """Adversaries of some strong attacks by the gradient that a model gives."""
    found = []
    images = subject.images(subject.rows)
    for goal, start in (("misrank", "zero"), ("misrank", "uniform"), ("es", "zero"), ("gtm", "zero")):
        bound = attacks.build(goal).bind(subject.references, subject.rows, subject.generator("oracle", goal))
        budget = Budget(eps=EPS, steps=STEPS, method="apgd", start=start)
        generator = subject.generator("oracle-start", goal, start)
        found.append(pgd(subject.model, images, bound, budget, generator=generator).images)
    return found


def recall(subject: Subject, adversaries: list[Tensor]) -> float:
    """R@1 in percent of queries that hold against each of some adversaries and without any."""
    clean = subject.references.hits(subject.references.clean(subject.rows), subject.rows)
    hits = [subject.references.hits(subject.encode(images), subject.rows) for images in adversaries]
    return 100 * float(torch.stack([clean, *hits]).amin(0).mean())


def true_recall(fake: Disguised, bare: list[Tensor], subject: Subject) -> float:
    """R@1 of a fake, in percent, under transfer from the network behind it and under BPDA.

    Args:
        fake: with the disguise that the attacker knows.
        bare: adversaries of the network behind it.
        subject: the fake as the audit sees it.
    """
    known = Known(fake, PASSES if isinstance(subject.model, Expectation) else 1)
    images = subject.images(subject.rows)
    found = []
    for goal, start in (("misrank", "zero"), ("misrank", "uniform"), ("es", "zero")):
        bound = attacks.build(goal).bind(subject.references, subject.rows, subject.generator("oracle", goal))
        budget = Budget(eps=EPS, steps=STEPS, method="apgd", start=start)
        found.append(pgd(known, images, bound, budget, generator=subject.generator("oracle-start", goal, start)).images)
    return recall(subject, [*bare, *found])
