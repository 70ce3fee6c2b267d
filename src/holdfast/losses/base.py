"""The contract of a loss and the registry of the family."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from holdfast.configurable import Configurable, built
from holdfast.errors import DataError
from holdfast.mining import IndicesTuple, Miner
from holdfast.mining.known import in_training
from holdfast.registry import Registry

TOLERANCE = 0.02
"""How far from one a unit vector's length may be: embeddings may come in half precision."""


class Encoded(NamedTuple):
    """A batch after the model.

    Args:
        z: embeddings.
        pooled: the features they come from.
        labels: classes.
        numbers: which image each row shows; every row another one where that is not known.
    """

    z: Tensor
    pooled: Tensor
    labels: Tensor
    numbers: Tensor | None = None

    def rows(self, which: slice) -> Encoded:
        """A part of the batch."""
        return Encoded(*(None if column is None else column[which] for column in self))  # type: ignore[arg-type]


class Loss(Configurable, nn.Module):
    """A loss function of a batch of embeddings: `loss(embeddings, labels)`.

    Without `tuples` a loss learns on what its own `miner` returns, or on all pairs; with `tuples` on exactly those.
    Losses may own parameters: training optimises, saves and resumes them.
    """

    exact: ClassVar[bool] = True
    """Whether the gradient is the derivative of the value; not where parts of it are held constant or set directly."""

    twice: ClassVar[bool] = True
    """Whether torch can differentiate the gradient; not where an operation of it has no second derivative."""

    unit_vectors: ClassVar[bool] = False
    """Whether its formula assumes embeddings of unit length."""

    max_pooled: bool = False
    """Whether it learns from max-pooled features too, so that training has the model add them to the pooled ones."""

    def __init__(self, miner: Miner | str | None = None) -> None:
        super().__init__()
        self.miner = built(Miner, miner)
        self._lengths_checked = not self.unit_vectors

    @property
    def on_triplets(self) -> bool:
        """Whether it learns from single triplets, so that regimes that move triplets give it those."""
        return False

    @abstractmethod
    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The scalar loss.

        Args:
            embeddings: vectors of shape (n, dim).
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            tuples: triplets or pairs mined elsewhere, or an index tuple of pytorch-metric-learning: three tensors
                (anchors, positives, negatives) or four (anchors, positives, anchors, negatives).
            generator: passed to the loss's own miner.
        """

    def phase(self, step: int) -> int:
        """Which of its forms it has at a step of training, where terms start later; a captured step has one form."""
        return 0

    def check_lengths(self, embeddings: Tensor) -> None:
        """Warn of vectors that a formula for unit vectors is not made for; only the first batch makes a GPU wait."""
        if self._lengths_checked or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return
        self._lengths_checked = True
        lengths = torch.linalg.vector_norm(embeddings.detach().float(), dim=1)
        shortest, longest = (float(length) for length in lengths.aminmax()) if len(lengths) else (1.0, 1.0)
        if shortest < 1 - TOLERANCE or longest > 1 + TOLERANCE:
            warnings.warn(
                f"{type(self).__name__} expects vectors of unit length, and these have lengths from {shortest:.3g} to "
                f"{longest:.3g}; scale them: torch.nn.functional.normalize(embeddings, dim=1)",
                stacklevel=6,  # where a loss was called
            )

    def batch_loss(
        self, encoded: Encoded, tuples: IndicesTuple | None, generator: Generator | None, step: int
    ) -> Tensor:
        """The scalar loss in training: `forward`, with tuples that were mined in the knowledge of image numbers.

        Args:
            encoded: what the model made of a batch.
            tuples: triplets or pairs mined elsewhere.
            generator: passed to the loss's own miner.
            step: of training, for terms that start later.
        """
        if tuples is None and self.miner is not None:
            tuples = self.miner(encoded.z, encoded.labels, generator, encoded.numbers)
        loss: Tensor = self(encoded.z, encoded.labels, tuples, generator)
        return loss


class Criterion(nn.Module):
    """What training minimises on an encoded batch: the loss of its embeddings, or of its pooled features too."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self, encoded: Encoded, tuples: IndicesTuple | None = None, generator: Generator | None = None, step: int = 0
    ) -> Tensor:
        """The scalar loss; arguments as in `Loss.batch_loss`."""
        return self.loss.batch_loss(encoded, tuples, generator, step)


def require_class_labels(labels: Tensor, classes: int) -> None:
    """Refuse labels that a loss with this many classes has no entry for; training numbers its own classes."""
    if labels.numel() == 0 or in_training():
        return
    lowest, highest = (int(value) for value in labels.aminmax())
    if lowest < 0 or highest >= classes:
        wrong = lowest if lowest < 0 else highest
        raise DataError(
            f"label {wrong} is outside this loss's {classes} classes; number labels from 0 to {classes - 1}"
        )


registry: Registry[Loss] = Registry("loss", Loss, "holdfast.losses", "holdfast.gradients")
register = registry.register
