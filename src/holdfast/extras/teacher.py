"""A plainly trained teacher whose embedding holds under attack."""

from __future__ import annotations

import hashlib
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import RecipeError
from holdfast.extras.base import START, Term, adversarial_of, register
from holdfast.models import Embedder, load_model
from holdfast.models.names import is_user_code
from holdfast.models.weights import raw_bytes
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.sphere import precise, similarity


@register("teacher")
class Teacher(Term):
    """Keep what a trained model says of clean images under attack (distillation); its forward pass, no pass back.

    similarities: λ mean_kl (t_k·t_l - z'_k·z'_l)²; embeddings: λ mean_k (1 - t_k·z'_k);
    t the teacher's unit vectors of clean images, z' those of adversarial ones

    k and l run over all adversarial images of a step, t_k is of the clean image that k was made from. Of similarities
    only cosines are compared, so the teacher may have another backbone and length of embedding; to keep its embeddings
    a model best starts from it (`init`). It is in eval mode, does not learn and is no part of the run's package; a
    resumed run reads it again from the same place, and stops where it has changed.

    Args:
        model: a run folder, a packaged model or a hub id; `start:` for that of the recipe's `start`.
        weight: λ.
        keeps: `similarities` or `embeddings`.

    Requirements: a regime that attacks; a teacher that sees images in the same size.
    Relations: `consistency` compares with the model's own clean embeddings; `s2sd` distils wider heads of its own.
    Reference: beyond the papers; ARD: Goldblum et al., AAAI 2020; similarities as in RKD: Park et al., CVPR 2019;
        embeddings as in FARE: Schlarmann et al., ICML 2024.
    """

    name = "teacher"
    in_words = "keeping a teacher's embedding"

    def __init__(
        self, model: str, weight: float = 1.0, keeps: Literal["similarities", "embeddings"] = "similarities"
    ) -> None:
        super().__init__(weight)
        if model != START and (is_user_code(model) or ".py:" in model):
            raise RecipeError(f"extras: teacher '{model}' would run code; give a run folder or a packaged model")
        self.model = model
        self.keeps = keeps
        self._teacher: Embedder | None = None
        self._digest = 0.0

    def prepare(self, model: Embedder) -> None:
        """Read the teacher."""
        teacher = load_model(self.model)
        if teacher.size != model.size:
            raise RecipeError(
                f"extras: the teacher {self.model} sees images of {teacher.size} px and this recipe {model.size}; "
                f"set model.size={teacher.size}, or train a teacher at {model.size}"
            )
        if self.keeps == "embeddings" and teacher.dim != model.dim:
            raise RecipeError(
                f"extras: the teacher {self.model} has {teacher.dim} dims and this recipe {model.dim}; set "
                f"model.dim={teacher.dim}, or let it keep similarities"
            )
        digest = hashlib.sha256(b"".join(raw_bytes(tensor) for tensor in teacher.state_dict().values())).digest()
        self._digest = float(int.from_bytes(digest[:6], "big"))  # which a float holds exactly
        self._teacher = teacher.requires_grad_(False).to(model.mean.device)

    def state(self) -> dict[str, float]:
        """A number by which the same weights and statistics are known, on every machine."""
        return {"teacher": self._digest}

    def term(self, ctx: StepContext, batch: Batch, result: StepResult) -> Tensor:
        """The mean over all adversarial images, or all pairs of them."""
        if self._teacher is None:
            raise RecipeError("extras: the teacher is not read yet; call prepare(model) before the first step")
        moved, rows = adversarial_of(result)
        seen = ctx.observe_through(self._teacher, batch.images, len(batch.labels))
        if self.keeps == "embeddings":
            return 1 - (_unit(seen).index_select(0, rows) * _unit(moved.z)).sum(1).mean()
        taught = _cosines(seen)
        # Chosen twice by rows, where a matrix of two index tensors would be gathered entry by entry.
        wanted = taught.index_select(0, rows).index_select(1, rows)
        return (wanted - _cosines(moved.z)).square().mean()


def _unit(vectors: Tensor) -> Tensor:
    return F.normalize(precise(vectors), dim=1)


def _cosines(vectors: Tensor) -> Tensor:
    with torch.autocast(vectors.device.type, enabled=False):
        return similarity(_unit(vectors))
