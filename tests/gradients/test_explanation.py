"""The numbers and the pictures of a rule."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from gradient_oracle import batch, kept, pair_weight, triplet_weight

from holdfast import gradients, metrics
from holdfast.cli import main
from holdfast.errors import DataError, HoldfastError
from holdfast.gradients import diagram
from holdfast.gradients import explanation as explanations
from holdfast.gradients.named import entries


def test_pair_curves_equal_the_formulas() -> None:
    for name in ("triplet-euclidean", "circle", "binomial-deviance"):
        (curve,) = gradients.explain(name, points=9).pair
        assert curve.gap is None
        for s, pull, push in zip(torch.linspace(-1, 1, 9).tolist(), curve.positive, curve.negative, strict=True):
            pair = gradients.named(name).components.pair
            assert (float(pull), float(push)) == pytest.approx(pair_weight(pair, s, s, [], []))


@pytest.mark.parametrize("name", ["ms", "best"])
def test_relative_weights_are_shown_with_equal_and_with_farther_others(name: str) -> None:
    equal, farther = gradients.explain(name, points=9).pair
    assert (equal.gap, farther.gap) == (0.0, 0.1)
    pair = gradients.named(name).components.pair
    for row, s in enumerate(torch.linspace(-1, 1, 9).tolist()):
        for curve in (equal, farther):
            expected = pair_weight(pair, s, s, [s - curve.gap], [s - curve.gap])
            assert (float(curve.positive[row]), float(curve.negative[row])) == pytest.approx(expected)


def test_triplet_weight_and_mask_lie_on_the_diagram() -> None:
    found = gradients.explain(gradients.build(rule="sc-triplet", mask="sc2", triplet="cir"), points=5)
    assert found.name == "cos × con × cir × sc2", "a combination without a name is called by its parts"
    for i, s_an in enumerate(found.grid.tolist()):
        for j, s_ap in enumerate(found.grid.tolist()):
            assert float(found.triplet[i, j]) == pytest.approx(triplet_weight("cir", s_ap, s_an))
            assert bool(found.pulls[i, j]) == kept("sc2", s_ap, s_an)


def test_force() -> None:
    found = gradients.explain("best", points=5)
    for row, s in enumerate(found.grid.tolist()):
        assert float(found.force["euc"][row]) == pytest.approx(math.sqrt((1 + s) / 2))
        assert float(found.force["cos"][row]) == pytest.approx(math.sqrt(1 - s * s))


def test_diagram_holds_the_nearest_pairs_and_its_share_is_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    z, labels = batch(0, classes=6, per_class=4)
    labels[0] = 99  # an image without a positive has no place in the diagram
    monkeypatch.setattr("holdfast.metrics.base.BLOCK", 3 * len(z))
    found = diagram(z, labels)
    s = (z @ z.T).fill_diagonal_(-torch.inf)
    same = labels[:, None] == labels[None, :]
    expected = [(s[i][same[i]].max(), s[i][~same[i]].max()) for i in range(1, len(z))]
    near, far = torch.tensor(expected).T
    torch.testing.assert_close(found.s_ap, near, check_dtype=False)
    torch.testing.assert_close(found.s_an, far, check_dtype=False)
    recall = metrics.retrieval(z[1:], labels[1:], ks=(1,))["R@1"]
    with_all = explanations.Diagram(*(values for values in diagram(z[1:], labels[1:]))).solved
    assert with_all == pytest.approx(recall)
    with pytest.raises(DataError, match="two classes"):
        diagram(z, torch.arange(len(z)))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_figures_are_drawn(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rule.{ending}"
    z, labels = batch(1)
    found = gradients.explain(gradients.build(mask="sc1"), {"train": (z, labels), "test": (-z, labels)})
    titles = [axes.get_title(loc="left") for axes in found.figure().axes]
    assert [title[:1] for title in titles if title] == ["a", "b", "c", "d", "d"]
    found.save(file)
    assert file.stat().st_size > 10_000
    with pytest.raises(HoldfastError, match="cannot write"):
        found.save(tmp_path / "rule.nonsense")


def test_every_part_has_a_line() -> None:
    lines = entries()
    assert len(lines) == 8 + 4 + 6 + 3 + 2
    assert all(len(text) > 10 for text in lines.values())


def test_explain_command_shows_a_run(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny |= {"epochs": 1, "loss": {"name": "gradient", "rule": "ms"}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    assert main(["train", "tiny.yaml", "--out", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["R@1"] >= 0
    assert main(["explain", "ms", "--run", "run", "--data", "glyphs", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert Path(printed["file"]).stat().st_size > 10_000
    assert set(printed["diagrams"]) == {"train", "test"}
    assert main(["explain", "{rule: ms, mask: sc1}", "--out", "folder/ms.svg"]) == 0
    assert (tmp_path / "folder" / "ms.svg").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["beest"], "did you mean 'best'"),
        (["{pairs: sig}"], "did you mean 'pair'"),
        (["{pair: "], "is not a block"),
        (["{pair: sig, pair: con}"], "a second time"),
        (["best", "--data", "glyphs"], "belong together"),
        (["best", "--out", "a.xyz"], "cannot write"),
    ],
)
def test_mistakes_end_with_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
