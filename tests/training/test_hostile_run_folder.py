"""A run folder whose files are JSON that no program wrote: nested without end, or numbers without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.audit.files import make_room
from holdfast.errors import HoldfastError
from holdfast.report import is_current
from holdfast.report.origin import find_origin
from holdfast.training.folder import TrainingFolder
from holdfast.training.logs import read_log
from holdfast_studies.document import read_plain

HOSTILE = pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f'{{"step": {"9" * 5000}}}', "\ud800"])


@HOSTILE
def test_every_reader_of_a_run_ends(text: str, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    for name in ("evaluation.json", "audit.json", "artifacts/exhibits.json"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"step": 1}\n' + text.encode("utf-8", "surrogatepass") + b'\n{"step": 2}'
    )
    assert TrainingFolder(tmp_path).finished() is None
    assert [entry["step"] for entry in read_log(tmp_path / "metrics.jsonl")] == [1, 2]
    assert not is_current(tmp_path)
    with pytest.raises(HoldfastError, match="damaged"):
        find_origin(tmp_path)
    with pytest.raises(HoldfastError, match="no raw result"):
        read_plain(tmp_path / "audit.json")
    _, kept = make_room(tmp_path / "audit.json", {"identity": "another", "quick": False})
    assert kept is not None
    assert kept.exists()
