"""The kinds of index, as `--kind` and manifests name them."""

from __future__ import annotations

from holdfast.errors import SearchError, unknown
from holdfast.search.memory import KINDS as IN_MEMORY

MILVUS = "milvus"
KINDS = (*IN_MEMORY, MILVUS)
MANY = 200_000
"""Vectors from which cells are the default; up to there comparing with all takes milliseconds."""


def kind_for(count: int, asked: str | None = None) -> str:
    """The kind asked for, or the one that suits so many vectors."""
    if asked is None:
        return "ivf" if count > MANY else "flat"
    if asked not in KINDS:
        raise SearchError(unknown("kind of index", asked, KINDS))
    return asked
