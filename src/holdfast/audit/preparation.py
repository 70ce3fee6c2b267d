"""From a model and a table to a subject: clean embeddings, first checks, the images to attack."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

from holdfast import seeds
from holdfast.attacks import References
from holdfast.audit import flags as checks
from holdfast.audit.flags import Flag
from holdfast.audit.sampling import balanced_rows, few_classes
from holdfast.audit.subject import Expectation, Subject
from holdfast.console import Console
from holdfast.data import ImageStore, ImageTable, centre_crop
from holdfast.errors import DataError
from holdfast.evaluation import embed
from holdfast.models import Embedder, as_embedder, load_model

PROBED = (24, 4)
"""Classes, and images of each, that the first checks look at."""
APART = 16
"""Of these, how many are also embedded two by two."""


def borrow_model(
    model: str | nn.Module, size: int | None, trust_code: bool, device: torch.device
) -> tuple[Embedder, list[Flag]]:
    """A model as an embedder on its device, and what was odd about the way it came."""
    if isinstance(model, str):
        model = load_model(model, size, trust_code)
    raised = checks.training_mode(model)
    embedder = as_embedder(model, size)
    if not embedder.differentiable:
        raised.append(checks.no_gradients())
    return embedder.to(device), raised


def make_subject(
    embedder: Embedder,
    table: ImageTable,
    split: str,
    limit: int | None,
    seed: int,
    batch: int,
    skip_bad: bool,
    console: Console,
) -> tuple[Subject, list[tuple[str, str]], list[Flag]]:
    """The subject of an audit, unreadable images that were left out, and flags of the first checks.

    Args:
        embedder: in eval mode (`frozen`), on its device.
        table: the images.
        split: which of them; `query` is searched in `gallery`, anything else in itself.
        limit: how many images to attack at most.
        seed: of everything random.
        batch: images per pass.
        skip_bad: leave unreadable images out.
        console: shows progress.
    """
    device = embedder.mean.device
    store = ImageStore(table if split == "all" else table.split(split), embedder.canvas, device, skip_bad=skip_bad)
    labels = torch.tensor(store.table.labels, device=device)
    if len(torch.unique(labels)) < 2:
        raise DataError(f"{table.name} ({split}) holds one class; an attack needs another class to aim at")
    model, raised = _first_checks(embedder, store, labels, seed)
    torch.manual_seed(seeds.derive(seed, "clean"))
    vectors = embed(model, store, batch, console=console).to(device)
    skipped = list(store.skipped)
    groups = gallery_groups = _groups(store.table, device)
    tables = [store.table]
    if split == "query":
        others = ImageStore(table.split("gallery"), embedder.canvas, device, skip_bad=skip_bad)
        tables.append(others.table)
        skipped += others.skipped
        gallery_groups = _groups(others.table, device)
        references = References(
            embed(model, others, batch, console=console).to(device),
            torch.tensor(others.table.labels, device=device),
            queries=vectors,
            query_labels=labels,
            groups=gallery_groups,
            query_groups=groups,
        )
    else:
        references = References(vectors, labels, groups=groups)
    subject = Subject(
        model=model,
        store=store,
        size=embedder.size,
        std=embedder.std,
        labels=labels,
        references=references,
        rows=balanced_rows(labels, limit, seed).to(device),
        seed=seed,
        differentiable=embedder.differentiable,
        groups=groups,
        gallery_groups=gallery_groups,
        chunk=batch,
        digest=_digest(tables),
    )
    return subject, skipped, raised


def _groups(table: ImageTable, device: torch.device) -> torch.Tensor | None:
    return None if table.groups is None else torch.tensor(table.groups, device=device)


def _digest(tables: list[ImageTable]) -> str:
    """Which images with which labels and groups."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update("\n".join(table.ids).encode())
        digest.update(table.labels.tobytes())
        digest.update(b"" if table.groups is None else table.groups.tobytes())
    return digest.hexdigest()


def _first_checks(
    embedder: Embedder, store: ImageStore, labels: torch.Tensor, seed: int
) -> tuple[Embedder | Expectation, list[Flag]]:
    """The model to attack (averaged, if it turns out to be random) and its flags."""
    probe = few_classes(labels, *PROBED, seed)
    images = centre_crop(store.get(probe), embedder.size)
    torch.manual_seed(seeds.derive(seed, "checks"))
    random = checks.randomised(embedder, images)
    model = Expectation(embedder) if random else embedder
    raised = [
        *random,
        *checks.non_unit(embedder, images),
        *checks.inputs(model, images, labels[probe.to(labels.device)]),
    ]
    if not random:
        raised += checks.batch_dependent(embedder, images[:APART])
    return model, raised
