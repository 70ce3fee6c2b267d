"""Who may talk, and who shares the work, holds for a block and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from holdfast import console
from holdfast.processes import ALONE, Processes, current_processes, use_processes


def test_the_library_is_quiet_unless_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("nobody hears this")
    with suppress(KeyError), console.shown():
        console.say("one line")
        with console.shown(False):
            console.say("nor this")
            assert console.bar(3).disable
        raise KeyError
    console.say("nor that")
    assert capsys.readouterr().err == "one line\n"


KILLED = """
import os, signal, time
from holdfast import console
with console.shown():
    with console.bar(1):
        pass
    if not (child := os.fork()):
        console._Bar.get_lock().acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    console.say("still here")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_killed_in_the_middle_of_a_line_stops_no_other() -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0
    assert ended.stderr.rstrip().endswith("still here")


def test_figures_have_the_digits_they_are_given() -> None:
    assert [console.figure(value, 1) for value in (0.0, 7.25, 84.04, None, True)] == ["0.0", "7.2", "84.0", "-", "yes"]
    assert [console.figure(value) for value in (0.25, 84.04, 3)] == ["0.250", "84.0", "3"]


def test_processes_share_the_work_of_a_block() -> None:
    two = Processes(1, 2)
    seen = []
    with suppress(KeyError), use_processes(two):
        assert current_processes() is two
        thread = threading.Thread(target=lambda: seen.append(current_processes()))
        thread.start()
        thread.join()
        with use_processes(ALONE):
            assert not current_processes().several
        raise KeyError
    assert current_processes() is ALONE
    assert seen == [ALONE], "a thread of its own is alone"


def test_what_the_main_process_tells_it_does_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Processes(0, 2)
    monkeypatch.setattr(two, "send", lambda content: content)
    with use_processes(two):
        assert two.tell(lambda: current_processes().world) == 1
        assert current_processes() is two
