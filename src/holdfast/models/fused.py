"""Convolutions that a GPU runs together with what follows them, for passes that change no weight.

Attacks ask frozen networks for the gradient of pixels, thousands of times. In a ResNet a third of such a pass is spent
on moving activations through memory: BatchNorm, ReLU and the sum with the shortcut are each a way out of it and back,
and the gradient of max pooling is worked out pixel by pixel. With frozen weights and statistics BatchNorm is a factor
and an addend, so that cuDNN can do all of it where a convolution ends, and two small kernels (pool_kernels.py) do what
follows the first one. It is the same function: on one H200 in bfloat16 ResNet-18 and ResNet-50 become a quarter faster.

`fuse` copies no weight. Factors are worked out at every call, from whatever tensors the layers hold by then.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, channels_last, fx, nn
from torch.nn import functional as F

NETWORKS = ("timm.models.", "torchvision.models.")
"""Packages whose networks are read as graphs; another's forward may do anything."""
SUMS = (operator.add, operator.iadd, torch.add)
PLACES = [(row, column) for row in range(3) for column in range(3)]
"""Of a window, in the order in which they are counted."""
NOTHING = len(PLACES)
"""The place of a maximum that passes nothing back: it is not above zero."""


class ConvReLU(nn.Module):
    """relu(BatchNorm(conv(x)) + shortcut) in one operation.

    Args:
        conv: without a bias.
        norm: in eval mode.
    """

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self._layers = conv, norm  # not registered: they belong to the backbone

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        """Activations (B, C, H, W)."""
        conv, norm = self._layers
        factor, addend = _affine(norm)
        weight = (conv.weight * factor[:, None, None, None]).to(x.dtype).contiguous(memory_format=channels_last)
        sizes = int(conv.stride[0]), int(conv.padding[0])
        x = x.contiguous(memory_format=channels_last)
        out: Tensor
        if shortcut is None:
            out = conv_relu(x, weight, addend.to(x.dtype), *sizes)
        else:
            shortcut = shortcut.to(x.dtype).contiguous(memory_format=channels_last)
            out = conv_add_relu(x, weight, shortcut, addend.to(x.dtype), *sizes)
        return out


class PooledReLU(nn.Module):
    """The 3 × 3 maximum, with stride 2, of relu(BatchNorm(x)).

    Args:
        norm: in eval mode.
    """

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self._norm = (norm,)

    def forward(self, x: Tensor) -> Tensor:
        """Activations (B, C, H, W) to (B, C, H / 2, W / 2)."""
        factor, addend = _affine(self._norm[0])
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        pooled: Tensor = pool(x.contiguous(memory_format=channels_last), factor.to(wide), addend.to(wide))[0]
        return pooled


def fuse(backbone: nn.Module) -> nn.Module | None:
    """The backbone with its layers run together; None of a network that has nothing of the kind.

    It is the backbone as long as no weight takes a gradient and BatchNorm layers use their running statistics.
    """
    if not type(backbone).__module__.startswith(NETWORKS):
        return None
    try:
        graph = _Tracer().trace(backbone)
    except Exception:  # a forward that no graph can show; torch raises many types
        return None
    layers = dict(backbone.named_modules())
    for node in list(graph.nodes):
        if isinstance(_layer(node, layers), nn.Identity):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    made = {f"fused_{number}": layer for number, layer in enumerate(_replaced(graph, layers))}
    return fx.GraphModule({**layers, **made}, graph) if made else None


class _Tracer(fx.Tracer):
    """Layers as they are; blocks of them as graphs."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Conv2d) or super().is_leaf_module(m, module_qualified_name)


def _replaced(graph: fx.Graph, layers: dict[str, nn.Module]) -> Iterator[nn.Module]:
    """Put one layer in the place of several; each is called `fused_` and its number."""
    number = 0
    for chain in [found for node in list(graph.nodes) if (found := _chain(node, layers))]:
        conv, norm = (layers[str(node.target)] for node in chain[:2])
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        made: nn.Module = ConvReLU(conv, norm)
        arguments = (chain[0].args[0], *(node.args[1] for node in chain if node.target in SUMS))
        if _is_pool(_layer(chain[-1], layers)):
            made, arguments, chain = PooledReLU(norm), (chain[0],), chain[1:]
        elif not _is_plain(conv):
            continue
        with graph.inserting_before(chain[-1]):
            chain[-1].replace_all_uses_with(graph.call_module(f"fused_{number}", arguments))
        for node in reversed(chain):
            graph.erase_node(node)
        number += 1
        yield made


def _chain(node: fx.Node, layers: dict[str, nn.Module]) -> list[fx.Node]:
    """A convolution, BatchNorm, the sum with a shortcut if there is one, ReLU, and max pooling if it follows."""
    norm = _only_user(node)
    layer = _layer(norm, layers)
    if not isinstance(_layer(node, layers), nn.Conv2d) or type(layer) is not nn.BatchNorm2d or norm is None:
        return []
    if layer.weight is None or layer.running_mean is None:
        return []
    chain, after = [node, norm], _only_user(norm)
    if after is not None and after.target in SUMS and after.args[0] is norm and not after.kwargs:
        chain, after = [*chain, after], _only_user(after)
    if after is None or not _is_relu(after, layers):
        return []
    pooled = _only_user(after)
    return [*chain, after, *([pooled] if pooled and len(chain) == 2 and _is_pool(_layer(pooled, layers)) else [])]


def _only_user(node: fx.Node | None) -> fx.Node | None:
    return next(iter(node.users)) if node is not None and len(node.users) == 1 else None


def _layer(node: fx.Node | None, layers: dict[str, nn.Module]) -> nn.Module | None:
    return layers.get(str(node.target)) if node is not None and node.op == "call_module" else None


def _is_relu(node: fx.Node, layers: dict[str, nn.Module]) -> bool:
    return isinstance(_layer(node, layers), nn.ReLU) or (
        node.op == "call_function" and node.target in (F.relu, torch.relu)
    )


def _is_pool(layer: nn.Module | None) -> bool:
    def both(value: Any, wanted: int) -> bool:
        return value in (wanted, (wanted, wanted))

    return (
        type(layer) is nn.MaxPool2d
        and (both(layer.kernel_size, 3) and both(layer.stride, 2) and both(layer.padding, 1))
        and not (layer.ceil_mode or layer.return_indices or not both(layer.dilation, 1))
    )


def _is_plain(conv: nn.Conv2d) -> bool:
    """Whether it is a square convolution of all channels, as cuDNN runs it together with a ReLU."""
    return (
        type(conv) is nn.Conv2d
        and conv.bias is None
        and (conv.groups, conv.dilation, conv.padding_mode) == (1, (1, 1), "zeros")
        and not isinstance(conv.padding, str)
        and len({*conv.stride}) == len({*conv.padding}) == 1
    )


def _affine(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """What BatchNorm multiplies by and what it adds."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return factor, norm.bias - norm.running_mean * factor


@torch.library.custom_op("holdfast::conv_relu", mutates_args=())
def conv_relu(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """relu(conv(x) + bias); gradients for x alone."""
    if x.is_cuda:
        return torch.cudnn_convolution_relu(x, weight, bias, (stride,) * 2, (padding,) * 2, (1, 1), 1)
    return F.conv2d(x, weight, bias, stride, padding).relu_()


@torch.library.custom_op("holdfast::conv_add_relu", mutates_args=())
def conv_add_relu(x: Tensor, weight: Tensor, shortcut: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """relu(conv(x) + bias + shortcut); gradients for x and the shortcut alone."""
    if x.is_cuda:
        sizes = (stride,) * 2, (padding,) * 2, (1, 1), 1
        return torch.cudnn_convolution_add_relu(x, weight, shortcut, 1.0, bias, *sizes)
    return F.conv2d(x, weight, bias, stride, padding).add_(shortcut).relu_()


@conv_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    return F.conv2d(x, weight, bias, stride, padding)


@conv_add_relu.register_fake
def _(x: Tensor, weight: Tensor, shortcut: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    return torch.empty_like(shortcut)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *_, ctx.stride, ctx.padding = inputs
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _to_input(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the input, and that of what is added to the convolution."""
    x, weight, out = ctx.saved_tensors
    gradient = torch.where(out > 0, gradient, 0)
    sizes = [ctx.stride] * 2, [ctx.padding] * 2, [1, 1], False, [0, 0], 1
    found = torch.ops.aten.convolution_backward(gradient, x, weight, None, *sizes, [True, False, False])
    return found[0], gradient


def _conv_relu_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return _to_input(ctx, gradient)[0], None, None, None, None


def _conv_add_relu_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    to_x, to_shortcut = _to_input(ctx, gradient)
    return to_x, None, to_shortcut, None, None, None


conv_relu.register_autograd(_conv_relu_backward, setup_context=_keep)
conv_add_relu.register_autograd(_conv_add_relu_backward, setup_context=_keep)


@torch.library.custom_op("holdfast::pool", mutates_args=())
def pool(x: Tensor, factor: Tensor, addend: Tensor) -> tuple[Tensor, Tensor]:
    """The 3 × 3 maximum of relu(factor x + addend) with stride 2, and its place in the window, row by row."""
    if x.is_cuda:
        from holdfast.models import pool_kernels  # needs triton

        return pool_kernels.forward(x, factor, addend)
    wide = F.pad(x * factor[:, None, None] + addend[:, None, None], (1, 1, 1, 1), value=-torch.inf)
    height, width = x.shape[2:]
    windows = [wide[:, :, row : row + height : 2, column : column + width : 2] for row, column in PLACES]
    best, place = torch.stack(windows).max(0)
    place = torch.where(best > 0, place, NOTHING).to(torch.int8)
    return best.relu().to(x.dtype).contiguous(memory_format=channels_last), place.contiguous(
        memory_format=channels_last
    )


@pool.register_fake
def _(x: Tensor, factor: Tensor, addend: Tensor) -> tuple[Tensor, Tensor]:
    shape = x.shape[0], x.shape[1], (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2
    out = x.new_empty(shape).contiguous(memory_format=channels_last)
    return out, torch.empty_like(out, dtype=torch.int8)


@torch.library.custom_op("holdfast::pool_backward", mutates_args=())
def pool_backward(gradient: Tensor, place: Tensor, factor: Tensor, height: int, width: int) -> Tensor:
    """The gradient of what was pooled."""
    if gradient.is_cuda:
        from holdfast.models import pool_kernels

        return pool_kernels.backward(gradient, place, factor, height, width)
    batch, channels, high, broad = gradient.shape
    wide = gradient.new_zeros(batch, channels, 2 * high + 2, 2 * broad + 2)
    for number, (row, column) in enumerate(PLACES):
        wide[:, :, row : row + 2 * high : 2, column : column + 2 * broad : 2] += gradient * (place == number)
    cut = wide[:, :, 1 : 1 + height, 1 : 1 + width] * factor[:, None, None]
    return cut.to(gradient.dtype).contiguous(memory_format=channels_last)


@pool_backward.register_fake
def _(gradient: Tensor, place: Tensor, factor: Tensor, height: int, width: int) -> Tensor:
    out = gradient.new_empty((*gradient.shape[:2], height, width))
    return out.contiguous(memory_format=channels_last)


def _keep_places(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, factor, _ = inputs
    ctx.save_for_backward(output[1], factor)
    ctx.height, ctx.width = x.shape[2:]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _pool_backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor, None, None]:
    place, factor = ctx.saved_tensors
    gradient = gradient.contiguous(memory_format=channels_last)
    return pool_backward(gradient, place, factor, ctx.height, ctx.width), None, None


pool.register_autograd(_pool_backward, setup_context=_keep_places)
