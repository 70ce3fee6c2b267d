"""From plain values (YAML, command line, keyword arguments) to typed objects, and back.

Type hints are the schema: what a dataclass or a registered class accepts is what its signature says. `resolve` checks
plain data against a type and fills in every default; `instantiate` does the same and builds the objects. Unknown keys
and wrong types are refused with the path of the key and the nearest valid spelling.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

from holdfast.errors import RecipeError, shown, unknown
from holdfast.registry import Registry

T = TypeVar("T")

PROVIDED = frozenset({"classes", "dim", "features"})
"""What training knows and fills in unless a recipe sets it: number of training classes, embedding and pooled dims."""

LARGEST = 2**63
"""Whole numbers from here on fit into no tensor and no file."""


@dataclasses.dataclass(frozen=True)
class Block(Generic[T]):
    """A checked recipe block whose object is built later, when what it depends on is known.

    Args:
        kind: base class of the family.
        plain: the resolved block, defaults included.
    """

    kind: type[T]
    plain: dict[str, Any]

    @property
    def name(self) -> str:
        """The registered name."""
        return str(self.plain["name"])

    def build(self, **provided: Any) -> T:
        """Build the object; `provided` fills in the arguments of `PROVIDED`, here and in nested blocks."""
        built: T = instantiate(self.kind, self.plain, provided=provided)
        return built


def block(kind: type[T], value: str | Mapping[str, Any]) -> Block[T]:
    """A checked block from a bare name or from plain data."""
    return Block(kind, resolve(kind, value))


def builder(registry: Registry[T]) -> Callable[..., T]:
    """The `build(name, **arguments)` of a family."""

    def build(name: str, /, **arguments: Any) -> T:
        built: T = instantiate(registry.base, {"name": name, **arguments}, where=registry.kind)
        return built

    build.__doc__ = f"""Build a {registry.kind} by name.

    Args:
        name: one of `names()`.
        arguments: those of its class, as objects or as a recipe writes them (`"8/255"`, names, blocks).
    """
    return build


def resolve(kind: Any, value: Any, where: str = "", brief: bool = False) -> Any:
    """Plain data checked against a type, with every default written out.

    Args:
        kind: the type.
        value: plain data, or an object of the type.
        where: path of the value, for messages.
        brief: leave out what equals its default instead; that form stays the same when a class gains an argument.
    """
    if typing.get_origin(kind) is Block:
        return resolve(typing.get_args(kind)[0], value.plain if isinstance(value, Block) else value, where, brief)
    registry = Registry.of(kind)
    if registry is not None:
        if isinstance(value, registry.base):
            raise RecipeError(f"{where}: a built {registry.kind} cannot be written into a recipe; give its block")
        member, given, where = _open_block(registry, value, where)
        return {"name": _name(value), **_resolve_arguments(member, given, where, brief)}
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        if isinstance(value, kind):
            value = _fields(value)
        return _resolve_arguments(kind, _mapping(value, where), where, brief)
    return _walk(kind, value, where, lambda k, v, w: resolve(k, v, w, brief))


def instantiate(kind: Any, value: Any, where: str = "", provided: Mapping[str, Any] | None = None) -> Any:
    """The object that plain data describes; values that already are of the type pass through."""
    provided = provided or {}
    if typing.get_origin(kind) is Block:
        inner = typing.get_args(kind)[0]
        return value if isinstance(value, Block) else Block(inner, resolve(inner, value, where))
    registry = Registry.of(kind)
    if registry is not None:
        if isinstance(value, registry.base):
            return value
        member, given, where = _open_block(registry, value, where)
        return _call(member, given, where, provided)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        return value if isinstance(value, kind) else _call(kind, _mapping(value, where), where, provided)
    return _walk(kind, value, where, lambda k, v, w: instantiate(k, v, w, provided))


def refuse_unknown_words(member: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """What a recipe refuses of arguments that are one of a few words, for calls in Python.

    Args:
        member: a class, its `__init__`, or a factory.
        given: argument name → value.
    """
    for name, value in given.items():
        kind, _ = _signature(member)[name]
        kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
        if any(typing.get_origin(each) is Literal for each in kinds) and isinstance(value, str):
            resolve(kind, value, name)


def number(text: str) -> float:
    """A number as people write it: `0.01`, `1e-5` or `8/255`."""
    top, slash, bottom = text.partition("/")
    value = float(top) / float(bottom) if slash else float(top)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def override(plain: dict[str, Any], path: str, value: Any) -> None:
    """Set `a.b.0.c` in nested plain data in place: keys of blocks, numbers of list items counted from 0.

    A bare name on the way becomes a block, a new `name` a new block.
    """
    *parents, last = path.split(".")
    node: Any = plain
    for key in parents:
        place = _place(node, key, path)
        child = node[place] if isinstance(node, list) else node.get(place)
        if isinstance(child, str):
            child = {"name": child}
        if child is None:
            child = {}
        if not isinstance(child, (dict, list)):
            raise RecipeError(f"{path}: '{key}' is not a block, so nothing inside it can be set")
        node[place] = child
        node = child
    if isinstance(node, dict) and last == "name" and node.get("name") not in (None, value):
        node.clear()  # arguments of the old method mean nothing to the new one
    node[_place(node, last, path)] = value


def _place(node: dict[str, Any] | list[Any], key: str, path: str) -> Any:
    """Where a key of a path leads inside a block or a list."""
    if isinstance(node, dict):
        return key
    places = {str(index): index for index in range(len(node))}
    if key not in places:
        items = "the list has 1 item" if len(node) == 1 else f"the list has {len(node)} items"
        raise RecipeError(f"{path}: there is no item '{key}'; {items}, counted from 0")
    return places[key]


def _open_block(registry: Registry[Any], value: Any, where: str) -> tuple[Callable[..., Any], dict[str, Any], str]:
    """Split a block into the registered member and the arguments given to it."""
    where = where or registry.kind
    if isinstance(value, str):
        return registry.get(value, where), {}, where
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise RecipeError(f"{where}: expected a {registry.kind} name or a block with 'name', got {shown(value)}")
    given = {str(k): v for k, v in value.items() if k != "name"}
    return registry.get(value["name"], where), given, where


def _name(value: Any) -> str:
    name = value if isinstance(value, str) else value["name"]
    return name if isinstance(name, str) else shown(name)


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where or 'recipe'}: expected a block of keys, got {shown(value)}")
    return {str(k): v for k, v in value.items()}


def _parameters(member: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Argument name → (type, default) of a class or factory."""
    parameters = dict(_signature(member))
    if dataclasses.is_dataclass(member):  # the signature has a placeholder where a factory makes the default
        for field in dataclasses.fields(member):
            if field.default_factory is not dataclasses.MISSING:
                parameters[field.name] = parameters[field.name][0], field.default_factory()
    return parameters


@functools.cache  # reading type hints takes most of the time of checking a recipe
def _signature(member: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    # A dataclass is asked itself: its fields may be inherited from a module whose names the subclass does not import.
    own_init = isinstance(member, type) and not dataclasses.is_dataclass(member)
    hints = typing.get_type_hints(member.__init__ if own_init else member)
    defaults = {name: parameter.default for name, parameter in inspect.signature(member).parameters.items()}
    return {name: (hints.get(name, Any), default) for name, default in defaults.items()}


def _check_keys(
    parameters: Mapping[str, tuple[Any, Any]], given: Mapping[str, Any], where: str, supplied: Mapping[str, Any]
) -> None:
    prefix = f"{where}: " if where else ""
    for key in given:
        if key not in parameters:
            raise RecipeError(prefix + unknown("key", key, parameters))
    for name, (_, default) in parameters.items():
        if default is inspect.Parameter.empty and name not in given and name not in supplied:
            raise RecipeError(f"{prefix}'{name}' is required")


def _resolve_arguments(member: Callable[..., Any], given: Mapping[str, Any], where: str, brief: bool) -> dict[str, Any]:
    parameters = _parameters(member)
    _check_keys(parameters, given, where, {})
    resolved: dict[str, Any] = {}
    for name, (kind, default) in parameters.items():
        if name in PROVIDED and given.get(name) is None and default is None:
            continue
        value = _over_default(kind, given[name], default) if name in given else default
        resolved[name] = resolve(kind, value, _join(where, name), brief)
        optional = default is not inspect.Parameter.empty
        if brief and optional and resolved[name] == resolve(kind, default, _join(where, name), brief):
            del resolved[name]
    return resolved


def _over_default(kind: Any, value: Any, default: Any) -> Any:
    """A block that leaves out what it must have is laid over the object that is its default.

    A complete block stands alone: another ε must not silently keep the default's units or steps.
    """
    if isinstance(value, Mapping) and dataclasses.is_dataclass(default) and type(default) is kind:
        required = [name for name, (_, own) in _parameters(kind).items() if own is inspect.Parameter.empty]
        if any(name not in value for name in required):
            return {**_fields(default), **value}
    return value


def _call(member: Callable[..., Any], given: Mapping[str, Any], where: str, provided: Mapping[str, Any]) -> Any:
    parameters = _parameters(member)
    supplied = {k: v for k, v in provided.items() if k in parameters and given.get(k) is None}
    _check_keys(parameters, given, where, supplied)
    arguments: dict[str, Any] = dict(supplied)
    for name, (kind, default) in parameters.items():
        if name in supplied:
            continue
        if name in given:
            value = _over_default(kind, given[name], default)
            arguments[name] = instantiate(kind, value, _join(where, name), provided)
        elif _needs_building(kind, default):
            arguments[name] = instantiate(kind, default, _join(where, name), provided)
    try:
        return member(**arguments)
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:  # the latter two: numbers out of range
        raise RecipeError(f"{where or 'recipe'}: {error}") from error


def _needs_building(kind: Any, default: Any) -> bool:
    """Whether a default is written as in a recipe: a block by name (`miner: Miner = "ephn"`) or a list of blocks."""
    if isinstance(default, (list, tuple)):
        return any(isinstance(value, Mapping) for value in default)
    candidates = typing.get_args(kind) if _is_union(kind) else (kind,)
    return isinstance(default, (str, Mapping)) and any(Registry.of(c) is not None for c in candidates)


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _walk(kind: Any, value: Any, where: str, convert: Callable[[Any, Any, str], Any]) -> Any:
    """Scalars, unions and containers; `convert` handles what they contain."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if _is_union(kind):
        return _walk_union(arguments, value, where, convert)
    if origin is Literal:
        if value in arguments:
            return value
        raise RecipeError(
            f"{where}: "
            + unknown("value", value if isinstance(value, str) else shown(value), [str(a) for a in arguments])
        )
    if origin in (list, tuple):
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise RecipeError(f"{where}: expected a list, got {shown(value)}")
        repeated = origin is list or arguments[-1] is Ellipsis
        inner = [arguments[0]] * len(value) if repeated else list(arguments)
        if len(inner) != len(value):
            raise RecipeError(f"{where}: expected {len(inner)} values, got {len(value)}")
        return origin(convert(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(inner, value, strict=True)))
    if origin is dict:
        return {str(k): convert(arguments[1], v, _join(where, str(k))) for k, v in _mapping(value, where).items()}
    return _scalar(kind, value, where)


def _walk_union(arguments: tuple[Any, ...], value: Any, where: str, convert: Callable[[Any, Any, str], Any]) -> Any:
    if value is None and type(None) in arguments:
        return None
    failure: RecipeError | None = None
    candidates = [candidate for candidate in arguments if candidate is not type(None)]
    if any(typing.get_origin(c) is Block or Registry.of(c) is not None for c in candidates):
        candidates = [c for c in candidates if c is not str]  # `Miner | str`: the text is a name of the family
    for candidate in candidates:
        try:
            return convert(candidate, value, where)
        except RecipeError as error:
            # A block with a mistake inside is better explained by its own family than by "not a number".
            if failure is None or Registry.of(candidate) is not None:
                failure = error
            if _is_member(Registry.of(candidate), value):
                raise
    assert failure is not None
    families = [family for family in map(Registry.of, candidates) if family is not None]
    named = isinstance(value, str) or (isinstance(value, Mapping) and "name" in value)
    if len(families) > 1 and named:
        kinds, valid = " or ".join(f.kind for f in families), [name for f in families for name in f.names()]
        raise RecipeError(f"{where}: " + unknown(kinds, _name(value), valid))
    if families and len(candidates) > 1 and not named:
        raise RecipeError(f"{where}: expected {' or '.join(map(_described, candidates))}, got {shown(value)}")
    raise failure


def _described(kind: Any) -> str:
    """What a recipe may write for a type, in words."""
    family = Registry.of(kind)
    if family is not None:
        return f"a {family.kind}"
    return {float: "a number", int: "a whole number", bool: "true or false", str: "text"}.get(kind, str(kind))


def _is_member(family: Registry[Any] | None, value: Any) -> bool:
    """Whether a value names a method of a family, with good arguments or bad."""
    name = value.get("name") if isinstance(value, Mapping) else value
    return family is not None and isinstance(name, str) and name in family.names()


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return number(str(value))
        except (ValueError, ZeroDivisionError):
            raise RecipeError(f"{where}: expected a number, got {shown(value)}") from None
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST:
        return value
    if kind in (bool, str) and isinstance(value, kind):
        return value
    if isinstance(kind, type) and kind not in (int, float, bool, str) and isinstance(value, kind):
        return value
    raise RecipeError(f"{where}: expected {_described(kind)}, got {shown(value)}")
