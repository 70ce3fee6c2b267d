"""The margin loss with a learnable boundary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import DataError
from holdfast.losses.base import register, require_class_labels
from holdfast.losses.comparison import Comparison
from holdfast.losses.tuples import Part, TripletLoss
from holdfast.mining import Miner, Triplets
from holdfast.sphere import Mask


@register("margin")
class Margin(TripletLoss):
    """Wants positives within and negatives beyond a boundary distance that is learned per class.

    L = mean over active triplets of relu(d_ap - β + m) + relu(β - d_an + m), β of the anchor's class

    A triplet is active when either part is above zero. `part` detaches distances only: β learns from both kinds, or it
    would drift to where the kept kind has no loss.

    Args:
        beta: first value of the boundary β.
        margin: m.
        learn_beta: whether β is trained.
        classes: number of training classes, for one β each; one shared β when left out.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: two or more images per class and two or more classes in a batch; a relevance matrix needs a shared
        β. Outside training per-class β reads the label range on the host, to answer a wrong label with a clear error.
    Relations: usually with the miner `distance`; `contrastive` has fixed boundaries.
    Reference: Wu et al., ICCV 2017; averaged as in Roth et al., ICML 2020.
    """

    active = True
    measure = "distance"

    def __init__(
        self,
        beta: float = 1.2,
        margin: float = 0.2,
        learn_beta: bool = True,
        classes: int | None = None,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        self.margin = margin
        self.learn_beta = learn_beta
        self.beta = nn.Parameter(torch.full((classes or 1,), beta), requires_grad=learn_beta)
        self.classes = classes

    def arguments(self) -> dict[str, Any]:
        """With the present average of β."""
        return super().arguments() | {"beta": round(float(self.beta.detach().mean()), 4)}

    def boundary(self, compared: Comparison) -> Tensor:
        """β of each anchor."""
        beta: Tensor = self.beta
        labels = compared.labels
        if self.classes is not None:
            if labels.dtype == torch.bool:
                raise DataError("the margin loss learns one β per class; a relevance matrix needs classes left out")
            require_class_labels(labels, self.classes)
            return beta[labels.long()]  # a uint8 tensor would be a mask
        return beta.expand(len(labels))

    def matrix(self, compared: Comparison) -> Tensor:
        """Distances measured from the boundary of the anchor's class."""
        apart = super().matrix(compared)
        if self.part != "both":
            pos, neg = compared.masks()
            apart = torch.where(neg if self.part == "positive" else pos, apart.detach(), apart)
        return apart - self.boundary(compared)[:, None]

    def entries(self, compared: Comparison, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """The same of triplets, whose pairs are of the kind that the triplets say."""
        apart, beta = super().matrix(compared), self.boundary(compared)[triplets.anchor]
        pos, neg = apart[triplets.anchor, triplets.positive], apart[triplets.anchor, triplets.negative]
        if self.part == "positive":
            neg = neg.detach()
        elif self.part == "negative":
            pos = pos.detach()
        return pos - beta, neg - beta

    def constant(self, entries: Tensor) -> Tensor:
        """Their distances are constant in the matrix already; what is left to learn from them is β."""
        return entries

    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """Both hinges."""
        return torch.relu(pos + self.margin) + torch.relu(self.margin - neg)

    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """Each pair occurs once per pair of the other kind; a triplet is idle when both its pairs are."""
        pull = torch.where(pos, torch.relu(matrix + self.margin), 0)
        push = torch.where(neg, torch.relu(self.margin - matrix), 0)
        positives, negatives = pos.sum(1), neg.sum(1)
        total = (pull.sum(1) * negatives + push.sum(1) * positives).sum()
        idle = (positives - (pull > 0).sum(1)) * (negatives - (push > 0).sum(1))
        return total / (positives * negatives - idle).sum().clamp_min(1)
