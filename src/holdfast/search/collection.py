"""A collection of Milvus: an embedded one in a file, or one of a server."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from holdfast.errors import SearchError, one_line
from holdfast.search.flat import Vectors
from holdfast.search.index import Filter, IndexedImage, IndexedImages, usable

TOKEN = "MILVUS_TOKEN"
"""Of the environment: what a server wants to hear, `user:password` or a key."""

SECONDS, LONG = 60.0, 3600.0
"""For one call, and for one that may have to read or write everything."""
LONGEST_WORD = 65_535
"""Bytes of a name, label or group: what Milvus holds."""
UNSAYABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What no condition of Milvus can quote."""
AT_ONCE = 1_000
"""Names, or vectors that come back, of one call."""
MOST = 16_384
"""Neighbours of one search: what Milvus returns."""
GRAPH = {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 200}}
"""How a server finds neighbours."""
CANDIDATES = 1_024
"""Candidates that it keeps, at least: with 256, it missed two in a hundred neighbours among 20,000 random vectors."""
EXACT = {"index_type": "FLAT", "params": {}}
"""How a file does: it keeps no structure that must be trusted, and was faster there than the graph."""

FIELDS = ("label", "group", "fingerprint")
WORDS = {"id": LONGEST_WORD, "label": LONGEST_WORD, "group": LONGEST_WORD, "fingerprint": 32}

Neighbours: TypeAlias = tuple[Vectors, list[str], list[IndexedImage]]
"""Vectors, names, and what they show."""

T = TypeVar("T")


def check_place(place: str) -> str:
    """Where a Milvus is: an address, or a file for an embedded one; refused if it is neither."""
    if "://" in place:
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", place):
            raise SearchError(
                f"'{one_line(place)}' is no address of a Milvus; give http://HOST:19530, a token in {TOKEN}"
            )
    elif not place.endswith(".db"):
        raise SearchError(
            f"'{one_line(place)}' is no Milvus: give a file that ends in .db, or an address http://HOST:19530"
        )
    elif not Path(place).absolute().parent.is_dir():
        raise SearchError(f"there is no folder for {place}; give another place, or make it first")
    return place


def name_for(folder: Path, mark: str) -> str:
    """A collection's name for the index of a folder; the mark tells folders and models apart that read alike."""
    readable = re.sub(r"[^A-Za-z0-9]+", "_", folder.name.removesuffix(".index")).strip("_")[:100]
    return f"holdfast_{readable}_{mark[:8]}"


class Collection:
    """Vectors and what they show, in Milvus; whatever fails there is one line here. It connects when first asked.

    Args:
        place: a file that ends in `.db`, or an address.
        name: of the collection.
        dim: length of a vector.
    """

    def __init__(self, place: str, name: str, dim: int) -> None:
        self.place, self.name, self.dim = check_place(place), name, dim

    @property
    def embedded(self) -> bool:
        """Whether it lies in a file."""
        return "://" not in self.place

    @property
    def shown(self) -> str:
        """Where it is, without the folders of this machine."""
        return Path(self.place).name if self.embedded else self.place

    def create(self) -> None:
        """Make it; refused where there is one of that name."""
        if self._call("has_collection"):
            raise SearchError(
                f"{self.place} holds a collection {self.name} already; give another --out, or drop that one in Milvus"
            )
        kind, milvus = _pymilvus().DataType, _pymilvus().MilvusClient
        schema = milvus.create_schema(auto_id=False, enable_dynamic_field=False)
        for field, longest in WORDS.items():
            schema.add_field(field, kind.VARCHAR, is_primary=field == "id", max_length=longest)
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=self.dim)
        how = milvus.prepare_index_params()
        how.add_index("vector", metric_type="L2", **(EXACT if self.embedded else GRAPH))
        for field in ("label", "group"):
            how.add_index(field, index_type="INVERTED")
        self._call("create_collection", schema=schema, index_params=how, consistency_level="Strong")

    def open(self) -> None:
        """Make it ready to be asked; refused where it is not one that holds such vectors."""
        if self.embedded and not Path(self.place).exists():  # asking would make one
            raise SearchError(f"there is no {self.place}; give the file that the index was made with")
        if not self._call("has_collection"):
            raise SearchError(
                f"{self.place} holds no collection {self.name}; give the Milvus that the index was made with"
            )
        fields = {field["name"]: field.get("params", {}) for field in self._call("describe_collection")["fields"]}
        if set(fields) != {*WORDS, "vector"} or fields["vector"].get("dim") != self.dim:
            raise SearchError(f"the collection {self.name} holds no vectors of {self.dim} dims that holdfast put there")
        self._call("load_collection", LONG)

    def __len__(self) -> int:
        return int(self._call("query", filter="", output_fields=["count(*)"])[0]["count(*)"])

    def put(self, vectors: Vectors, images: IndexedImages) -> None:
        """Add images, or replace those of the same name."""
        for word in (word for words in (images.ids, images.labels, images.groups) for word in words):
            if not _holdable(word):
                raise SearchError(f"Milvus cannot hold the name or label '{one_line(word)[:80]}'; rename it")
        at_once = max(1, min(AT_ONCE, 2**22 // self.dim))
        for start in range(0, len(images), at_once):
            rows = range(start, min(start + at_once, len(images)))
            data = [{"id": images.ids[row], "vector": vectors[row], **_fields(images[row])} for row in rows]
            self._call("upsert", data=data)

    def settle(self) -> None:
        """Put away what was added, so that it is found as quickly as the rest."""
        self._call("flush", LONG)

    def known(self, ids: Sequence[str]) -> dict[str, IndexedImage]:
        """Those of some names that it holds."""
        return {self._word(row, "id"): self._image(row) for row in self._rows(ids, FIELDS)}

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of images that it holds."""
        found = {self._word(row, "id"): row for row in self._rows(ids, ("vector",))}
        return self._vectors(found.get(name, {}) for name in ids)

    def _rows(self, ids: Sequence[str], fields: Sequence[str]) -> Iterator[Any]:
        holdable = [name for name in ids if _holdable(name)]
        for start in range(0, len(holdable), AT_ONCE):
            wanted = _one_of("id", holdable[start : start + AT_ONCE])
            yield from self._call("query", filter=wanted, output_fields=["id", *fields])

    def nearest(self, queries: Vectors, k: int, where: Filter) -> Iterator[Neighbours]:
        """Of each query the k nearest, or all that there are."""
        if k > MOST:
            raise SearchError(f"Milvus finds at most {MOST:,} neighbours; ask for fewer")
        wanted = {field: of for field, of in (("label", where.labels), ("group", where.groups)) if of}
        held = {field: [word for word in of if _holdable(word)] for field, of in wanted.items()}
        if not all(held.values()):
            yield from ((self._vectors([]), [], []) for _ in queries)
            return
        effort = {} if self.embedded else {"ef": min(max(CANDIDATES, 4 * k), 2 * MOST)}
        at_once = max(1, AT_ONCE // k)
        for start in range(0, len(queries), at_once):
            asked = list(queries[start : start + at_once])
            found = self._call(
                "search",
                data=asked,
                limit=k,
                filter=" and ".join(_one_of(field, words) for field, words in held.items()),
                search_params={"metric_type": "L2", "params": effort},
                output_fields=["vector", *FIELDS],
            )
            if len(found) != len(asked):
                raise self._odd()
            for hits in found:
                rows = [{**hit["entity"], "id": hit["id"]} for hit in hits]
                yield self._vectors(rows), [self._word(row, "id") for row in rows], [self._image(row) for row in rows]

    def _vectors(self, rows: Iterable[Any]) -> Vectors:
        try:
            vectors = np.array([row["vector"] for row in rows], np.float32).reshape(-1, self.dim)
        except (KeyError, TypeError, ValueError) as error:
            raise self._odd() from error
        if not usable(vectors).all():
            raise self._odd()
        return vectors

    def _image(self, row: Any) -> IndexedImage:
        label, group, digest = (self._word(row, field) for field in FIELDS)
        if not re.fullmatch("[0-9a-f]{32}", digest):
            raise self._odd()
        return IndexedImage(label, group, bytes.fromhex(digest))

    def _word(self, row: Any, field: str) -> str:
        word = row.get(field)
        if not isinstance(word, str):
            raise self._odd()
        return word

    def _odd(self) -> SearchError:
        return SearchError(f"{self.place} answers with what holdfast did not put there; was {self.name} changed?")

    def _call(self, name: str, seconds: float = SECONDS, **arguments: Any) -> Any:
        return _told(self.place, lambda: getattr(self._client, name)(self.name, timeout=seconds, **arguments))

    @functools.cached_property
    def _client(self) -> Any:
        settings: dict[str, Any] = {"token": os.environ.get(TOKEN, "")}
        if self.embedded:  # its server is in this process, and complains of pings
            settings = {"grpc_options": {"grpc.keepalive_permit_without_calls": False}}
        return _pymilvus().MilvusClient(uri=self.place, timeout=SECONDS, **settings)


def _told(place: str, work: Callable[[], T]) -> T:
    """What a call comes to, its failure as one line."""
    exceptions = _pymilvus().exceptions
    try:
        return work()
    except exceptions.MilvusException as error:
        what = one_line(" ".join(str(error.message).split()))[:200]
        advice = f"check --milvus and {TOKEN}"
        if "Open local milvus failed" in what:
            advice = "if another process has it open, stop that one, or let both ask a Milvus server"
        raise SearchError(f"Milvus at {place} says: {what}; {advice}") from error


def _pymilvus() -> Any:
    try:
        import pymilvus
    except ImportError as error:
        raise SearchError("an index in Milvus needs pymilvus: pip install 'holdfast[milvus]'") from error
    # They log each failure with its traceback; here it is told in one line.
    for name in ("pymilvus", "milvus_lite", "grpc"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def _fields(image: IndexedImage) -> dict[str, str]:
    return dict(zip(FIELDS, (image.label, image.group, image.fingerprint.hex()), strict=True))


def _one_of(field: str, words: Sequence[str]) -> str:
    """A condition; words are quoted as JSON has it, so that none can say anything but itself."""
    return f"{field} in {json.dumps(list(words), ensure_ascii=False)}"


def _holdable(word: str) -> bool:
    try:
        return len(word.encode()) <= LONGEST_WORD and not UNSAYABLE.search(word)
    except UnicodeEncodeError:
        return False
