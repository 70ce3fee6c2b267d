"""Verification thresholds of a model on labelled images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.console import Console
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import DataError
from holdfast.evaluation import choose_split, embed, read_table
from holdfast.models import Embedder
from holdfast.search.verification import choose_rows, document, pair_up, thresholds
from holdfast.versions import versions

SCHEMA = 1
USUAL_RATES = (1e-3, 1e-4)


def calibrate(
    model: Embedder,
    data: str | dict[str, Any] | ImageTable,
    fars: Sequence[float] | None = None,
    *,
    split: str | None = None,
    batch: int = 256,
    seed: int = 0,
    skip_bad: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:
    """Thresholds for rates of false acceptance, with the curve they lie on, as plain data.

    Args:
        model: in eval mode, on its device.
        data: labelled images.
        fars: the rates; when left out, one in a thousand and in ten thousand, where the pairs can tell.
        split: which images; by default those a paper would report on.
        batch: images per pass.
        seed: of the choice of images, where there are too many to pair, and of the bootstrap.
        skip_bad: leave unreadable images out.
        console: shows progress if given.
    """
    table, skip_bad = read_table(data, skip_bad, console)
    if not table.labelled:
        raise DataError(f"the images of '{table.name}' have no labels to pair by; give folder:DIR or csv:FILE")
    chosen = choose_split(table, split)
    table = table if chosen == "all" else table.split(chosen)
    store = ImageStore(table.subset(choose_rows(len(table), seed)), model.view, model.mean.device, skip_bad=skip_bad)
    vectors = embed(model, store, batch, console)
    groups = store.table.groups
    pairs = pair_up(vectors, torch.tensor(store.table.labels), None if groups is None else torch.tensor(groups))
    if fars is None:
        fars = [far for far in USUAL_RATES if far >= pairs.smallest_far] or [pairs.smallest_far]
    return {
        "schema": SCHEMA,
        "split": chosen,
        "images": len(vectors),
        "classes": len(pairs.sizes),
        **document(pairs, thresholds(pairs, fars, seed)),
        "skipped": [{"image": image, "reason": reason} for image, reason in store.skipped],
        "seed": seed,
        "versions": versions(),
    }
