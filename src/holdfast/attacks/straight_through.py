"""Operations whose derivative is zero, lost or misleading, with that of a smooth neighbour in its place.

Every rule computes what the operation computes, and changes its gradient alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

SATURATED = 8.0
"""Root mean square from which arguments of tanh and its kin count as saturated, and those of softmax as a choice."""
WILD = 10.0
"""Standard deviation, in radians, from which a wave of its argument is noise to whoever looks at its slope."""
INSIDE = 0.05
"""Fraction of a clamped tensor that must lie within the bounds for the gradient of the rest to be left at zero."""


class Twins(Protocol):
    """Where the differentiable twins of integers and booleans are kept."""

    twins: dict[int, tuple[Tensor, Tensor]]


Function: TypeAlias = Callable[..., Any]
Rule: TypeAlias = Callable[[Twins, Function, Any, dict[str, Any]], Any]


def joined(value: Tensor, gradient_of: Tensor) -> Tensor:
    """The numbers of one tensor with the gradient of another."""
    source = gradient_of.to(value.dtype)
    return value.detach() + (source - source.detach())


def with_twins(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """A call some of whose arguments may be integers or booleans that once were differentiable."""
    found = func(*args, **kwargs)
    if not watch.twins or not isinstance(found, Tensor):
        return found
    soft_args = _soft(watch, args)
    if soft_args is None:
        return found
    try:
        soft = _blend(*soft_args) if _is_where(func) else func(*soft_args, **kwargs)
    except (RuntimeError, TypeError, IndexError):  # masks and indices have no differentiable form
        return found
    return _remember(watch, found, soft) if isinstance(soft, Tensor) and soft.shape == found.shape else found


def _is_where(func: Function) -> bool:
    return getattr(func, "__name__", "") == "where"


def _blend(chosen: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
    return chosen * yes + (1 - chosen) * no


def _soft(watch: Twins, args: Any) -> Any | None:
    """The arguments with twins in place, or None where no argument has one."""
    seen = False

    def replaced(value: Any) -> Any:
        nonlocal seen
        if type(value) in (tuple, list):
            return type(value)(replaced(item) for item in value)
        if isinstance(value, Tensor) and id(value) in watch.twins:
            seen = True
            return watch.twins[id(value)][1]
        return value

    changed = replaced(tuple(args))
    return changed if seen else None


def _remember(watch: Twins, found: Tensor, soft: Tensor) -> Tensor:
    """A result with the gradient of its twin, or, where it can have none, with the twin kept beside it."""
    if not soft.requires_grad:
        return found
    if found.is_floating_point():
        return joined(found, soft)
    watch.twins[id(found)] = (found, soft)  # kept too: another tensor must not get its id
    return found


def _identity(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    return _remember(watch, func(*args, **kwargs), args[0])


def _undivided(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """A quotient that is rounded, with the gradient of one that is not."""
    rounded = kwargs.get("rounding_mode") or _name(func) in ("floor_divide", "__floordiv__")
    found = with_twins(watch, func, args, kwargs)
    return _remember(watch, found, torch.true_divide(*args[:2])) if rounded else found


def _remainder(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """What rounding leaves over, which is no direction: x - x % s rounds, and has the gradient of x."""
    return func(*args, **kwargs).detach()


def _compared(sign: int) -> Rule:
    def rule(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
        found = func(*args, **kwargs)
        first, second = args[:2]
        if not isinstance(found, Tensor) or not any(isinstance(a, Tensor) and a.requires_grad for a in (first, second)):
            return found
        gap = sign * (first - second)
        width = gap.detach().float().std(correction=0).clamp_min(1e-12)
        return _remember(watch, found, torch.sigmoid(4 * gap / width))

    return rule


def _cast(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    found = func(*args, **kwargs)
    value = args[0]
    soft = watch.twins[id(value)][1] if id(value) in watch.twins else value
    lost = isinstance(found, Tensor) and isinstance(soft, Tensor) and soft.requires_grad and not found.requires_grad
    return _remember(watch, found, soft) if lost else found


def _same(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """What would cut the graph, and does not."""
    value = args[0]
    return value if value.requires_grad and not value.is_leaf else func(*args, **kwargs)


def _values(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """For numpy, which takes tensors without a graph."""
    return func(args[0].detach(), *args[1:], **kwargs)


def _hook(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    return RemovableHandle(OrderedDict())


def _tempered(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """A function that has saturated, with the gradient of a cooler one."""
    found, value = func(*args, **kwargs), args[0]
    if not isinstance(value, Tensor) or not value.requires_grad:
        return found
    spread = float(value.detach().float().square().mean().sqrt())
    return joined(found, func(value * (2 / spread), *args[1:], **kwargs)) if spread > SATURATED else found


def _clamped(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """Bounds that nearly everything lies beyond."""
    found, value = func(*args, **kwargs), args[0]
    if not isinstance(value, Tensor) or not value.requires_grad:
        return found
    kept = float((found.detach() == value.detach()).float().mean())
    return joined(found, value) if kept < INSIDE else found


def _wave(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """A wave too short to follow."""
    found, value = func(*args, **kwargs), args[0]
    return found.detach() if float(value.detach().float().std(correction=0)) > WILD else found


def _in_place(rule: Rule, name: str) -> Rule:
    def changed(watch: Twins, func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
        value = args[0]
        if not value.requires_grad or value.is_leaf:
            return func(*args, **kwargs)
        return value.copy_(rule(watch, getattr(torch, name), args, kwargs))

    return changed


def _name(func: Function) -> str:
    return getattr(func, "__name__", "")


_BY_RULE: dict[Rule, str] = {
    _identity: "round floor ceil trunc fix sign sgn",
    _undivided: "div divide floor_divide __floordiv__",
    _remainder: "remainder fmod frac __mod__",
    _compared(1): "gt ge greater greater_equal __gt__ __ge__",
    _compared(-1): "lt le less less_equal __lt__ __le__",
    _cast: "to type type_as float double half bfloat16 int long short byte char bool",
    _same: "detach detach_ requires_grad_",
    _values: "numpy __array__ tolist",
    _hook: "register_hook",
    _tempered: "tanh sigmoid erf atan arctan softsign hardsigmoid softmax _softmax",
    _clamped: "clamp clip hardtanh",
    _wave: "sin cos",
}
RULES: dict[str, Rule] = {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
RULES |= {"get data": _same}
RULES |= {
    f"{name}_": _in_place(RULES[name], name)
    for name in ("round", "floor", "ceil", "trunc", "sign", "tanh", "sigmoid", "clamp", "clip", "remainder", "fmod")
}
"""Name of a function of torch → what is done in its place."""
