"""Models whose weights are of another type than the images they are given."""

from __future__ import annotations

from torch import Tensor, nn

from holdfast.errors import ModelError


def other_type(error: RuntimeError, module: object, images: Tensor) -> ModelError | None:
    """What to say of an error that comes of weights of another type than the images; nothing of others."""
    tensors = module.parameters() if isinstance(module, nn.Module) else ()
    own = {tensor.dtype for tensor in tensors if tensor.is_floating_point()} - {images.dtype}
    if not own or "type" not in str(error):
        return None
    names = " and ".join(sorted(map(str, own)))
    return ModelError(
        f"this model has {names} weights and was given {images.dtype} images; convert it, or wrap it in a module that "
        "converts images and vectors"
    )
