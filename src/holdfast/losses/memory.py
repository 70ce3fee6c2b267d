"""Cross-batch memory: earlier embeddings that a batch is compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.mining import Recalled
from holdfast.mining.batch import require_labels
from holdfast.sphere import precise


class Memory(nn.Module):
    """A queue of the latest embeddings with their labels, without gradients; the oldest leave first.

    It is part of the state of its loss, so a checkpoint has it. In eval mode nothing is added.

    Args:
        size: how many embeddings it holds.
    """

    vectors: Tensor
    labels: Tensor
    images: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 1:
            raise RecipeError(f"memory is a number of embeddings, 1 or more, got {size}; leave it out for none")
        self.size = size
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.register_buffer("vectors", torch.zeros(0, 0))
        self.register_buffer("labels", torch.zeros(0, dtype=torch.long))
        self.register_buffer("images", torch.zeros(0, dtype=torch.long))

    def __len__(self) -> int:
        return len(self.vectors)

    def extra_repr(self) -> str:
        """How full it is."""
        return f"{len(self)} of {self.size}"

    def recall(self, embeddings: Tensor, labels: Tensor, images: Tensor | None = None) -> Recalled:
        """What a batch is compared with: all that is remembered, the batch itself last.

        Args:
            embeddings: the batch, which is remembered from now on.
            labels: its classes.
            images: which image each row shows.
        """
        self._check(embeddings, labels)
        vectors, labels = precise(embeddings.detach()), labels.long()  # a batch of bytes would cut those remembered
        numbers = torch.full_like(labels, -1) if images is None else images.long()
        old = slice(max(0, len(self) + len(vectors) - self.size), None)
        before = self.vectors[old].to(vectors) if len(self) else vectors[:0]
        recalled = Recalled(
            torch.cat([before, vectors]),
            torch.cat([self.labels[old].to(labels), labels]),
            torch.cat([self.images[old].to(numbers), numbers]),
        )
        if self.training:
            self.vectors, self.labels, self.images = recalled
        return recalled

    def _check(self, embeddings: Tensor, labels: Tensor) -> None:
        if labels.dtype == torch.bool:
            raise DataError("a memory keeps one label per image; a relevance matrix needs memory left out")
        require_labels(embeddings, labels)
        if len(embeddings) > self.size:
            raise DataError(f"a batch of {len(embeddings)} does not fit into a memory of {self.size}; make that larger")
        if len(self) and embeddings.shape[1] != self.vectors.shape[1]:
            dims = self.vectors.shape[1]
            raise ModelError(f"the memory holds {dims} dims but got {embeddings.shape[1]}; build another loss")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, buffer in list(self.named_buffers()):
            if f"{prefix}{name}" in state_dict:
                setattr(self, name, buffer.new_empty(state_dict[f"{prefix}{name}"].shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)
