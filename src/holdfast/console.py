"""What a person sees in the terminal: messages, a bar with time left, plain tables.

Progress and messages go to standard error, so that standard output stays for results. As a library holdfast says
nothing; `with console.shown():` lets it, as the command line does.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import tqdm

from holdfast.errors import harmless

_visible: ContextVar[bool] = ContextVar("visible", default=False)


class _Bar(tqdm):  # type: ignore[type-arg]
    """A bar by a clock that nobody sets: tqdm's own stands still for an hour when the time is put back by one.

    Its lock is of one process: tqdm's own is one of all that were forked from each other, and where one of them is
    killed in the middle of a line, the others wait for ever.
    """

    monitor_interval = 0  # no thread that might hold the lock when somebody forks

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if not self.disable:
            self._time = time.monotonic
            self.start_t = self.last_print_t = self._time()


_Bar.set_lock(threading.RLock())


@contextmanager
def shown(visible: bool = True) -> Iterator[None]:
    """Show the progress and messages of the block; with False, keep it quiet."""
    before = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(before)


def visible() -> bool:
    """Whether anything is shown."""
    return _visible.get()


def say(text: str) -> None:
    """One line, above a running bar if there is one."""
    if _visible.get():
        _Bar.write(harmless(text), file=sys.stderr)


def bar(total: int, done: int = 0, unit: str = "step", what: str = "") -> tqdm[Any]:
    """A progress bar with time left; without a terminal it refreshes every ten seconds instead of ten a second."""
    patient = not sys.stderr.isatty()
    return _Bar(
        total=total,
        initial=done,
        unit=unit,
        desc=what,
        disable=not _visible.get(),
        file=sys.stderr,
        mininterval=10.0 if patient else 0.1,
        ncols=100 if patient else None,
        dynamic_ncols=not patient,
        leave=not patient,
        smoothing=0,  # over the whole run: evaluations and checkpoints count in the time left
        bar_format="{desc}{percentage:3.0f}% {bar:8} {n_fmt}/{total_fmt} [{remaining} left]{postfix}",
    )


def figure(value: Any, digits: int | None = None) -> str:
    """A number as a table shows it.

    Args:
        value: or what stands in its place.
        digits: after the point; fewer for large numbers when left out.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{digits if digits is not None else 1 if abs(value) >= 10 else 3}f}"
    return str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[int] = ()) -> str:
    """Aligned columns; the first (and those in `left`) to the left, the others to the right."""
    cells = [list(columns), *[[figure(value) for value in row] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    for line in cells:
        padded = [
            cell.ljust(width) if i == 0 or i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    rule = "  ".join("─" * w for w in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def listing(entries: Mapping[str, str]) -> str:
    """Names with a line on each."""
    width = max((len(name) for name in entries), default=0)
    return "\n".join(f"{name.ljust(width)}  {text}".rstrip() for name, text in entries.items())
