"""What every fuzz target shares: seeded inputs, a time limit, and one judgement of what came of an input.

An input is made from its target's name and a number alone, so `tools/fuzz.py --target NAME --seed NUMBER` makes it
again on any machine.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import signal
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Literal

from holdfast.errors import HoldfastError

Outcome = Literal["accepted", "refused", "failed"]

LONGEST_MESSAGE = 1500
"""A line that nobody can read is no message; two paths and a list of names stay below this."""


class Wrong(AssertionError):
    """A result that differs from what a plain count or a plain reading of the input says."""


class Hang(BaseException):
    """An input took longer than its target allows; no `except Exception` may swallow it."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One way into holdfast for what others wrote.

    Args:
        name: as `--target` takes it.
        run: makes an input from the generator, in an empty folder, and hands it to holdfast; returning means that it
            was accepted and that the result was checked.
        share: how many of every thousand inputs of a campaign are its; cheap targets have more.
        seconds: that one input may take.
    """

    name: str
    run: Callable[[random.Random, Path], None]
    share: int
    seconds: float = 20.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came of one input.

    Args:
        outcome: accepted, refused in one line, or failed.
        detail: the line, or the traceback.
    """

    outcome: Outcome
    detail: str = ""


def judge(target: Target, seed: int, folder: Path) -> Verdict:
    """Run one input in a folder that is emptied before and after."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with _limited(target.seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.run(random.Random(f"{target.name}:{seed}"), folder)
    except HoldfastError as error:
        problem = _bad_message(str(error))
        return Verdict("failed", f"{problem}: {str(error)[:300]!r}") if problem else Verdict("refused", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return Verdict("failed", traceback.format_exc())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Verdict("accepted")


def _bad_message(message: str) -> str | None:
    """Why a message is no line a person can read."""
    if not message.strip():
        return "an empty message"
    if any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in message):
        return "a message with line breaks, control characters or half characters"
    if len(message) > LONGEST_MESSAGE:
        return f"a message of {len(message):,} characters"
    return None


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"still busy after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
