"""Embed a table of images and measure retrieval on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast import console, metrics
from holdfast.data import ImageStore, ImageTable, content_digest, load, parse
from holdfast.data.ragged import RaggedImages
from holdfast.data.store import Cache
from holdfast.devices import choose_device
from holdfast.errors import DataError
from holdfast.metric_info import plain
from holdfast.metrics.evaluation import RECALLS
from holdfast.models import Embedder, as_embedder
from holdfast.models.modes import HasModules, in_eval_mode
from holdfast.processes import current_processes
from holdfast.versions import versions

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Result(metrics.Evaluation):
    """The evaluation of a model on images: metrics and what they were measured on.

    Args:
        split: which part of the data was used.
        images: how many images were embedded.
        skipped: unreadable images left out, with the reason.
        clustering: how many clusters NMI and NMI+ rest on, as `evaluate` was asked.
        view: how the model saw the images, in words.
        content: digest of the images and their classes; equal for a copy of them elsewhere.
    """

    split: str = ""
    images: int = 0
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    clustering: dict[str, int | None] = dataclasses.field(default_factory=dict)
    view: str = ""
    content: str = ""


class ImageModel(HasModules, Protocol):
    """What embedding needs of a model; `Embedder` has it."""

    size: int
    dim: int
    mean: Tensor

    def __call__(self, images: Tensor) -> Tensor:
        """Images in [0, 1] to vectors."""


@torch.no_grad()
def embed(
    model: ImageModel,
    store: ImageStore,
    batch: int = 256,
    precision: str = "float32",
    rows: Tensor | None = None,
    seen: Callable[[RaggedImages], None] | None = None,
) -> Tensor:
    """Embeddings of images of a store on the CPU; the model's mode is put back afterwards.

    Several processes embed a shard each, and all of them get all embeddings.

    Args:
        model: in any mode; it embeds in eval mode.
        store: images at the model's view, on the model's device.
        batch: images per pass.
        precision: `bfloat16` runs the network under autocast.
        rows: which images; all, in table order, when left out.
        seen: told the images of each pass, at their canvas, for what is wanted of them besides.
    """
    processes = current_processes()
    device = model.mean.device
    rows = torch.arange(len(store.table)) if rows is None else rows
    mine = rows[processes.shard(len(rows))]
    vectors = torch.empty(len(mine), model.dim)
    with in_eval_mode(model), console.bar(len(mine), unit="image", what="embedding") as bar:
        for start in range(0, len(mine), batch):
            own, coming = mine[start : start + batch], mine[start + batch : start + 2 * batch]
            if seen is None:
                images = store.inputs(own)
                store.prefetch_inputs(coming)
            else:
                whole = store.get(own)
                store.prefetch(coming)
                seen(whole)
                images = store.shown(whole)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                vectors[start : start + batch] = model(images).float().cpu()
            bar.update(len(images))
    return processes.gather(vectors, ((len(rows), 1),))


def used_once() -> Cache:
    """Where to keep images that are embedded and then done with: with several processes, none reads another's shard."""
    return "none" if current_processes().several else "auto"


def embed_columns(
    model: ImageModel, stores: Sequence[ImageStore], batch: int = 256, precision: str = "float32"
) -> dict[str, Any]:
    """Embeddings and label columns of the queries and, where there is a second store, of the gallery.

    The keys are the names under which `metrics.evaluate` takes them.
    """
    columns: dict[str, Any] = {}
    for store, vectors, prefix in zip(stores, ("embeddings", "gallery"), ("", "gallery_"), strict=False):
        columns[vectors] = embed(model, store, batch, precision)
        labels = {"labels": store.table.labels, "coarse": store.table.coarse, "groups": store.table.groups}
        columns |= {prefix + name: torch.tensor(values) for name, values in labels.items() if values is not None}
    return columns


def embed_splits(model: Embedder, table: ImageTable, device: torch.device) -> dict[str, tuple[Tensor, Tensor]]:
    """Vectors and labels of the images trained on and of those that a paper would report on, by split."""
    embedded = {}
    for split in dict.fromkeys([*(["train"] if table.has("train") else []), choose_split(table, None)]):
        store = ImageStore(table.split(split), model.view, device)
        embedded[split] = embed(model, store), torch.tensor(store.table.labels)
    return embedded


def choose_split(table: ImageTable, split: str | None) -> str:
    """The split to evaluate: as asked, else query/gallery, else test, else validation, else everything there is."""
    if split is None:
        return next((s for s in ("query", "test", "val") if table.has(s)), "all")
    table.split(split)  # refuses one that is not there
    return split


def read_table(data: str | dict[str, Any] | ImageTable, skip_bad: bool) -> tuple[ImageTable, bool]:
    """The table of some data, and whether bad images are left out: asked for here, or by the data's own block.

    Args:
        data: a table, or a data specification.
        skip_bad: leave unreadable images out.
    """
    if isinstance(data, ImageTable):
        return data, skip_bad
    block = parse(data)
    skip_bad = skip_bad or block.get("skip_bad") is True
    table = load({**block, "skip_bad": True} if skip_bad else block)
    if table.skipped_files:
        console.say(f"skipped: {table.skipped_files}")
    return table, skip_bad


def evaluate(
    model: str | Path | nn.Module,
    data: str | dict[str, Any] | ImageTable,
    *,
    split: str | None = None,
    size: int | None = None,
    batch: int = 256,
    device: str | torch.device | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    factor: int = 10,
    clusters: int | None = None,
) -> Result:
    """Retrieval, clustering and geometry of a model on labelled images.

    Args:
        model: an embedder, a module from images in [0, 1] to vectors, or anything `holdfast.models.load_model` takes.
        data: a table, or a data specification such as `glyphs` or `folder:DIR`.
        split: train, val, test, query (against gallery) or all; by default what a paper would report.
        size: input size, for modules that do not know their own.
        batch: images per pass.
        device: where to run; a GPU when there is one.
        skip_bad: leave unreadable images out, and report them, instead of stopping.
        seed: of the clustering and of sampled pairs.
        factor: clusters per class of NMI+; the EPS paper has 30 on Omniglot.
        clusters: number of clusters of NMI; the number of classes when left out. Published tables of HM and ADML have
            the number of training classes.
    """
    table, skip_bad = read_table(data, skip_bad)
    if not table.labelled:
        raise DataError(f"the images of '{table.name}' have no labels to evaluate by; give folder:DIR or csv:FILE")
    place = choose_device(device)
    embedder = as_embedder(model, size).to(place)
    chosen = choose_split(table, split)
    stores = [
        ImageStore(table.split(name), embedder.view, place, used_once(), skip_bad, once=True)
        for name in ((chosen, "gallery") if chosen == "query" else (chosen,))
    ]
    columns = embed_columns(embedder, stores, batch)
    found = metrics.evaluate(**columns, ks=RECALLS, clusters=clusters, factor=factor, seed=seed)
    return Result(
        **vars(found),
        split=chosen,
        images=len(columns["embeddings"]),
        skipped=[image for store in stores for image in store.skipped],
        clustering={"factor": factor, "clusters": clusters},
        view=str(embedder.view),
        content=content_digest([store.table for store in stores]),
    )


def document(result: Result, *, model: str, data: Any, seed: int) -> dict[str, Any]:
    """The content of evaluation.json."""
    return {
        "schema": SCHEMA,
        "data": data,
        "split": result.split,
        "images": result.images,
        "content": result.content,
        "skipped": [{"image": image, "reason": reason} for image, reason in result.skipped],
        "model": model,
        "view": result.view,
        "metrics": result.values,
        "undefined": result.reasons,
        "described": plain(result.described),
        "clustering": result.clustering,
        "seed": seed,
        "versions": versions(),
    }
