"""A direct gradient as a loss: what the embeddings are told is designed, not derived."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.config import instantiate
from holdfast.configurable import built
from holdfast.errors import RecipeError
from holdfast.gradients.directions import Direction
from holdfast.gradients.named import FAMILIES, RULES, Components, Rule
from holdfast.gradients.triplets import TripletGeometry, geometry, others_of
from holdfast.gradients.weights import PairWeight, PositiveMask, TripletWeight
from holdfast.losses.base import Encoded, Loss, register
from holdfast.losses.comparison import joined
from holdfast.mining import EasyPositiveHardNegative, IndicesTuple, Miner, Triplets
from holdfast.mining.batch import relations
from holdfast.mining.tuples import as_tuples
from holdfast.sphere import Mask, precise, similarity
from holdfast.yaml_files import NotYaml, read_yaml

Part: TypeAlias = str | dict[str, Any]
"""A component as a recipe writes it: a bare name, or a block with its arguments."""

BLOCK = 2**22
"""Numbers per row-wise matrix of one pass; a mined batch is one pass, all triplets of a batch are many."""


@register("gradient")
class DirectGradient(Loss):
    """A gradient put together from a direction, a pair weight and a triplet weight.

    Averaged over the mined triplets, ∂f_p = T P+ e_p, ∂f_n = T P- e_n, ∂f_a = T (P+ e_ap + P- e_an)

    The gradient is set at the embeddings and passes through the network from there. The value is for logs alone: the
    mean of T (P+ (1 - s_ap) + P- s_an), whose derivative, were the weights constants, is the `cos` direction; it is
    zero for ideal triplets.

    Args:
        rule: the named rule to start from; components that are given replace its own.
        direction: where vectors are moved: `euc`, `cos`, `euc-orth`, `cos-orth`.
        pair: weight of each pair: `con`, `euc`, `lin`, `sig`, `sig-ms`, `lin-ms`.
        triplet: weight of the whole triplet: `con`, `cos`, `cir`.
        mask: which triplets pull their positive: `sc1`, `sc2`; as the rule has it when left out.
        miner: chooses the triplets; `ephn` when left out. Pairs stand for every triplet that joins a positive and a
            negative of one anchor.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: `triplet`, `triplet-cosine`, `binomial-deviance` have the same gradient as the rules of their name, up to
        a constant, on the same triplets; `gradients.dissect` finds the components of any loss.
    Reference: Xuan and Pless, Dissecting the impact of different loss functions with gradient surgery, 2022 (GS).
    """

    exact = False
    unit_vectors = True

    def __init__(
        self,
        rule: Rule = "best",
        direction: Direction | str | None = None,
        pair: PairWeight | str | None = None,
        triplet: TripletWeight | str | None = None,
        mask: PositiveMask | str | None = None,
        *,
        miner: Miner | str | None = None,
    ) -> None:
        super().__init__(EasyPositiveHardNegative() if miner is None else miner)
        parts = RULES[rule]
        self.rule = rule
        self.direction = built(Direction, direction or parts.direction)
        self.pair = built(PairWeight, pair or parts.pair)
        self.triplet = built(TripletWeight, triplet or parts.triplet)
        self.mask = built(PositiveMask, mask or parts.mask)

    @property
    def on_triplets(self) -> bool:
        """Yes."""
        return True

    @property
    def components(self) -> Components:
        """Names of the parts; the class name of one that is not registered."""

        def name(argument: str) -> str:
            family, part = FAMILIES[argument], type(getattr(self, argument))
            return next((name for name in family.names() if family.get(name) is part), part.__name__)

        return Components(name("direction"), name("pair"), name("triplet"), name("mask") if self.mask else None)

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The value for logs, with the direct gradient behind it."""
        return self.batch_loss(Encoded(embeddings, embeddings, labels), tuples, generator, 0)

    def batch_loss(
        self, encoded: Encoded, tuples: IndicesTuple | None, generator: Generator | None, step: int
    ) -> Tensor:
        """The same where image numbers are known: copies of the anchor are none of its other positives either."""
        z, labels, numbers = encoded.z, encoded.labels, encoded.numbers
        self.check_lengths(z)
        positive, negative = relations(z, labels, numbers)
        with torch.no_grad():
            if tuples is None:
                assert self.miner is not None
                tuples = self.miner(z, labels, generator, numbers)
            tuples = as_tuples(tuples, z.device)
            triplets = tuples if isinstance(tuples, Triplets) else joined(tuples, len(z))
            value, gradient = self._direct(precise(z.detach()), positive, negative, triplets)
        direct: Tensor = _Direct.apply(z, value, gradient)  # type: ignore[no-untyped-call]
        return direct

    def weigh(self, triplets: TripletGeometry) -> tuple[Tensor, Tensor]:
        """How hard each triplet pulls its positive, T P+, and pushes its negative, T P-."""
        whole = self.triplet(triplets.s_ap, triplets.s_an)
        pull, push = self.pair(triplets)
        if self.mask is not None:
            pull = torch.where(self.mask(triplets.s_ap, triplets.s_an), pull, 0)
        return whole * pull, whole * push

    def _direct(self, z: Tensor, positive: Mask, negative: Mask, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """Value and gradient, both averaged over the triplets."""
        count = len(triplets.anchor)
        matrix = similarity(z) if self.pair.compares else None
        value, gradient = z.new_zeros(()), torch.zeros_like(z)
        size = max(1, BLOCK // max(z.shape))
        for start in range(0, count, size):
            rows = Triplets(*(index[start : start + size] for index in triplets))
            anchor, pos, neg = (z[index] for index in rows)
            others = None if matrix is None else others_of(rows, matrix, positive, negative)
            seen = geometry(anchor, pos, neg, others)
            pull, push = self.weigh(seen)
            value = value + (pull * (1 - seen.s_ap) + push * seen.s_an).sum()
            moves = self.direction(anchor, pos, neg)
            pull, push = pull[:, None], push[:, None]
            gradient.index_add_(0, rows.positive, pull * moves.e_p)
            gradient.index_add_(0, rows.negative, push * moves.e_n)
            gradient.index_add_(0, rows.anchor, pull * moves.e_ap + push * moves.e_an)
        return value / max(1, count), gradient / max(1, count)


class _Direct(torch.autograd.Function):
    """A given value forwards, a given gradient backwards; loss scaling multiplies it as it would any other."""

    generate_vmap_rule = True

    @staticmethod
    def forward(embeddings: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (upstream[0] * gradient).to(ctx.dtype), None, None


def build(
    direction: Part | Direction | None = None,
    pair: Part | PairWeight | None = None,
    triplet: Part | TripletWeight | None = None,
    mask: Part | PositiveMask | None = None,
    *,
    rule: Rule | str = "best",
    miner: Part | Miner | None = None,
) -> DirectGradient:
    """A rule from its components, given as names, as blocks (`{"name": "sig", "beta": 40}`) or built.

    Args:
        direction: `euc`, `cos`, `euc-orth` or `cos-orth`.
        pair: `con`, `euc`, `lin`, `sig`, `sig-ms` or `lin-ms`.
        triplet: `con`, `cos` or `cir`.
        mask: `sc1`, `sc2`, or none.
        rule: the named rule whose components fill in for those left out.
        miner: chooses the triplets; `ephn` when left out.
    """
    given = {"direction": direction, "pair": pair, "triplet": triplet, "mask": mask, "rule": rule, "miner": miner}
    built: DirectGradient = instantiate(Loss, {"name": "gradient", **given}, where="gradient")
    return built


def named(rule: Rule | str, *, miner: Part | Miner | None = None) -> DirectGradient:
    """A published rule.

    Args:
        rule: one of `names()`.
        miner: chooses the triplets; `ephn` when left out.
    """
    return build(rule=rule, miner=miner)


def names() -> list[str]:
    """The named rules."""
    return list(RULES)


def parse(text: str) -> DirectGradient:
    """A rule as the command line takes it: one of `names()`, or a block such as `{pair: sig, mask: sc1}`."""
    if not text.lstrip().startswith("{"):
        return named(text)
    try:
        block = read_yaml(text)
    except NotYaml as error:
        raise RecipeError(f"'{text}' is not a block such as {{pair: sig, mask: sc1}}: {error}") from error
    built: DirectGradient = instantiate(Loss, {**block, "name": "gradient"}, where="gradient")
    return built
