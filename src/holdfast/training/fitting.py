"""A head fitted in closed form before the first step: how features are pooled, and which directions count less.

Directions in which images of one class differ say little about any class, also of one never seen: they are shrunk, the
more the wider they are,

    z = x (I + V diag(√(c / (e + c)) - 1) Vᵀ),

where V and e are the principal directions of deviations from class means and their variances, in units of the mean
variance; c = ∞ leaves x as it is. c and the power of generalised-mean pooling are those that do best on classes that
were held out of the fit, each in turn, and each on average over the values of the other, which halves the role of
chance. Where that does not beat the features as they came, these stay.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import console, metrics, seeds
from holdfast.data import ImageStore
from holdfast.errors import RecipeError
from holdfast.evaluation import embed
from holdfast.models import Embedder
from holdfast.models.backbones import GeM, gem_of
from holdfast.training.optimizers import Average
from holdfast.training.session import Session

POWERS = (1.0, 1.5, 2.0, 3.0)
FLOORS = (math.inf, 100.0, 30.0, 10.0)
"""Values of c: from none of the shrinking to much."""
FOLDS = 3
"""Few, so that held-out classes are many enough to be told apart from each other."""
NEGLIGIBLE = 1e-7
"""Variance of a direction, as a fraction of the largest, that is rounding."""


class PooledFeatures(nn.Module):
    """Images to a backbone's features, pooled with each of the powers in one pass.

    Args:
        model: the embedder.
    """

    def __init__(self, model: Embedder) -> None:
        super().__init__()
        self.model = model
        self.gem = gem_of(model.backbone)
        self.powers = POWERS if self.gem else POWERS[:1]
        self.size, self.dim, self.mean = model.size, model.feature_dim * len(self.powers), model.mean
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """Features of all powers, one after another."""
        if self.gem is None:
            return self.model.features(images)
        maps: list[Tensor] = []
        handle = self.gem.register_forward_pre_hook(lambda _, inputs: maps.append(inputs[0]))
        try:
            self.model.features(images)
        finally:
            handle.remove()
        return torch.cat([GeM.pool(maps[0], power).flatten(1) for power in self.powers], dim=1)


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Principal directions of what differs within classes.

    Args:
        directions: columns of unit length, (features, k).
        variances: of each, in units of the mean variance of all features.
    """

    directions: Tensor
    variances: Tensor

    @staticmethod
    def of(features: Tensor, labels: Tensor) -> Whitening:
        """From the deviations of features (n, F) from the means of their classes."""
        _, classes = torch.unique(labels, return_inverse=True)
        sums = features.new_zeros(int(classes.max()) + 1, features.shape[1]).index_add_(0, classes, features)
        apart = features - (sums / torch.bincount(classes)[:, None])[classes]
        few = apart.shape[0] < apart.shape[1]
        values, vectors = torch.linalg.eigh((apart @ apart.T if few else apart.T @ apart) / len(apart))
        real = values > NEGLIGIBLE * values[-1]
        values, vectors = values[real], vectors[:, real]
        directions = apart.T @ vectors / (len(apart) * values).sqrt() if few else vectors
        return Whitening(directions, values * apart.shape[1] / values.sum())

    def __call__(self, features: Tensor, floor: float) -> Tensor:
        """Features with their directions shrunk."""
        if math.isinf(floor):
            return features
        factors = (floor / (self.variances + floor)).sqrt() - 1
        return features + ((features @ self.directions) * factors) @ self.directions.T


def fit_head(session: Session) -> dict[str, Any]:
    """Fit the head, and the power of the pooling, to the training images; what was chosen, and why in words.

    The model's other weights stay. Figures are mAP@R in percent among images of classes that were held out of the
    fit: it looks at all neighbours that matter, so that fewer images tell more than by R@1.
    """
    model, labels = session.model, session.labels.cpu()
    dim = session.recipe.model.dim or model.feature_dim
    if dim > model.feature_dim:
        raise RecipeError(f"model.dim ({dim}) is more than the backbone's features ({model.feature_dim}); lower it")
    seen = PooledFeatures(model)
    console.say(f"computing the features of {len(labels):,} training images once, to fit a head to")
    store = session.store
    if store.view != model.view:  # crops of training are cut from larger images
        store = ImageStore(store.table, model.view, session.device, session.recipe.cache)
    kept = embed(seen, store).double().chunk(len(seen.powers), dim=1)
    features = dict(zip(seen.powers, kept, strict=True))
    scores = cross_validated(features, labels, session.recipe.seed, model.normalize)
    start = (seen.powers[0], FLOORS[0])
    power, floor = choose(scores) if scores else start
    whitening = Whitening.of(features[power], labels)
    weight = whitening(torch.eye(model.feature_dim, dtype=torch.float64), floor)
    if dim < model.feature_dim:
        weight = widest(features[power] @ weight, dim).T @ weight
    model.set_head(weight.float())
    if seen.gem is not None:
        with torch.no_grad():
            seen.gem.power.fill_(power)
    _take_into_training(session)
    why = "a head fitted to too few classes to hold any out; nothing is changed"
    if scores:
        before, after = scores[start], scores[power, floor]
        gain = f"mAP@R {before:.1f} → {after:.1f}" if after > before else f"mAP@R {before:.1f}, which nothing beat"
        told = f"pooling power {power:g}, " + ("no shrinking" if math.isinf(floor) else f"shrinkage {floor:g}")
        why = f"a head fitted in closed form ({told}), best on training classes held out in turn: {gain}"
    console.say(why)
    return {"power": power, "floor": None if math.isinf(floor) else floor, "why": why}


def choose(scores: dict[tuple[float, float], float]) -> tuple[float, float]:
    """The power and the floor that are best on average over the other, if they beat the first of all; else that."""
    start = next(iter(scores))
    powers, floors = (list(dict.fromkeys(values)) for values in zip(*scores, strict=True))
    power = max(powers, key=lambda p: sum(scores[p, f] for f in floors))
    floor = max(floors, key=lambda f: sum(scores[p, f] for p in powers))
    return (power, floor) if scores[power, floor] > scores[start] else start


def widest(features: Tensor, dim: int) -> Tensor:
    """The directions, as columns, onto which a projection keeps most of the similarities of features."""
    _, vectors = torch.linalg.eigh(features.T @ features)
    return vectors[:, -dim:]  # type: ignore[no-any-return]


def _take_into_training(session: Session) -> None:
    """Let optimiser and running average know the new head."""
    session.model.train()
    session.optimizer = session.recipe.optimizer.build().build(session.model, session.criterion)
    if session.recipe.ema is not None:
        session.average = Average(session.model, session.recipe.ema)


def cross_validated(
    features: dict[float, Tensor], labels: Tensor, seed: int, normalize: bool = True
) -> dict[tuple[float, float], float]:
    """Mean mAP@R on held-out classes of each power and floor, simplest first; empty where classes are too few.

    Args:
        features: of the images, by the power they were pooled with.
        labels: their classes.
        seed: of the choice of folds.
        normalize: whether embeddings are scaled to unit length.
    """
    classes = torch.unique(labels)
    folds = min(FOLDS, len(classes) // 2)
    if folds < 2:
        return {}
    shuffled = classes[torch.randperm(len(classes), generator=seeds.generator(seed, "folds"))]
    scores = {(power, floor): 0.0 for floor in FLOORS for power in features}
    for fold in range(folds):
        out = torch.isin(labels, shuffled[fold::folds])
        for power, column in features.items():
            whitening = Whitening.of(column[~out], labels[~out])
            for floor in FLOORS:
                z = whitening(column[out], floor)
                found = metrics.retrieval(F.normalize(z) if normalize else z, labels[out])["mAP@R"]
                scores[power, floor] += float(found or 0.0) * float(out.sum()) / len(labels)
    return scores
