"""What a request may ask for, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from holdfast.search import Filter
from holdfast.serve.limits import Limits


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Reads what stands behind the path of a request; what cannot be is refused in one line.

    Args:
        indexes: names of the indexes; the first is asked when a request gives none.
        limits: of requests.
    """

    indexes: Sequence[str]
    limits: Limits

    def index(self, request: Request) -> str:
        """Which index is asked."""
        name = request.query_params.get("index", self.indexes[0])
        if name not in self.indexes:
            raise HTTPException(404, f"there is no such index; served are {', '.join(self.indexes)}")
        return name

    def matches(self, request: Request) -> int:
        """How many neighbours are wanted."""
        text = request.query_params.get("k", "10")
        if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= self.limits.matches):
            raise HTTPException(400, f"k is a whole number from 1 to {self.limits.matches}")
        return int(text)

    def where(self, request: Request) -> Filter:
        """Among which images: `label` and `group`, each as often as needed."""
        return Filter(*(tuple(request.query_params.getlist(name)) for name in ("label", "group")))

    def eps(self, request: Request) -> float:
        """The strength of an attack, as a fraction of the range of pixels."""
        try:
            eps = float(request.query_params.get("eps", "8"))
        except ValueError:
            eps = 0.0
        if not 0 < eps <= self.limits.eps:
            raise HTTPException(400, f"eps is a number above 0, at most {self.limits.eps:g}, in 255ths")
        return eps / 255
