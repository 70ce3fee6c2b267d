from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.search import save_vectors
from index_cases import picture_table, pictures, unit_vectors


def test_npz_holds_ids_labels_splits_and_vectors(tmp_path: Path) -> None:
    vectors, table = unit_vectors(7, 4), picture_table(pictures(7))
    file = save_vectors(tmp_path / "v", torch.tensor(vectors), table)
    assert file == tmp_path / "v.npz"
    stored = np.load(file, allow_pickle=False)
    np.testing.assert_array_equal(stored["vectors"], vectors)
    assert stored["ids"].tolist() == table.ids
    assert stored["label_names"].tolist() == [f"class {i % 5}" for i in range(7)]
    assert set(stored["splits"].tolist()) == {"test"}


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'holdfast[parquet]'")
    vectors, table = unit_vectors(7, 4), picture_table(pictures(7))
    stored = parquet.read_table(save_vectors(tmp_path / "v.parquet", torch.tensor(vectors), table)).to_pydict()
    np.testing.assert_array_equal(np.array(stored["vectors"], np.float32), vectors)
    assert stored["ids"] == table.ids
    assert stored["labels"] == table.labels.tolist()
    assert stored["splits"] == ["test"] * 7


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HoldfastError, match=r"holdfast\[parquet\]"):
        save_vectors(tmp_path / "v.parquet", torch.zeros(1, 2), picture_table(pictures(1)))


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"\.npz or \.parquet"):
        save_vectors(tmp_path / "v.pickle", torch.zeros(1, 2), picture_table(pictures(1)))
