"""The embedding map: images laid out in the plane so that near vectors lie near each other."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast import seeds
from holdfast.audit.sampling import few_classes
from holdfast.exhibits.scene import Scene

IMAGES, CLASSES = 400, 40
FEWEST = 30
"""Below this many images t-SNE has no neighbourhoods to keep."""


def projection(scene: Scene) -> dict[str, Any]:
    """At most 400 images, the same number of each of at most 40 classes where there are so many, drawn by seed."""
    subject = scene.subject
    classes = min(CLASSES, len(torch.unique(subject.labels)))
    rows = few_classes(subject.labels, classes, IMAGES // classes, scene.seed)
    vectors = subject.references.clean(rows.to(subject.references.device)).double().cpu()
    tsne = len(rows) >= FEWEST and find_spec("sklearn") is not None
    points = _tsne(vectors, scene.seed) if tsne else principal(vectors)
    own, labels = torch.unique(subject.labels.cpu()[rows], return_inverse=True)
    return {
        "method": "t-SNE" if tsne else "PCA",
        "points": [[round(x, 4), round(y, 4)] for x, y in framed(points).tolist()],
        "labels": labels.tolist(),
        "names": [scene.name_of(label) for label in own],
        "sprite": scene.pictures.sprite(scene.store, rows),
    }


def principal(vectors: Tensor) -> Tensor:
    """The two directions in which the vectors differ most; a sign is chosen so that it never flips between machines."""
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
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    start = principal(vectors)
    start = 1e-4 * start / start[:, 0].std().clamp_min(1e-12)
    state = seeds.derive(seed, "map") % 2**32
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    with threadpool_limits(1):
        found = TSNE(init=start.numpy().astype(np.float32), perplexity=perplexity, random_state=state).fit_transform(
            vectors.numpy()
        )
    return torch.from_numpy(found).double()
