"""Arms from trainings by name."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast_studies.jobs import Arm, Training


def named(jobs: Mapping[str, Training], seeds: tuple[int, ...] | None = None) -> list[Arm]:
    """Arms by name, in order.

    Args:
        jobs: arm → what is done for it.
        seeds: of all of them, where they are not those of the scale.
    """
    return [Arm(name=name, job=job, seeds=seeds) for name, job in jobs.items()]
