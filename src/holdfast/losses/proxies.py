"""Losses with parameters per class, from pytorch-metric-learning."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.parameter import UninitializedParameter

from holdfast.errors import DataError, ModelError
from holdfast.losses.base import register, require_class_labels
from holdfast.losses.unreduced import AveragedLoss, Unreduced, require_positive
from holdfast.mining import IndicesTuple, Triplets
from holdfast.mining.tuples import as_tuples
from holdfast.sphere import precise, safe_sqrt


class ClassLoss(AveragedLoss):
    """A loss that compares images with learned vectors of their classes. Its single losses are images.

    It does not mine. Given tuples, it learns on the images that occur in them, each once. Give `classes` and `dim`, as
    training does: without them it is sized by the first batch (highest label plus one) or by the state it loads, and
    until then has an uninitialised parameter, like torch's lazy modules. An optimiser may have it; whatever asks for
    its numbers is refused. First values come from torch's global generator.

    Args:
        classes: number of training classes, labelled from 0.
        dim: length of the embeddings.
    """

    sizes: Tensor

    def __init__(self, classes: int | None = None, dim: int | None = None) -> None:
        super().__init__()
        self.classes = classes
        self.dim = dim
        self.inner: nn.Module = _Unsized()
        self.register_buffer("sizes", torch.zeros(2, dtype=torch.long))
        if classes is not None and dim is not None:
            self._resize(classes, dim)

    @abstractmethod
    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """The library's loss; `common` goes to its constructor."""

    def unreduced(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> list[Unreduced]:
        """The library's losses before its reduction, in float32."""
        if labels.ndim != 1 or labels.dtype == torch.bool:
            raise DataError("a loss with class parameters needs one class label per image, not a relevance matrix")
        if len(labels) != len(embeddings):
            raise DataError(f"{len(embeddings)} embeddings came with {len(labels)} labels; give one label each")
        embeddings, labels = precise(embeddings), labels.long()
        if tuples is not None:
            found = as_tuples(tuples, embeddings.device)
            rows: Tensor = torch.unique(torch.cat(found if isinstance(found, Triplets) else found[:2]))
            embeddings, labels = embeddings[rows], labels[rows]
        if len(embeddings) == 0:
            return [Unreduced(embeddings.sum(1), torch.ones(0, dtype=torch.bool, device=embeddings.device))]
        inner = self._sized(embeddings, labels)
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.split(inner(embeddings, labels), labels)

    def split(self, losses: dict[str, dict[str, Any]], labels: Tensor) -> list[Unreduced]:
        """The library's dictionary of losses, unreduced."""
        values = losses["loss"]["losses"]
        return [Unreduced(values)]

    def _sized(self, embeddings: Tensor, labels: Tensor) -> nn.Module:
        if isinstance(self.inner, _Unsized):
            self._resize(self.classes or int(labels.max()) + 1, self.dim or embeddings.shape[1])
        assert self.classes is not None
        if embeddings.shape[1] != self.dim:
            raise ModelError(f"this loss was built for {self.dim} dims but got {embeddings.shape[1]}; set its dim")
        require_class_labels(labels, self.classes)
        if any(parameter.device != embeddings.device for parameter in self.inner.parameters()):
            self.inner.to(embeddings.device)  # not otherwise: inside torch.func even this changes parameters
        return self.inner

    def _resize(self, classes: int, dim: int) -> None:
        try:
            from pytorch_metric_learning.reducers import DoNothingReducer
        except ImportError as error:
            raise ModelError(
                "this loss comes from pytorch-metric-learning; pip install pytorch-metric-learning"
            ) from error
        self.classes, self.dim = classes, dim
        self.sizes.copy_(torch.tensor([classes, dim]))
        made = self.make(classes, dim, reducer=DoNothingReducer())
        if isinstance(self.inner, _Unsized):  # an optimiser may know its parameter already
            ((name, values),) = made.named_parameters()
            setattr(made, name, self.inner.sized(values.detach()))
        self.inner = made.to(self.sizes.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        sizes = state_dict.get(f"{prefix}sizes")
        if isinstance(self.inner, _Unsized) and sizes is not None and bool(sizes.all()):
            self._resize(*sizes.tolist())
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _Unsized(nn.Module):
    """In the place of a loss whose sizes are not known: its parameter, which is no part of a state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = UninitializedParameter()

    def sized(self, values: Tensor) -> nn.Parameter:
        """The same parameter with its first values."""
        self.weight.materialize(tuple(values.shape))
        with torch.no_grad():
            self.weight.copy_(values)
        return self.weight  # type: ignore[return-value]  # from now on it is one

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        pass

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        pass


@register("arcface")
class ArcFace(ClassLoss):
    """Cross entropy over cosines to class vectors, with a margin on the angle to the right one.

    L = mean -log softmax(s cos(θ_y + m), s cos θ_other)

    Args:
        margin: m in radians.
        scale: s.
        classes: number of training classes.
        dim: length of the embeddings.

    Requirements: labels 0 to classes-1; any batch.
    Relations: `normalized-softmax` has no margin. The defaults are those of Roth's recipes, not of face recognition.
    Reference: Deng et al., CVPR 2019.
    """

    def __init__(
        self, margin: float = 0.5, scale: float = 16.0, classes: int | None = None, dim: int | None = None
    ) -> None:
        require_positive(scale=scale)
        self.margin, self.scale = margin, scale
        super().__init__(classes, dim)

    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """The library takes the margin in degrees."""
        from pytorch_metric_learning.losses import ArcFaceLoss

        built: Any = ArcFaceLoss(classes, dim, margin=math.degrees(self.margin), scale=self.scale, **common)
        built.get_angles = _angles
        return cast(nn.Module, built)


def _angles(cosines: Tensor) -> Tensor:
    """What they are cosines of, with a finite gradient also where an image meets its class vector, unlike acos."""
    return torch.atan2(safe_sqrt((1 - cosines) * (1 + cosines)), cosines)


@register("proxy-nca")
class ProxyNCA(ClassLoss):
    """Softmax over squared distances to one proxy per class.

    L = mean -log softmax(-σ ||z - proxy||²) at the right class

    Args:
        scale: σ.
        classes: number of training classes.
        dim: length of the embeddings.

    Requirements: labels 0 to classes-1; any batch.
    Relations: `proxy-anchor` lets each proxy compare the images of the batch.
    Reference: Movshovitz-Attias et al., ICCV 2017, with the right class in the denominator as in ProxyNCA++.
    """

    twice = False  # the library's distances come from torch.cdist

    def __init__(self, scale: float = 1.0, classes: int | None = None, dim: int | None = None) -> None:
        require_positive(scale=scale)
        self.scale = scale
        super().__init__(classes, dim)

    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """One proxy per class."""
        from pytorch_metric_learning.losses import ProxyNCALoss

        built: nn.Module = ProxyNCALoss(classes, dim, softmax_scale=self.scale, **common)
        return built


@register("proxy-anchor")
class ProxyAnchor(ClassLoss):
    """Each class's proxy as an anchor that weighs the images of the batch against one another.

    L = mean over classes present of log(1 + Σ_P exp(-α(s - δ))) + mean over all classes of log(1 + Σ_N exp(α(s + δ)))

    Its single losses are classes, not images.

    Args:
        margin: δ.
        alpha: sharpness α.
        classes: number of training classes.
        dim: length of the embeddings.

    Requirements: labels 0 to classes-1; any batch.
    Relations: `multi-similarity` with proxies for anchors.
    Reference: Kim et al., CVPR 2020.
    """

    def __init__(
        self, margin: float = 0.1, alpha: float = 32.0, classes: int | None = None, dim: int | None = None
    ) -> None:
        require_positive(alpha=alpha)
        self.margin, self.alpha = margin, alpha
        super().__init__(classes, dim)

    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """One proxy per class."""
        from pytorch_metric_learning.losses import ProxyAnchorLoss

        built: nn.Module = ProxyAnchorLoss(classes, dim, margin=self.margin, alpha=self.alpha, **common)
        return built

    def split(self, losses: dict[str, dict[str, Any]], labels: Tensor) -> list[Unreduced]:
        """Positive losses of the classes in the batch, negative losses of all."""
        pull, push = losses["pos_loss"]["losses"], losses["neg_loss"]["losses"]
        present = torch.zeros_like(pull, dtype=torch.bool).index_fill_(0, labels, True)
        return [Unreduced(pull, present), Unreduced(push)]


@register("soft-triple")
class SoftTriple(ClassLoss):
    """Cross entropy over classes that have several centres each, softly assigned.

    L = mean -log softmax(λ (S_y - m), λ S_other), S_c = Σ_k softmax_k(s_ck / γ) s_ck

    Args:
        centers: centres per class.
        scale: λ.
        gamma: temperature γ of the assignment.
        margin: m.
        classes: number of training classes.
        dim: length of the embeddings.

    Requirements: labels 0 to classes-1; any batch.
    Relations: `normalized-softmax` is the case of one centre and no margin.
    Reference: Qian et al., ICCV 2019, without its regulariser that merges centres.
    """

    def __init__(
        self,
        centers: int = 10,
        scale: float = 20.0,
        gamma: float = 0.1,
        margin: float = 0.01,
        classes: int | None = None,
        dim: int | None = None,
    ) -> None:
        require_positive(centers=centers, scale=scale, gamma=gamma)
        self.centers, self.scale, self.gamma, self.margin = centers, scale, gamma, margin
        super().__init__(classes, dim)

    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """Several centres per class."""
        from pytorch_metric_learning.losses import SoftTripleLoss

        built: nn.Module = SoftTripleLoss(
            classes, dim, self.centers, la=self.scale, gamma=self.gamma, margin=self.margin, **common
        )
        return built


@register("normalized-softmax")
class NormalizedSoftmax(ClassLoss):
    """Cross entropy over cosines to class vectors.

    L = mean -log softmax(cos θ / τ) at the right class

    Args:
        temperature: τ.
        classes: number of training classes.
        dim: length of the embeddings.

    Requirements: labels 0 to classes-1; any batch.
    Relations: `arcface` adds a margin on the angle.
    Reference: Zhai and Wu, BMVC 2019.
    """

    def __init__(self, temperature: float = 0.05, classes: int | None = None, dim: int | None = None) -> None:
        require_positive(temperature=temperature)
        self.temperature = temperature
        super().__init__(classes, dim)

    def make(self, classes: int, dim: int, **common: Any) -> nn.Module:
        """One vector per class."""
        from pytorch_metric_learning.losses import NormalizedSoftmaxLoss

        built: nn.Module = NormalizedSoftmaxLoss(classes, dim, temperature=self.temperature, **common)
        return built
