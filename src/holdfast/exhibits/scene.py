"""What every exhibit looks at: a model, its images, their embeddings and one attack, each made once."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.attacks import Budget
from holdfast.audit.ers import usual_eps
from holdfast.audit.preparation import GPU_BLOCK, make_subject, speed_up
from holdfast.audit.subject import Subject
from holdfast.data import ImageStore, ImageTable
from holdfast.evaluation import choose_split, read_table
from holdfast.exhibits.attacked import Attacks, attack_queries
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.origin import Origin
from holdfast.exhibits.pictures import Pictures
from holdfast.models import Embedder

ONE_CLASS = "all images are of one class, so there is nothing to tell apart"
BROKEN = "the model's vectors hold NaN or infinite numbers; train it again"
NO_GRADIENTS = "this model gives no gradients, and the pictures of attacks need them"


@dataclasses.dataclass(frozen=True)
class Scene:
    """What is shown.

    Args:
        table: all images, of every split.
        split: the part that is embedded.
        store: its images; with a gallery, the queries.
        embedder: the model, frozen.
        pictures: writes them, or not.
        seed: of every choice.
        budget: of the attack.
        audited: the subject of the attacks, or why there is none.
    """

    table: ImageTable
    split: str
    store: ImageStore
    embedder: Embedder
    pictures: Pictures
    seed: int
    budget: Budget
    audited: Subject | str

    @property
    def subject(self) -> Subject:
        """Embeddings and gallery; `Missing` where nothing can be searched."""
        if isinstance(self.audited, str):
            raise Missing(self.audited)
        return self.audited

    @property
    def searched(self) -> ImageStore:
        """The images of the gallery."""
        return self.subject.gallery or self.subject.store

    @functools.cached_property
    def attacked(self) -> Attacks:
        """The attacked queries; `Missing` where the model gives no gradients."""
        if not self.subject.differentiable:
            raise Missing(NO_GRADIENTS)
        return attack_queries(self.subject, self.budget)

    def name_of(self, label: int | Tensor) -> str:
        """The name of a class."""
        return self.table.class_names[int(label)]


def open_scene(origin: Origin, embedder: Embedder, folder: Path | None, seed: int, limit: int) -> Scene:
    """Embed the evaluation split and prepare the attack.

    Args:
        origin: which images, and the budget of their audit.
        embedder: frozen, on its device.
        folder: of the pictures, if any.
        seed: of every choice.
        limit: how many queries to attack at most; a class-balanced, seeded subset.
    """
    table, skip_bad = read_table(origin.data, origin.skip_bad)
    split = choose_split(table, origin.split)
    device = embedder.mean.device
    budget = Budget(eps=origin.eps or usual_eps(embedder.size), steps=origin.steps, method="apgd")
    part = table if split == "all" else table.split(split)
    audited: Subject | str = ONE_CLASS
    if len(np.unique(part.labels)) > 1:
        batch = GPU_BLOCK if device.type == "cuda" else 256
        made, _, _ = make_subject(embedder, table, split, limit, seed, batch, skip_bad)
        audited = speed_up(made, budget, "auto", "auto") if _finite(made) else BROKEN
        store = made.store
    else:
        store = ImageStore(part, embedder.view, device, skip_bad=skip_bad)
    pictures = Pictures(folder, embedder.size)
    return Scene(table, split, store, embedder, pictures, seed, budget, audited)


def _finite(subject: Subject) -> bool:
    references = subject.references
    sides = [references.vectors] if references.queries is None else [references.vectors, references.queries]
    return all(bool(vectors.isfinite().all()) for vectors in sides)
