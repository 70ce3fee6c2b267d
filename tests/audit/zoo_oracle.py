"""What is left of a fake when its disguise is known: attacks on the network behind it, and BPDA written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn
from zoo_disguises import Disguised

from holdfast import attacks
from holdfast.attacks import Budget, pgd
from holdfast.attacks.frozen import frozen
from holdfast.audit.flags import Flag
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.audit.subject import Expectation, Subject
from holdfast.data import ImageTable
from holdfast.models import Embedder, as_embedder

EPS = 8 / 255
STEPS = 40
GOALS: tuple[tuple[str, Literal["zero", "uniform"]], ...] = (("misrank", "zero"), ("gtm", "zero"), ("es", "uniform"))
SIZE = 32
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


def seen(model: nn.Module, table: ImageTable, limit: int, size: int = SIZE) -> tuple[Subject, list[Flag]]:
    """A model as the audit sees it, with the images that the audit attacks, and the flags of the first checks."""
    embedder = as_embedder(model, None if isinstance(model, Embedder) else size)
    with frozen(embedder):
        subject, _, flags = make_subject(embedder, Selection(table, "test", limit), Execution())
    return subject, flags


def adversaries(model: nn.Module, subject: Subject) -> Iterator[Tensor]:
    """Strong attacks on the images of a subject, by the gradient of a model of the same vectors."""
    images = subject.images(subject.rows)
    for goal, start in GOALS:
        bound = attacks.build(goal).bind(subject.references, subject.rows, subject.generator("oracle", goal))
        budget = Budget(eps=EPS, steps=STEPS, method="apgd", start=start)
        generator = subject.generator("oracle-start", goal, start)
        yield pgd(model, images, bound, budget, generator=generator).images


def recall(subject: Subject, attacked: Iterable[Tensor] = ()) -> float:
    """R@1 in percent of queries that hold without an attack and against each of some, as far as any holds."""
    references, rows = subject.references, subject.rows
    hits = references.hits(references.clean(rows), rows)
    for images in attacked:
        hits = torch.minimum(hits, references.hits(subject.encode(images), rows))
        if not bool((hits > 0).any()):
            break
    return 100 * float(hits.mean())


def true_recall(fake: Disguised, bare: Iterable[Tensor], subject: Subject) -> float:
    """R@1 of a fake, in percent, under transfer from the network behind it and under BPDA.

    Args:
        fake: with the disguise that the attacker knows.
        bare: adversaries of the network behind it.
        subject: the fake as the audit sees it.
    """
    known = Known(fake, PASSES if isinstance(subject.model, Expectation) else 1)
    return recall(subject, chain(bare, adversaries(known, subject)))
