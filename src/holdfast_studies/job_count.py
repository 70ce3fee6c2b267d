"""How many cells to run side by side on one device."""

from __future__ import annotations

import os
import subprocess

import torch

from holdfast_studies.ceilings import Machine, cores

GAIN = 1.1
"""What more jobs must raise the throughput by to stay."""

ROOM = 0.9
"""Of a GPU's memory, for all jobs together."""

CPU_JOB = 2 << 30
"""Bytes of memory that a job on a CPU may need."""


class JobCount:
    """So many jobs as were asked for, or as many as pay.

    On a GPU, `auto` begins with one job and doubles them as long as that raises the images per second of all jobs by a
    tenth and memory suffices; the last doubling that did not pay is taken back.

    Args:
        count: to begin with.
        most: to end with; `count` where the number is fixed.
    """

    def __init__(self, count: int, most: int | None = None) -> None:
        self.count = count
        self._most = most or count
        self._before: tuple[int, float] | None = None

    @property
    def growing(self) -> bool:
        """Whether more are still to be tried."""
        return self.count < self._most

    def look(self, rate: float, memory: tuple[float, float] | None) -> None:
        """Decide on more or fewer, now that all jobs have been seen at work.

        Args:
            rate: of all jobs together, in any unit.
            memory: of the device: used and whole; None where nobody knows, which leaves the number as it is.
        """
        if self._before is not None and rate < GAIN * self._before[1]:
            self.count = self._most = self._before[0]
            return
        fits = 0 if memory is None else int(ROOM * memory[1] / max(memory[0], 1e-9) * self.count)
        more = min(2 * self.count, fits, self._most)
        if more <= self.count:
            self._most = self.count
            return
        self._before, self.count = (self.count, rate), more

    def crowded(self, running: int) -> None:
        """Memory ran out: one fewer from now on, as far as the number is ours to choose."""
        if self.growing or self._before is not None:
            self.count = self._most = max(1, running - 1)


def cpu_jobs(threads: int) -> int:
    """As many as there are cores for their threads, and memory."""
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    return max(1, min(cores() // threads, int(psutil.virtual_memory().available // CPU_JOB)))


def job_counts(jobs: int | None, devices: list[torch.device], threads: int, machine: Machine) -> list[JobCount]:
    """One for each device.

    Args:
        jobs: in all; None to find out.
        devices: that they run on.
        threads: of one job.
        machine: which may know how many pay on such a GPU.
    """
    if jobs is None:
        most = max(1, cores() // len(devices))
        known = min(machine.jobs or 1, most)
        return [
            JobCount(known, known if machine.settled else most)
            if device.type == "cuda"
            else JobCount(cpu_jobs(threads) if device.type == "cpu" else 1)
            for device in devices
        ]
    each, more = divmod(jobs, len(devices))
    return [JobCount(each + (n < more)) for n in range(len(devices))]


def gpu_memory(device: torch.device) -> tuple[float, float] | None:
    """Used and whole memory of a GPU in MiB, asked without becoming a user of it; None where nobody answers."""
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    number = device.index or 0
    words = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"]
    try:
        asked = visible[number] if number < len(visible) else str(number)
        said = subprocess.run([*words, "-i", asked], capture_output=True, text=True, timeout=10, check=True).stdout
        used, whole = said.split(",")
        return float(used), float(whole)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
