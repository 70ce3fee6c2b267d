"""What every method that is built by name shares: arguments given as objects or by name, and a `repr` of them all."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from holdfast.config import instantiate, refuse_unknown_words

T = TypeVar("T")


class Configurable:
    """An object that keeps each argument as an attribute of the same name, and shows them all in its `repr`.

    Where an attribute is something else (a parameter that learns), `arguments` is overridden. Of arguments that are one
    of a few words, others are refused, as in a recipe.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            cls.__init__ = _with_known_words(cls.__init__)  # type: ignore[method-assign]

    def arguments(self) -> dict[str, Any]:
        """The arguments that an equal object would be built with, in the order of the signature."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if hasattr(self, name)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.arguments().items())})"


def _with_known_words(init: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        # Arguments that do not fit are told by the call itself, and hints may name what is imported for checkers alone.
        with contextlib.suppress(TypeError, NameError):
            refuse_unknown_words(init, signature.bind(self, *values, **named).arguments)
        init(self, *values, **named)

    return checked


@overload
def built(family: type[T], value: None) -> None: ...
@overload
def built(family: type[T], value: T | str) -> T: ...
def built(family: type[T], value: T | str | None) -> T | None:
    """An argument of type `Family | str | None` as the object it stands for.

    Args:
        family: the base class.
        value: an object, a registered name, or a block as in a recipe (`{"name": "distance", "anchors": "first"}`).
    """
    return None if value is None else instantiate(family, value)
