"""The model that sections collect from: its images embedded once, and its queries attacked once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from holdfast import attacks
from holdfast.attacks import Budget, sweep
from holdfast.audit.ers import usual_eps
from holdfast.audit.examples import as_bytes, rounded
from holdfast.audit.plan import Progress
from holdfast.audit.preparation import Execution, Selection, make_subject, speed_up
from holdfast.audit.subject import Subject
from holdfast.data import ImageStore
from holdfast.evaluation import choose_split, read_table
from holdfast.models import Embedder
from holdfast.report.context import GOAL, NO_POSITIVE, Absent, CollectContext
from holdfast.report.images import ImageFiles
from holdfast.report.origin import Origin
from holdfast.sphere import Mask

FRACTIONS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Each eps as a fraction of the audit's: 1, 2, 4, 8 and 16/255 for the usual one."""
SHOWN = FRACTIONS.index(1.0)
ONE_CLASS = "all images are of one class, so there is nothing to tell apart"
BROKEN = "embeddings contain NaN or inf"


@dataclasses.dataclass(frozen=True)
class AttackedQueries:
    """What became of `subject.rows`.

    Args:
        eps: each that was tried, in pixel units.
        clean: 1 where the untouched query finds its class first, NaN where it has no positive in the gallery.
        hits: the same at each eps (eps × query), for the attack as it was found.
        stored: the adversarial images at the eps of the audit as 8-bit files hold them, uint8.
        vectors: embeddings of those files.
        stored_hits: what those files find.
    """

    eps: tuple[float, ...]
    clean: Tensor
    hits: Tensor
    stored: Tensor
    vectors: Tensor
    stored_hits: Tensor


@dataclasses.dataclass(frozen=True)
class Searches:
    """What every query finds first, before any attack; queries without a positive in the gallery are left out.

    Args:
        rows: the queries.
        labels: their classes.
        found: the gallery image that is nearest to each.
        right: whether that is of its class.
    """

    rows: Tensor
    labels: Tensor
    found: Tensor
    right: Mask


def search_all(subject: Subject) -> Searches:
    """Let every query search the gallery, its own copy and camera left out."""
    references, rows = subject.references, torch.arange(len(subject.labels), device=subject.labels.device)
    hits = references.hits(references.clean(rows), rows)
    rows = rows[~hits.isnan()]
    if not len(rows):
        raise Absent(NO_POSITIVE)
    found = references.nearest(references.clean(rows), rows, 1)[:, 0]
    return Searches(rows, subject.labels[rows], found, hits[rows] > 0)


def open_model(origin: Origin, embedder: Embedder, folder: Path | None, seed: int, limit: int) -> CollectContext:
    """Embed the evaluation split and prepare the attack.

    Args:
        origin: which images, and the budget of their audit.
        embedder: frozen, on its device.
        folder: of the image files, if any.
        seed: of every choice.
        limit: how many queries to attack at most; a class-balanced, seeded subset.
    """
    table, skip_bad = read_table(origin.data, origin.skip_bad)
    selection = Selection(table, choose_split(table, origin.split), limit, seed, skip_bad)
    budget = Budget(eps=origin.eps or usual_eps(embedder.size), steps=origin.steps, method="apgd")
    audited: Subject | str = ONE_CLASS
    if len(np.unique(selection.queries.labels)) > 1:
        execution = Execution()
        made, _, _ = make_subject(embedder, selection, execution)
        references = made.references
        vectors = [references.vectors, *([] if references.queries is None else [references.queries])]
        finite = all(bool(each.isfinite().all()) for each in vectors)
        audited, store = speed_up(made, budget, execution) if finite else BROKEN, made.store
    else:
        store = ImageStore(selection.queries, embedder.view, embedder.mean.device, skip_bad=skip_bad)
    images = ImageFiles(folder)
    return CollectContext(table, selection.split, store, embedder, images, seed, budget, audited)


def attack_queries(subject: Subject, budget: Budget) -> AttackedQueries:
    """Make every query find a wrong image first, at each eps.

    With APGD a larger eps keeps what a smaller one found, so no query recovers as eps grows.

    Args:
        subject: the model and the queries.
        budget: at the eps of the audit, in pixel units.
    """
    eps = tuple(min(1.0, fraction * budget.eps) for fraction in FRACTIONS)
    goal = attacks.build(GOAL).bind(subject.references, subject.rows)
    hits, stored = [], []
    each = subject.passes(budget) * len(eps)
    with Progress(each * len(subject.rows)) as progress:
        for first in range(0, len(subject.rows), subject.block):
            block = slice(first, first + subject.block)
            images = subject.images(subject.rows[block])
            with progress.doing("attacking queries for the page", each * len(images)):
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
    vectors = torch.cat([subject.encode(files.float() / 255) for files in stored])
    return AttackedQueries(
        eps=eps,
        clean=goal.measure(subject.references.clean(subject.rows))["hit"],
        hits=torch.cat(hits, 1),
        stored=torch.cat(stored),
        vectors=vectors,
        stored_hits=goal.measure(vectors)["hit"],
    )
