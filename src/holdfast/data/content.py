"""What identifies labelled images wherever they lie: a digest of their content, without names and folders."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast.data.table import ImageTable, Integers


def content_digest(tables: Sequence[ImageTable]) -> str:
    """Equal for the same images in the same classes, whatever files, folders and classes are called.

    Args:
        tables: the queries and, where they search one, their gallery.
    """
    parts = []
    for table in tables:
        images = [_digest([table.source.content(int(position))]) for position in table.positions]
        columns = [table.labels, *([] if table.groups is None else [table.groups])]
        parts.append(_digest(_partition(images, column) for column in columns))
    return _digest(parts).hex()


def _partition(images: Sequence[bytes], column: Integers) -> bytes:
    """Which images belong together, in no order."""
    members: defaultdict[int, list[bytes]] = defaultdict(list)
    for image, label in zip(images, column.tolist(), strict=True):
        members[label].append(image)
    return _digest(sorted(_digest(sorted(each)) for each in members.values()))


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
