"""The embedding map: images laid out in the plane so that near vectors lie near each other, one dot each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import KINDS
from holdfast.report.context import CollectContext, PageContext, Section

if TYPE_CHECKING:
    from torch import Tensor

IMAGES, CLASSES = 400, 40
FEWEST = 30
"""Below this many images t-SNE has no neighbourhoods to keep."""
FRAME, LEAST_HEIGHT = 45, 400
"""Margin around the dots and least height between them, in units of a map of 1000."""


def collect(context: CollectContext) -> dict[str, Any]:
    """At most 400 images, the same number of each of at most 40 classes where there are so many, drawn by seed."""
    from importlib.util import find_spec

    import torch

    from holdfast.audit.sampling import few_classes

    subject = context.subject
    classes = min(CLASSES, len(torch.unique(subject.labels)))
    rows = few_classes(subject.labels, classes, IMAGES // classes, context.seed)
    vectors = subject.references.clean(rows.to(subject.references.device)).double().cpu()
    tsne = len(rows) >= FEWEST and find_spec("sklearn") is not None
    points = _tsne(vectors, context.seed) if tsne else principal(vectors)
    own, labels = torch.unique(subject.labels.cpu()[rows], return_inverse=True)
    return {
        "method": "t-SNE" if tsne else "PCA",
        "points": [[round(x, 4), round(y, 4)] for x, y in framed(points).tolist()],
        "labels": labels.tolist(),
        "names": [context.name_of(label) for label in own],
        "sprite": context.images.sprite(context.store, rows),
    }


def principal(vectors: Tensor) -> Tensor:
    """The two directions in which the vectors differ most; a sign is chosen so that it never flips between machines."""
    import torch

    centred = vectors - vectors.mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    points = torch.zeros(len(vectors), 2, dtype=vectors.dtype)
    for place, axis in enumerate(axes[:2]):
        points[:, place] = centred @ (axis * axis[axis.abs().argmax()].sign())
    return points


def framed(points: Tensor) -> Tensor:
    """Points moved into the unit square without being stretched; in its middle where they coincide."""
    low, high = points.amin(0), points.amax(0)
    span = (high - low).max().clamp_min(1e-12)
    return (0.5 + (points - (low + high) / 2) / span).clamp(0, 1)


def _tsne(vectors: Tensor, seed: int) -> Tensor:
    """t-SNE from the principal plane; on one thread, because sums over several differ from run to run."""
    import numpy as np
    import torch
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    from holdfast import seeds

    start = principal(vectors)
    start = 1e-4 * start / start[:, 0].std().clamp_min(1e-12)
    state = seeds.derive(seed, "map") % 2**32
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    with threadpool_limits(1):
        found = TSNE(init=start.numpy().astype(np.float32), perplexity=perplexity, random_state=state).fit_transform(
            vectors.numpy()
        )
    return torch.from_numpy(found).double()


def show(context: PageContext) -> dict[str, Any]:
    """Dots with what the page's script needs to show a thumbnail and to highlight a class."""
    stored = context.exhibit("map")
    places = [(float(x), float(y)) for x, y in stored["points"]]
    labels = [int(label) for label in stored["labels"]]
    names = [str(name) for name in stored["names"]]
    if len(places) != len(labels) or not places or not 0 <= min(labels) <= max(labels) < len(names):
        raise ValueError("points and labels do not belong together")
    spots, height = fitted(places)
    beside = fmt.percent(neighbour_percent(places, labels))
    sprite = stored.get("sprite")
    source = context.images.source(sprite.get("file")) if isinstance(sprite, dict) else None
    tiles = {"source": source, "tile": int(sprite["tile"]), "columns": int(sprite["columns"])} if source else None
    return {
        "title": f"On the map, {beside} of {len(places):,} images lie next to one of their own class",
        "dots": [(f"s{1 + label % KINDS}", x, y) for (x, y), label in zip(spots, labels, strict=True)],
        "height": height,
        "method": str(stored.get("method", "")),
        "names": sorted({(names[label], label) for label in labels}, key=lambda pair: pair[0].casefold()),
        "data": {"labels": labels, "names": names, "sprite": tiles},
    }


def neighbour_percent(places: list[tuple[float, float]], labels: list[int]) -> float:
    """How many dots have one of their own class as nearest dot, in percent."""
    hits = 0
    for n, (x, y) in enumerate(places):
        others = ((a - x) ** 2 + (b - y) ** 2 if m != n else float("inf") for m, (a, b) in enumerate(places))
        nearest = min(zip(others, labels, strict=True), default=(0.0, -1))
        hits += nearest[1] == labels[n] and len(places) > 1
    return 100 * hits / len(places)


def fitted(places: list[tuple[float, float]]) -> tuple[list[tuple[float, float]], float]:
    """The places on a map of a thousand units' width without empty margins, y downwards, and the map's height."""
    left, low = min(x for x, _ in places), min(y for _, y in places)
    width, height = max(x for x, _ in places) - left, max(y for _, y in places) - low
    scale = (1000 - 2 * FRAME) / max(width, height, 1e-9)
    aside, above = (1000 - 2 * FRAME - width * scale) / 2, max(0.0, (LEAST_HEIGHT - height * scale) / 2)
    spots = [(FRAME + aside + (x - left) * scale, FRAME + above + (low + height - y) * scale) for x, y in places]
    return spots, 2 * (FRAME + above) + height * scale


SECTION = Section("map", "Map", show, {"map": collect}, of_images=True)
