"""One attack on a few hundred queries, at several radii, that strips, histograms and the curve share."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from holdfast import attacks, console
from holdfast.attacks import Budget, sweep
from holdfast.audit.examples import as_bytes, rounded
from holdfast.audit.subject import Subject

GOAL = "misrank"
SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Radii as shares of the audit's: 1, 2, 4, 8 and 16/255 for the usual one."""
SHOWN = SHARES.index(1.0)


@dataclasses.dataclass(frozen=True)
class Attacks:
    """What became of `subject.rows`.

    Args:
        eps: the radii, in pixel units.
        clean: 1 where the untouched query finds its class first, NaN where it has nothing to find.
        hits: the same at each radius (radius × query), for the attack as it was found.
        stored: the pictures at the radius of the audit as 8-bit files hold them, uint8.
        vectors: embeddings of those files.
        stored_hits: what those files find.
    """

    eps: tuple[float, ...]
    clean: Tensor
    hits: Tensor
    stored: Tensor
    vectors: Tensor
    stored_hits: Tensor


def attack_queries(subject: Subject, budget: Budget) -> Attacks:
    """Make every query find a wrong image first, at each radius.

    With APGD a larger radius keeps what a smaller one found, so no query recovers as the radius grows.

    Args:
        subject: the model and the queries.
        budget: at the radius of the audit, in pixel units.
    """
    eps = tuple(min(1.0, share * budget.eps) for share in SHARES)
    goal = attacks.build(GOAL).bind(subject.references, subject.rows)
    hits, stored = [], []
    with console.bar(len(subject.rows), unit="image", what="attacking") as bar:
        for first in range(0, len(subject.rows), subject.block):
            block = slice(first, first + subject.block)
            images = subject.images(subject.rows[block])
            found = sweep(
                subject.model,
                images,
                goal.take(block),
                budget,
                eps,
                generator=subject.generator("exhibits", first),
                chunk=subject.chunk,
                precision=subject.precision,
                run=subject.run,
            )
            hits.append(torch.stack([result.measures["hit"] for result in found]))
            stored.append(as_bytes(rounded(images, found[SHOWN].images, budget.eps)))
            bar.update(len(images))
    vectors = torch.cat([subject.encode(files.float() / 255) for files in stored])
    return Attacks(
        eps=eps,
        clean=goal.measure(subject.references.clean(subject.rows))["hit"],
        hits=torch.cat(hits, 1),
        stored=torch.cat(stored),
        vectors=vectors,
        stored_hits=goal.measure(vectors)["hit"],
    )
