"""Files that lie under a dataset's root but are no part of it: nothing is left out unsaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from holdfast.errors import one_line

SHOWN = 2
"""Names that stand for the rest."""

KINDS_SHOWN = 3
"""Extensions that are counted one by one."""


@dataclass(frozen=True)
class SkippedFiles:
    """What a reader left out of its table, by the reason.

    Args:
        no_images: files whose extension is not one of an image.
        unplaced: images in no class folder, or that no list names.
        hidden: hidden files and folders and those that systems leave behind (.DS_Store, Thumbs.db).
    """

    no_images: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything was left out that a person may have meant to be read."""
        return bool(self.no_images or self.unplaced)

    def lines(self) -> list[str]:
        """One line for each reason: how many files, and a few of them."""
        said = [
            f"{counted(self.no_images, 'file')} no image by extension ({extensions(self.no_images)})",
            f"{counted(self.unplaced, 'image')} in no class folder or list ({few(self.unplaced)})",
            f"{counted(self.hidden, 'file')} hidden or of the system ({few(self.hidden)})",
        ]
        return [line for line, names in zip(said, vars(self).values(), strict=True) if names]

    def __str__(self) -> str:
        return "; ".join(self.lines()) or "nothing"

    def counts(self) -> dict[str, int]:
        """How many of each."""
        return {name: len(names) for name, names in vars(self).items()}


NOTHING = SkippedFiles()


def counted(names: Sequence[str], noun: str) -> str:
    """Such as 1 file is, 2 files are."""
    return f"{len(names):,} {noun}{' is' if len(names) == 1 else 's are'}"


def extensions(names: Sequence[str]) -> str:
    """How many files of each extension, the most frequent first, and one of them by name."""
    kinds = Counter(PurePosixPath(name).suffix.lower()[:20] or "no extension" for name in names)
    shown = kinds.most_common(KINDS_SHOWN)
    parts = [f"{one_line(kind)} {count:,}" for kind, count in shown]
    rest = len(names) - sum(count for _, count in shown)
    return f"{', '.join([*parts, f'others {rest:,}'] if rest else parts)}: {few(names)}"


def few(names: Sequence[str], most: int = SHOWN) -> str:
    """The first names, as text that a terminal only shows."""
    return ", ".join(one_line(name) for name in names[:most]) + (", ..." if len(names) > most else "")
