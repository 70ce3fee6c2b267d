"""S2SD: an embedding that learns from wider embeddings of the same features."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from holdfast.config import Block, block
from holdfast.errors import ModelError, RecipeError
from holdfast.losses.base import Encoded, Loss, register
from holdfast.losses.unreduced import require_positive
from holdfast.mining import IndicesTuple
from holdfast.sphere import precise, similarity

MULTI_SIMILARITY = Block(Loss, {"name": "multi-similarity", "miner": "multi-similarity"})


@register("s2sd")
class S2SD(Loss):
    """Another loss, whose embedding also learns the similarities that wider heads and the features themselves see.

    L = ½ (L(z) + mean_h L_h(z_h)) + w mean_h KL(S_h, S) + w_f KL(S_f, S), the last term from step t_f on
    KL(A, B) = T² mean_i Σ_j p_ij log(p_ij / q_ij), p = softmax of the rows of A / T, q = softmax of the rows of B / T

    S, S_h and S_f are the batch's n × n cosines of the embeddings, of a head's output and of the pooled features, each
    image with itself included. A head is Linear, ReLU, Linear on the pooled features. Gradients reach the pooled
    features through z and every z_h, but never through the targets S_h and S_f. Heads are part of the loss: trained,
    saved and resumed with it, and absent from the model.

    Halves, means, two-layer heads and the diagonal are those of the published code, whose runs on CUB and CARS add
    max-pooled features to the average-pooled ones. Steps are training's, however many distributions a step has.

    Args:
        loss: the loss of the embedding and, in a copy of its own, of every head.
        dims: widths of the heads.
        temperature: T.
        weight: w.
        feature_weight: w_f.
        feature_after: t_f, in steps.
        pooling: what heads and features are: the embedder's pooled features (`average`), or with max-pooled ones added
            to them, from which the embedding itself does not learn (`average-max`; timm backbones).
        classes: number of training classes, for the inner losses.
        dim: length of the embeddings, for the inner loss.
        features: length of the pooled features; training fills it in. Without it there are no heads, and only the
            inner loss can be asked for.

    Requirements: those of the inner loss. Given tuples, heads learn on the same. Called on embeddings alone, as any
        loss can be, it is the inner loss. Heads learn at `optimizer.loss_lr` where a recipe has one.
    Relations: any loss can be nested in it, `trimmed` too; `trimmed` cannot be around it.
    Reference: Roth et al., ICML 2021.
    """

    exact = False

    def __init__(
        self,
        loss: Block[Loss] | str = MULTI_SIMILARITY,
        dims: tuple[int, ...] = (512, 1024, 1536, 2048),
        temperature: float = 1.0,
        weight: float = 50.0,
        feature_weight: float = 50.0,
        feature_after: int = 1000,
        pooling: Literal["average", "average-max"] = "average",
        classes: int | None = None,
        dim: int | None = None,
        features: int | None = None,
    ) -> None:
        loss = block(Loss, loss) if isinstance(loss, str) else loss
        _check(loss, dims, weight, feature_weight, feature_after)
        require_positive(temperature=temperature)
        inner = loss.build(classes=classes, dim=dim)
        super().__init__(inner.miner)
        self.loss = inner
        self.dims, self.pooling = dims, pooling
        self.classes, self.dim, self.features = classes, dim, features
        self.temperature = temperature
        self.weight = weight
        self.feature_weight = feature_weight
        self.feature_after = feature_after
        self.max_pooled = pooling == "average-max"
        self.heads = nn.ModuleList()
        self.head_losses = nn.ModuleList()
        if features is not None:
            self.heads.extend(_head(features, width) for width in dims)
            self.head_losses.extend(loss.build(classes=classes, dim=width) for width in dims)

    @property
    def on_triplets(self) -> bool:
        """As the inner loss."""
        return self.loss.on_triplets

    def phase(self, step: int) -> int:
        """Whether the features teach already."""
        return int(step >= self.feature_after)

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The inner loss: embeddings alone have no heads."""
        value: Tensor = self.loss(embeddings, labels, tuples, generator)
        return value

    def batch_loss(
        self, encoded: Encoded, tuples: IndicesTuple | None, generator: Generator | None, step: int
    ) -> Tensor:
        """All terms, in float32 or better."""
        if not self.heads:
            raise ModelError("s2sd does not know the length of the pooled features; build it with features=")
        base = self.loss.batch_loss(encoded, tuples, generator, step)
        pooled = precise(encoded.pooled)
        seen = _cosines(encoded.z)
        losses, divergences = [], []
        for head, loss in zip(self.heads, self.head_losses, strict=True):
            with torch.autocast(pooled.device.type, enabled=False):
                wide = F.normalize(head(pooled), dim=1)
            assert isinstance(loss, Loss)
            losses.append(loss.batch_loss(encoded._replace(z=wide), tuples, generator, step))
            divergences.append(self._divergence(_cosines(wide.detach()), seen))
        total: Tensor = (base + torch.stack(losses).mean()) / 2 + self.weight * torch.stack(divergences).mean()
        if self.phase(step):
            total = total + self.feature_weight * self._divergence(_cosines(pooled.detach()), seen)
        return total

    def _divergence(self, target: Tensor, seen: Tensor) -> Tensor:
        """KL from the rows of a target to those of the embedding."""
        wanted, found = (F.log_softmax(cosines / self.temperature, dim=1) for cosines in (target, seen))
        return F.kl_div(found, wanted, reduction="batchmean", log_target=True) * self.temperature**2


def _check(loss: Block[Loss], dims: tuple[int, ...], weight: float, feature_weight: float, feature_after: int) -> None:
    if loss.name == "s2sd":
        raise RecipeError("s2sd cannot be nested in s2sd; name the loss that embedding and heads learn with")
    if loss.plain.get("dim") is not None:
        raise RecipeError("leave dim out of the loss inside s2sd; the embedding and every head have their own")
    if not dims or min(dims) < 1:
        raise RecipeError(f"dims are the widths of one or more heads, each 1 or more, got {list(dims)}")
    for name, value in {"weight": weight, "feature_weight": feature_weight, "feature_after": feature_after}.items():
        if not value >= 0:
            raise RecipeError(f"{name} must be 0 or more, got {value}")


def _head(features: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width))


def _cosines(vectors: Tensor) -> Tensor:
    return similarity(F.normalize(precise(vectors), dim=1))
