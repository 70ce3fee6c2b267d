"""Figures of the attacked images before the attack."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.audit.figures import Figures
from holdfast.audit.subject import Subject
from holdfast.metrics import EmbeddedSet
from holdfast.metrics.retrieval import Retrieval


def retrieval_figures(
    figures: Figures, keys: tuple[str, ...], subject: Subject, vectors: Tensor, mode: str, prefix: str = ""
) -> None:
    """R@k and mAP figures of the attacked images as some vectors."""
    ks = tuple(int(key.removeprefix("R@")) for key in keys if key.startswith("R@"))
    scores = Retrieval(ks).per_query(searched(subject, vectors, mode))
    for key in keys:
        figures.mean(prefix + key, scores[key].cpu(), scale=100)


def clean_figures(figures: Figures, subject: Subject, keys: tuple[str, ...] = ("R@1",), mode: str = "fixed") -> Tensor:
    """R@1 and others of the clean images, searched as the attacked ones are; returns their vectors."""
    vectors = subject.references.clean(subject.rows)
    retrieval_figures(figures, keys, subject, vectors, mode)
    return vectors


def searched(subject: Subject, vectors: Tensor, mode: str) -> EmbeddedSet:
    """Queries against the clean gallery, or against each other where the whole set is `replaced`."""
    if mode == "replaced":
        return replaced_set(subject, vectors)
    return subject.against_gallery(vectors, subject.rows)


def replaced_set(subject: Subject, vectors: Tensor) -> EmbeddedSet:
    """Queries that search each other: the whole set replaced."""
    groups = None if subject.groups is None else subject.groups[subject.rows]
    return EmbeddedSet.of(vectors, subject.labels[subject.rows], groups=groups)


def stacked(measured: dict[str, Tensor], subject: Subject) -> Tensor:
    """The attacked vectors of a part, on the audit's device."""
    return torch.as_tensor(measured["vectors"]).to(subject.references.device)
