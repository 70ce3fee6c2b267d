"""Softmax losses of one positive against negatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from holdfast.losses.base import register
from holdfast.losses.comparison import Comparison
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced, masked_logsumexp, require_positive
from holdfast.mining import Miner
from holdfast.mining.batch import relations, require_labels
from holdfast.mining.known import known_of
from holdfast.pair_matrix import packed, weights
from holdfast.sphere import Mask, precise, similarity


@register("info-nce")
class InfoNCE(PairLoss):
    """Each positive pair on its own against all negatives of its anchor.

    L = mean over positive pairs of -log( exp(s_ap/τ) / (exp(s_ap/τ) + Σ_N exp(s_an/τ)) )

    Its single losses are positive pairs.

    Args:
        temperature: τ.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: `sup-con` lets the anchor's other positives compete as well; `n-pair` uses one pair per class.
    Reference: van den Oord et al., 2018.
    """

    unit_vectors = True
    repeats = True

    def __init__(
        self,
        temperature: float = 0.07,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(temperature=temperature)
        self.temperature = temperature

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per positive pair."""
        few, s_pos = packed(pos, s)
        push = masked_logsumexp(s, neg, 1 / self.temperature)
        return [Unreduced(softplus(push[:, None] - s_pos / self.temperature), few)]


@register("n-pair")
class NPair(InfoNCE):
    """One pair per class: each anchor tells its partner from the partners of all other classes.

    L = mean over classes of -log( exp(s_ap) / (exp(s_ap) + Σ_{other classes} exp(s_ap')) )

    The first two images of each class form its pair; the others do not learn, so the order of a batch matters. Given
    or mined tuples replace that choice, and with a memory every pair counts. Its single losses are positive pairs.

    Args:
        miner: chooses the pairs; the first pair of each class when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: two or more images per class and two or more classes in a batch. Without tuples it reads the number
        of classes on the host, once per batch, unless training knows it.
    Relations: `info-nce` uses every pair, with a temperature.
    Reference: Sohn, NeurIPS 2016.
    """

    unit_vectors = False

    def __init__(self, *, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None) -> None:
        super().__init__(1.0, miner=miner, part=part, memory=memory)

    def single(self, compared: Comparison) -> list[Unreduced]:
        """One loss per positive pair."""
        if compared.chosen is not None or compared.tuples is not None or compared.recalled is not None:
            return super().single(compared)
        embeddings = compared.embeddings
        images, other = _first_pairs(embeddings, compared.labels)
        # One choice for both, as the gradient of each is a tensor of the size of the batch.
        matrix = similarity(*precise(embeddings).index_select(0, images).chunk(2))
        if other is not None or self.part != "both":
            own = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
            matrix = self.one_sided(matrix, own, ~own)
            matrix = matrix if other is None else matrix.masked_fill(~(other | own), -torch.inf)
        # A cross-entropy in which each partner is a class of its own.
        loss = cross_entropy(matrix, torch.arange(len(matrix), device=matrix.device), reduction="none")
        return [Unreduced(loss)]


def _first_pairs(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Mask | None]:
    """The first images of all classes and then the second ones; which pairs are of different classes, or None: all."""
    if labels.dtype == torch.bool:
        positive, negative = relations(embeddings, labels)
        partner = positive.to(torch.uint8).argmax(1)
        index = torch.arange(len(partner), device=partner.device)
        first = (positive.any(1) & (partner > index)).nonzero().squeeze(1)
        second = partner[first]
        return torch.cat([first, second]), negative[first][:, second]
    require_labels(embeddings, labels)
    ordered, order = labels.sort(stable=True)
    repeated = ordered[1:] == ordered[:-1]
    fresh = torch.ones_like(repeated)
    fresh[1:] = ~repeated[:-1]
    starts, known = repeated & fresh, known_of(labels)
    if known is not None and known.complete and known.classes is not None:
        place = starts.to(torch.uint8).argsort(descending=True, stable=True)[: known.classes]
    else:
        place = starts.nonzero().squeeze(1)
    return order[torch.cat([place, place + 1])], None


@register("sup-con")
class SupCon(PairLoss):
    """Each positive against everything else of the batch.

    L = mean_i mean_{p∈P} -log( exp(s_ip/τ) / Σ_{k∈P∪N} exp(s_ik/τ) )

    Its single losses are anchors with a positive.

    Args:
        temperature: τ.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; two or more images per class in a batch.
    Relations: `info-nce` leaves the anchor's other positives out of the denominator.
    Reference: Khosla et al., NeurIPS 2020.
    """

    unit_vectors = True

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(temperature=temperature)
        self.temperature = temperature

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per anchor."""
        few, s_pos = packed(pos, s)
        chosen = weights(few, s.dtype)
        positives = chosen.sum(1)
        pull = (chosen * s_pos).sum(1) / (self.temperature * positives.clamp_min(1))
        return [Unreduced(masked_logsumexp(s, pos | neg, 1 / self.temperature) - pull, positives > 0)]
