"""Full disks, read-only folders and damaged checkpoints cost no more than the steps since the last checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

from fault_damage import damage_checkpoints
from fault_disks import full_disk, read_only
from fault_outcomes import failures


def test_a_full_disk(tmp_path: Path) -> None:
    outcomes = full_disk(tmp_path, random.Random(2), 3)
    assert len(outcomes) == 3
    assert failures(outcomes) == []


def test_a_folder_that_turns_read_only(tmp_path: Path) -> None:
    assert failures(read_only(tmp_path, random.Random(2), 1)) == []


def test_a_checkpoint_damaged_in_every_way(tmp_path: Path) -> None:
    outcomes = damage_checkpoints(tmp_path, random.Random(2), 2)
    assert len(outcomes) > 30
    assert failures(outcomes) == []
