"""Families of methods that recipes build by name.

A family (losses, miners, regimes, ...) is one `Registry` beside its base class. `@register("name")` on a class, or on a
function that returns one, makes it listable, buildable from a recipe and covered by the contract tests. The modules of
the family's package are imported at the first look-up, so adding a method touches one file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from holdfast.errors import RecipeError, unknown

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _place(member: Callable[..., Any]) -> tuple[str, str]:
    """Where a class or a function was written."""
    return member.__module__, member.__qualname__


class Registry(Generic[T]):
    """Names of one family and how to build each.

    Args:
        kind: what one member is called in messages ("loss").
        base: the family's base class; a recipe argument annotated with it is built from this registry.
        packages: whose modules register members; a plain module will do too.
    """

    _by_base: ClassVar[dict[type, Registry[Any]]] = {}

    def __init__(self, kind: str, base: type[T], *packages: str) -> None:
        self.kind = kind
        self.base = base
        self._packages = packages
        self._members: dict[str, Callable[..., T]] = {}
        self._discovered = False
        Registry._by_base[base] = self

    @staticmethod
    def of(base: object) -> Registry[Any] | None:
        """The registry whose base class this is, if it is one."""
        return Registry._by_base.get(base) if isinstance(base, type) else None

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator that adds a class or a factory under a lower-case, hyphenated name."""

        def add(member: F) -> F:
            known = self._members.get(name)
            if known is not None and _place(known) != _place(member):  # a notebook's cell may run again
                raise ValueError(f"{self.kind} '{name}' is registered twice")
            self._members[name] = member
            return member

        return add

    def names(self) -> list[str]:
        """Every registered name, sorted."""
        self._discover()
        return sorted(self._members)

    def get(self, name: str, where: str = "") -> Callable[..., T]:
        """The class or factory behind a name."""
        self._discover()
        if name not in self._members:
            prefix = f"{where}: " if where else ""
            raise RecipeError(prefix + unknown(self.kind, name, self._members))
        return self._members[name]

    def summary(self, name: str) -> str:
        """The first line of a member's docstring."""
        return (self.get(name).__doc__ or "").strip().partition("\n")[0]

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        for package in self._packages:
            for module in pkgutil.iter_modules(getattr(importlib.import_module(package), "__path__", [])):
                importlib.import_module(f"{package}.{module.name}")
