"""The test classes while a run goes on: what papers plot over epochs, and what they take the best of."""

from __future__ import annotations

from typing import Any

import torch

from holdfast import metrics
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import RecipeError
from holdfast.evaluation import embed
from holdfast.training.session import Session

RECALLS = (1, 2, 4, 8)
CLUSTERED = 2**22
"""Images times classes up to which k-means adds little to embedding the images; NMI is left out beyond."""


class OnTest:
    """Retrieval and clustering on the test classes, epoch by epoch; written down, never used to choose a model.

    Args:
        session: the run's; its table must have a test split, or queries and a gallery.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.table
        split = next((name for name in ("query", "test") if table.has(name)), None)
        if split is None:
            raise RecipeError(f"test_curve: {table.name} has no test classes; leave it at false, or give them in data")
        self._store = self._read(table.split(split))
        self._gallery = self._read(table.split("gallery")) if split == "query" else None

    def _read(self, table: ImageTable) -> ImageStore:
        session = self._session
        return ImageStore(table, session.model.view, session.device, session.recipe.cache, session.skip_bad)

    def measure(self) -> dict[str, float | None]:
        """R@1, R@2, R@4, R@8 and, where it is cheap, NMI of the model as it is now."""
        session, model = self._session, self._session.evaluated_model
        arguments: dict[str, Any] = {}
        stores = {"": self._store} if self._gallery is None else {"": self._store, "gallery_": self._gallery}
        for prefix, store in stores.items():
            vectors = embed(model, store, precision=session.precision, processes=session.processes)
            arguments["gallery" if prefix else "embeddings"] = vectors.to(session.device)
            arguments[f"{prefix}labels"] = torch.tensor(store.table.labels)
            if store.table.groups is not None:
                arguments[f"{prefix}groups"] = torch.tensor(store.table.groups)
        values = metrics.retrieval(**arguments, ks=RECALLS, averages=False, processes=session.processes)
        found = {key: None if value is None else float(value) for key, value in values.items()}
        vectors, labels = metrics.EmbeddedSet.of(**arguments).everything()
        classes = len(torch.unique(labels))
        if session.processes.main and classes > 1 and classes * len(vectors) <= CLUSTERED:
            found["NMI"] = 100 * metrics.nmi(labels, metrics.kmeans(vectors, classes, seed=session.recipe.seed))
        return found
