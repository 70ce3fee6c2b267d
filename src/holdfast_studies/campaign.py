"""Many cells: who does them, and how they are shared out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import torch

from holdfast import console
from holdfast.devices import choose_device
from holdfast.errors import HoldfastError
from holdfast.training import Interrupted
from holdfast_studies.jobs import Cell
from holdfast_studies.pending import Pending, Tally, distinct
from holdfast_studies.running import Places, run_cell
from holdfast_studies.side_by_side import CellRunner, threads_of
from holdfast_studies.store import Store
from holdfast_studies.workers import line


def part_of(cells: Sequence[Cell], part: str) -> list[Cell]:
    """The share of one of several machines: `2/4` is every fourth cell from the second.

    The shares depend on the cells alone, not on what is done already, so machines need not know of each other.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    number, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= parts:
        raise HoldfastError(f"--part takes N/M with N from 1 to M, such as 2/4, got '{part}'")
    return distinct(cells)[number - 1 :: parts]


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    places: Places,
    jobs: int | None = 1,
    deadline: float | None = None,
    devices: Sequence[str] = (),
    tally: Tally | None = None,
) -> dict[str, str]:
    """Run what is left of some cells; returns cell → why it could not be run, for those that could not.

    A cell that fails does not stop the others: what is finished is filed, and the same command tries the rest again.
    One cell at a time is run here, in the order given; more, or any number in a limited time, in processes of their
    own, longest first.

    Args:
        cells: what is wanted.
        store: what is done already, and where results go.
        places: of datasets and weights.
        jobs: cells side by side; None for as many as the devices have use for.
        deadline: when to stop at a checkpoint (`time.monotonic()`, which no change of the clock moves).
        devices: that share the cells; that of `places` when left out.
        tally: told what the campaign came to.
    """
    pending, told = Pending(cells, store, places), tally or Tally()
    chosen = [choose_device(name) for name in devices or (places.device,)]
    if jobs == 1 and deadline is None:
        _in_turn(pending, dataclasses.replace(places, device=str(chosen[0])), told)
    else:
        CellRunner(pending, run_cell, places, chosen, jobs, deadline, told).run()
    return pending.failed


def _in_turn(pending: Pending, places: Places, tally: Tally) -> None:
    """Run cells one after another, here."""
    device, threads = choose_device(places.device), torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(threads_of(device))
    tally.start()
    try:
        with console.bar(len(pending.cells), unit="cell", what="cells") as bar:
            while (cell := pending.take()) is not None:
                try:
                    run_cell(cell, pending.store, places)
                    tally.add(0.0, cells=1)
                except Interrupted:
                    raise
                except Exception as error:  # one bad cell must not end a night's work
                    pending.fail(cell, line(error))
                bar.update()
    finally:
        torch.set_num_threads(threads)
    tally.stop(left=0)
