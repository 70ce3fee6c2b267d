"""Protocol `adml` with the whole set replaced: make-up of batches, units, and a plain loop as an oracle."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import holdfast
from holdfast import audit, seeds
from holdfast.audit.adml import PUBLISHED_BATCH, Adml, MakeUp
from holdfast.cli import main
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import HoldfastError, RecipeError
from holdfast.mining import draw
from holdfast.models import Embedder
from holdfast.report.sections.provenance import audit_again
from holdfast.run_folder import read_run


def labels_of(sizes: list[int]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def cut(name: str, labels: Tensor, seed: int = 0) -> list[list[int]]:
    found = MakeUp.of(name).cut(labels, torch.Generator().manual_seed(seed))
    return [found.order[part].tolist() for part in found.blocks]


CUB = [60] * 45 + [58] * 40 + [51, 50, 49, 47, 41, *[60] * 10]
"""Sizes like those of CUB's hundred test classes."""


@pytest.mark.parametrize("name", ["56x2", "28x4", "shuffled", "ordered"])
def test_every_image_is_in_one_batch_of_112(name: str) -> None:
    labels = labels_of(CUB)
    batches = cut(name, labels)
    assert sorted(row for batch in batches for row in batch) == list(range(len(labels)))
    assert {len(batch) for batch in batches[:-1]} == {PUBLISHED_BATCH}
    assert 2 <= len(batches[-1]) < 2 * PUBLISHED_BATCH
    assert cut(name, labels) == batches
    assert (cut(name, labels, seed=1) == batches) == (name == "ordered")


@pytest.mark.parametrize(("name", "classes", "each"), [("56x2", 56, 2), ("28x4", 28, 4)])
def test_balanced_batches_have_as_many_images_of_each_class(name: str, classes: int, each: int) -> None:
    labels = labels_of(CUB)
    batches = cut(name, labels)
    full = [torch.unique(labels[batch], return_counts=True)[1].tolist() for batch in batches]
    exact = [counts == [each] * classes for counts in full]
    # Odd classes run out in between; from then on a class may lend a batch fewer images than the others do.
    assert all(exact[: len(exact) // 2])
    assert sum(exact) > 0.8 * len(exact)
    assert all(max(counts) <= 2 * each for counts in full[:-1])


def test_a_batch_with_nothing_to_tell_apart_is_drawn_again_or_refused() -> None:
    twos = labels_of([2] * 60)  # shuffled batches of 112 leave 8, which may be of eight classes
    for seed in range(6):
        for batch in cut("shuffled", twos, seed):
            counts = torch.unique(twos[batch], return_counts=True)[1]
            assert len(counts) > 1
            assert counts.max() > 1
    with pytest.raises(RecipeError, match="without any negative pair"):
        cut("ordered", labels_of([112, 5, 5]))
    with pytest.raises(RecipeError, match="without any positive pair"):
        cut("56x2", torch.arange(40))
    assert len(cut("ordered", labels_of([56, 56, 1]))) == 1  # one image too many joins the batch before


@pytest.mark.parametrize("name", ["1x2", "56x1", "56x", "sorted", "0x2", "56X2", ""])
def test_impossible_batches(name: str) -> None:
    with pytest.raises(RecipeError, match="batches: "):
        MakeUp.of(name)


def replaced_by_hand(
    model: Embedder, table: ImageTable, order: Tensor, cuts: list[slice], goal: str, eps: float, step: float
) -> float:
    """R@1 of a set whose batches were moved by plain sign steps along the printed objective."""
    images = ImageStore(table, model.view, torch.device("cpu")).inputs(torch.arange(len(table)))
    labels, model = torch.tensor(table.labels), model.eval()
    moved = torch.empty(len(table), model.dim)
    for part in cuts:
        rows = order[part]
        start = images[rows]
        same = labels[rows][:, None] == labels[rows]
        near, far = same & ~torch.eye(len(rows), dtype=torch.bool), ~same
        generator = seeds.generator(0, "targets", "triplet", part.start)
        drawn = draw.uniform(near, generator), draw.uniform(far, generator)

        def objective(
            z: Tensor, near: Tensor = near, far: Tensor = far, drawn: tuple[Tensor, Tensor] = drawn
        ) -> Tensor:
            squared = 2 - 2 * z @ z.T
            if goal == "alignment":
                return ((squared * near).sum(1) / near.sum(1).clamp_min(1)).sum()
            if goal == "uniformity":
                return (((-squared).exp() * far).sum(1) / far.sum(1).clamp_min(1)).sum()
            index = torch.arange(len(z))
            gap = squared[index, drawn[0]] - squared[index, drawn[1]] + 0.2
            return (gap.relu() * (near.any(1) & far.any(1))).sum()

        x = start.clone()
        for _ in range(7):
            x.requires_grad_()
            (gradient,) = torch.autograd.grad(objective(model(x)), x)
            x = (x.detach() + step * gradient.sign()).clamp(start - eps, start + eps).clamp(0, 1)
        moved[rows] = model(x).detach()
    similarity = moved @ moved.T
    similarity.fill_diagonal_(-2)
    return 100 * float((labels[similarity.argmax(1)] == labels).double().mean())


@pytest.mark.parametrize("batches", ["6x4", "ordered"])
@pytest.mark.parametrize("units", ["pixel", "normalized"])
def test_replaced_is_a_plain_loop_over_batches(batches: str, units: str, model: Embedder, table: ImageTable) -> None:
    table = table.subset(np.isin(table.labels, np.unique(table.labels)[:12]))
    settings = {"batches": batches, "units": units}
    found = audit.run(model, table, protocol={"name": "adml", "mode": "replaced", "eps": "0.0628", **settings}).document
    factor = 1.0 if units == "pixel" else float(model.std.mean())
    assert found["budget"]["eps_pixel"] == pytest.approx(0.0628 * factor)
    assert found["budget"]["eps_normalized"] == pytest.approx(0.0628 * factor / float(model.std.mean()))
    assert found["settings"] == {"hinge": True, "batches": batches}
    made = MakeUp.of(batches).cut(torch.tensor(table.labels), seeds.generator(0, "batches"))
    for goal in ("alignment", "uniformity", "triplet"):
        expected = replaced_by_hand(model, table, made.order, made.blocks, goal, 0.0628 * factor, 0.014 * factor)
        # A pixel whose gradient is zero but for rounding may step either way, and with it perhaps one query.
        assert found["metrics"][f"{goal}/R@1"] == pytest.approx(expected, abs=100 * 2 / len(table))


def test_the_make_up_decides(model: Embedder, table: ImageTable) -> None:
    """In batches of a few whole classes, images pulled to other classes keep the company of their own."""
    recall = {
        batches: audit.run(
            model, table, protocol={"name": "adml", "mode": "replaced", "batches": batches, "eps": "0.1"}
        ).document["metrics"]["uniformity/R@1"]
        for batches in ("28x4", "ordered")
    }
    assert recall["28x4"] < recall["ordered"] - 10


def test_the_printed_triplet_has_a_hinge(model: Embedder, table: ImageTable) -> None:
    recall = [
        audit.run(model, table, protocol=Adml(hinge=hinge), limit=64).document["metrics"]["triplet/R@1"]
        for hinge in (True, False)
    ]
    assert recall[0] > recall[1]


def test_an_interrupted_audit_of_drawn_batches_goes_on(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"protocol": {"name": "adml", "mode": "replaced", "batches": "6x4"}, "limit": 80}
    whole = audit.run(model, table, **arguments).document
    calls = iter(range(1000))
    attack = Adml._joint

    def breaks(self: Adml, *given: Any) -> Any:
        inner = attack(self, *given)

        def one(block: slice) -> Any:
            if next(calls) == 3:
                raise KeyboardInterrupt
            return inner(block)

        return one

    with monkeypatch.context() as patch:
        patch.setattr(Adml, "_joint", breaks)
        with pytest.raises(KeyboardInterrupt):
            audit.run(model, table, out=tmp_path, **arguments)
    kept = tmp_path / "artifacts" / "audit-adml-replaced.partial"
    assert len(list(kept.glob("*.safetensors"))) == 3
    again = audit.run(model, table, out=tmp_path, **arguments).document
    assert again["metrics"] == whole["metrics"]
    other = audit.run(model, table, out=tmp_path, **{**arguments, "protocol": Adml("replaced", batches="3x8")}).document
    assert other["identity"] != again["identity"]
    assert (tmp_path / "audit-adml-replaced.1.json").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--protocol", "ers", "--units", "normalized"], "units"),
        (["--protocol", "stax", "--no-hinge"], "hinge"),
        (["--protocol", "adml", "--batches", "28x4"], "--mode replaced"),
        (["--protocol", "adml", "--mode", "replaced", "--batches", "28"], "batches: expected"),
    ],
)
def test_mistakes(words: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(run), "--data", "glyphs", *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_both_units_are_printed(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", str(run), "--data", "glyphs", "--limit", "12", "--protocol", "adml", "--out", str(tmp_path)]
    assert main([*words, "--units", "normalized"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"eps 4/255 \(0\.0314 normalised\)", printed)  # the model divides by a deviation of one half
    assert main([*words, "--units", "pixel", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget"]["eps_normalized"] == pytest.approx(0.0628)


def test_compared_audits_have_one_make_up(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    from holdfast.report.comparison import unfair
    from holdfast.report.runs import read_runs

    folders = []
    for batches in ("6x4", "3x8"):
        folders.append(tmp_path / batches)
        settings = {"batches": batches}
        audit.run(model, table, protocol={"name": "adml", "mode": "replaced", **settings}, limit=48, out=folders[-1])
    assert unfair(read_runs(folders)) == {"adml": "ADML: batches 6x4 (6x4) and 3x8 (3x8)"}


def test_queries_are_refused(model: Embedder, table: ImageTable) -> None:
    half = np.where(np.arange(len(table)) % 2 == 0, "query", "gallery")
    with pytest.raises(HoldfastError, match="queries and a gallery"):
        holdfast.audit.run(model, table.with_splits(half), protocol=Adml(mode="replaced"))


def test_the_pages_command_asks_for_the_same_attack(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    asked = {"name": "adml", "mode": "replaced", "eps": 0.1, "units": "normalized", "batches": "4x2", "hinge": False}
    ball = {"norm": "l2", "eps": 1.5}
    document = audit.run(model, table, asked, limit=64, quick=True, ensemble=ball, out=tmp_path).document
    told = audit_again(read_run(tmp_path), "audit-adml-replaced.json", document)
    options = "--protocol adml --mode replaced --eps 0.1 --units normalized --batches 4x2 --no-hinge"
    assert f"{options} --robust-norm l2 --robust-eps 1.5 --limit 64 --quick" in told
