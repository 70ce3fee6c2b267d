"""What a figure means and how it is shown: declared by the metric or protocol that measures it, kept with its values.

So tables, pages, comparisons and cards need no list of metrics, and show those of a user's own like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Shown = Literal["headline", "table", "page", "file"]
LEVELS: tuple[Shown, ...] = ("headline", "table", "page", "file")
LONGEST = 400
"""Characters of a meaning; more is no description."""


@dataclasses.dataclass(frozen=True)
class MetricInfo:
    """One figure.

    Args:
        meaning: one line for people who do not know it.
        title: as short as readers know it; its key when left out.
        better: which direction is good; None for figures that rank nobody.
        digits: after the point.
        shown: `headline` also in the short table of a comparison, `table` in its full one, `page` on the page of a run
            alone, `file` nowhere but in files and full listings.
        percent: whether it is a percentage, drawn as a bar.
        scale: what tables multiply it by, such as 255 for changes of pixels.
        column: its key in a comparison, where that is not its own.
    """

    meaning: str = ""
    title: str = ""
    better: Literal["higher", "lower"] | None = "higher"
    digits: int = 3
    shown: Shown = "table"
    percent: bool = False
    scale: float = 1.0
    column: str = ""

    @property
    def compared(self) -> bool:
        """Whether a comparison has a column of it."""
        return self.shown in ("headline", "table")

    def plain(self) -> dict[str, Any]:
        """As JSON has it: what is not the default."""
        default = dataclasses.asdict(MetricInfo())
        return {key: value for key, value in dataclasses.asdict(self).items() if value != default[key]}


def percentage(meaning: str, shown: Shown = "table", title: str = "") -> MetricInfo:
    """A percentage of which more is better."""
    return MetricInfo(meaning, title, digits=1, shown=shown, percent=True)


def plain(described: Mapping[str, MetricInfo]) -> dict[str, dict[str, Any]]:
    """Descriptions as `described` of an evaluation or audit has them."""
    return {key: info.plain() for key, info in described.items()}


def stored(document: Mapping[str, Any]) -> dict[str, MetricInfo]:
    """The descriptions in a document, which may be a stranger's; what is not as it should be is left out."""
    listed = document.get("described")
    read = {str(key): _read(entry) for key, entry in listed.items()} if isinstance(listed, dict) else {}
    return {key: info for key, info in read.items() if info is not None}


def _read(entry: Any) -> MetricInfo | None:
    if not isinstance(entry, dict):
        return None
    default = MetricInfo()
    given = {key: entry.get(key, value) for key, value in dataclasses.asdict(default).items()}
    words = (given["meaning"], given["title"], given["column"])
    sound = (
        all(isinstance(word, str) and len(word) <= LONGEST for word in words)
        and given["better"] in ("higher", "lower", None)
        and given["digits"] in range(10)
        and given["shown"] in LEVELS
        and isinstance(given["percent"], bool)
        and type(given["scale"]) in (int, float)
        and 0 < given["scale"] < 1e6
    )
    return MetricInfo(**given) if sound else None
