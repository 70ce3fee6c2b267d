"""Raw files and the pages made of them."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_study import FIGURE, registered, results, with_arms

from holdfast.errors import HoldfastError
from holdfast_studies import drawing
from holdfast_studies.base import Study
from holdfast_studies.document import document, read_plain, results_of, write
from holdfast_studies.jobs import SCALES, Arm, Scale, Training
from holdfast_studies.judging import POINTS
from holdfast_studies.overview import write_overview
from holdfast_studies.page import Finished, load, order, page_text, write_page
from holdfast_studies.results import Outcome, Results

ROOT = Path(__file__).resolve().parents[2]
RESULTS, TOOL = ROOT / "docs" / "results", ROOT / "tools" / "results.py"
PLANNED = {"high": [0, 1, 2], "low": [0, 1, 2]}


@pytest.fixture
def study() -> Iterator[Study]:
    with registered() as found:
        yield found


@pytest.fixture
def raw(study: Study, tmp_path: Path) -> Path:
    folder = tmp_path / "raw" / "pocket"
    folder.mkdir(parents=True)
    write(folder / "X9.json", document(study, "pocket", results(), PLANNED))
    return folder


def page_of(raw: Path, reading: Path | None = None) -> str:
    page = raw.parents[1] / "pocket.md"
    write_page("pocket", raw, page, raw.parents[1] / "figures" / "pocket", reading)
    return page.read_text("utf-8")


def test_a_raw_file_comes_back(study: Study, raw: Path) -> None:
    content = read_plain(raw / "X9.json")
    assert (content["study"], content["scale"]) == ("X9", "pocket")
    found = results_of(content)
    assert found.values("high", FIGURE) == results().values("high", FIGURE)
    assert found.values("high", "R@1") == [50.0] * 3, "kept though the study does not show it"
    assert found.series("high", "constant/path") == [[0, 2.0], [1, 2.0]]
    assert load(raw / "X9.json").void == []
    assert json.loads((raw / "X9.json").read_text())["verdicts"][0]["status"] == "holds"


def test_results_of_another_machine_are_added_and_none_is_lost(study: Study, raw: Path, tmp_path: Path) -> None:
    """Here are seeds 0 to 2 of both arms; from there come seed 1 of one, anew, and seed 3 of the other."""
    found = results(high=5.0, low=3.0, seeds=4)
    there = Results(outcomes={"high": found.outcomes["high"][1:2], "low": found.outcomes["low"][3:]})
    (tmp_path / "out" / "pocket").mkdir(parents=True)
    write(tmp_path / "out" / "pocket" / "X9.json", document(study, "pocket", there, PLANNED))
    runpy.run_path(str(TOOL))["take"](tmp_path / "out", tmp_path)
    joined = load(raw / "X9.json").results
    assert joined.values("high", FIGURE) == pytest.approx([2.0, 5.01, 2.02])
    assert joined.values("low", FIGURE) == pytest.approx([1.0, 1.01, 1.02, 3.03])


def test_numbers_are_rounded_curves_thinned_and_reasons_cut(study: Study) -> None:
    long = results()
    first = long.outcomes["high"][0]
    first.series.update({"constant/path": [[n, n / 3] for n in range(5 * POINTS)], "unused": [1.0]})
    first.figures.update({FIGURE: 1 / 3, "constant/unused": 1.0})
    long.outcomes["low"][0] = type(first)(seed=0, figures={}, stopped="it collapsed. The model is in a folder")
    arms = document(study, "pocket", long, PLANNED)["arms"]
    cell = arms["high"]["cells"][0]
    assert cell["figures"] == {FIGURE: 0.333333, "R@1": 50.0}
    assert set(cell["series"]) == {"constant/path"}
    kept = cell["series"]["constant/path"]
    assert len(kept) == POINTS
    assert (kept[0][0], kept[-1][0]) == (0, 5 * POINTS - 1)
    assert arms["low"]["cells"][0]["stopped"] == "it collapsed"


def test_figures_that_an_audit_doubts_are_named(study: Study, raw: Path) -> None:
    doubted = results()
    first = doubted.outcomes["high"][0]
    doubted.outcomes["high"][0] = dataclasses.replace(first, flags={"ers-fixed": ["collapse", "attack-backfires"]})
    content = document(study, "pocket", doubted, PLANNED)
    assert [("flags" in cell) for cell in content["arms"]["high"]["cells"]] == [True, False, False]
    write(raw / "X9.json", content)
    found = load(raw / "X9.json")
    assert found.results.outcomes["high"] == doubted.outcomes["high"]
    assert "- ers-fixed: collapse, attack-backfires (high, seed 0)." in page_text("pocket", [found], {})
    assert "doubt" not in page_text("pocket", [dataclasses.replace(found, results=results())], {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "study": "X9", "scale": "pocket"}'])
def test_a_broken_raw_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "X9.json").write_text(text)
    with pytest.raises(HoldfastError, match=r"X9\.json is no raw result"):
        load(tmp_path / "X9.json")


def test_a_page_tells_verdict_table_and_figures(raw: Path) -> None:
    text = page_of(raw)
    assert re.search(
        r"\*\*\d+ claims of the papers: 1 decided on the papers' ground \(1 hold, 0 do not\), 0 undecided", text
    )
    assert "| [X9](#x9) | high is above low | ✔ holds |" in text
    assert "| high | 2.01 ± 0.01 | the paper's | 3 | 1.5 s |" in text
    assert "HM[S,LGA]\\(&ICS)" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures == ["figures/pocket/X9-1.png", "figures/pocket/X9-2.png"]
    assert all((raw.parents[1] / picture).is_file() for picture in pictures)
    assert page_of(raw) == text


def test_the_curve_on_the_test_classes_and_its_best_epoch_are_shown(study: Study, raw: Path) -> None:
    assert "best on test" not in page_of(raw)
    found = results()
    found.outcomes["high"][0].series["test R@1"] = [[5, 30.0], [10, 41.0], [15, 40.0]]
    found.outcomes["high"][0].figures["best on test R@1"] = 41.0
    write(raw / "X9.json", document(study, "pocket", found, PLANNED))
    text = page_of(raw)
    assert "| arm | value | best on test R@1 | setting |" in text
    assert "| high | 2.01 ± 0.01 | 41.0 (1) |" in text
    assert "![R@1 on the test classes over epochs](figures/pocket/X9-3.png)" in text


def test_a_verdict_on_one_seed_is_marked(study: Study, raw: Path) -> None:
    assert "| ✔ holds |" in page_of(raw)
    write(raw / "X9.json", document(study, "pocket", results(seeds=1), PLANNED))
    text = page_of(raw)
    assert "| high is above low | ✔ holds (one seed) |" in text
    assert "- **✔ holds (one seed)**: high is above low." in text


def test_a_study_without_outcomes_is_not_run(study: Study, raw: Path) -> None:
    listed = "- X9: High lies above low"
    assert listed not in page_of(raw)
    write(raw / "X9.json", document(study, "pocket", results(seeds=0), PLANNED))
    text = page_of(raw)
    assert listed in text
    assert "### X9" not in text


def test_the_extent_counts_studies_begun(raw: Path) -> None:
    assert re.search(r"\| extent \| 1 of \d+ studies begun, 6 cells run \|", page_of(raw))


def test_every_study_has_the_command_that_runs_it(study: Study, raw: Path) -> None:
    assert "Computed in 9 s. `holdfast study X9 --scale pocket`" in page_of(raw)
    text = page_text("paper", [], {})
    assert "- X9: High lies above low. `holdfast study X9 --scale paper --place cub=DIR`" in text
    assert "`holdfast study A1 --scale paper --place cub=DIR --weights resnet50=FILE`" in text
    assert "`FILE@stride-1x1`" in text


@pytest.mark.parametrize("scale", SCALES)
def test_the_head_says_what_modes_of_attack_are(scale: Scale) -> None:
    head = page_text(scale, [], {}).partition("## Verdicts")[0]
    assert "*fixed* (or *attacked* alone) means single queries, a sample of them" in head
    assert "*replaced* (or *all images*) means all images attacked at once" in head


START = Training(recipe="pocket", settings={"epochs": 2})
TRAINED = Arm("high", Training(recipe="pocket", settings={"epochs": 3}, start=START))
LATER = with_arms(lambda _: [TRAINED])
EARLIER = with_arms(lambda _: [TRAINED, Arm("low", START)], "X8")


def finished(study: Study) -> Finished:
    found = Results(outcomes={arm.name: results().outcomes[arm.name] for arm in study.arms("pocket")})
    for outcome in found.outcomes.get("low", []):
        outcome.figures["log/seconds"] = 1.0
    plain = document(study, "pocket", found, PLANNED)
    return Finished(study=study, scale="pocket", results=found, plain=plain, verdicts=[])


def test_trainings_that_others_start_from_are_counted_or_named() -> None:
    lone = page_text("pocket", [finished(LATER)], {})
    assert "3 epochs, 4.5 s in all, without 3 trainings that cells start from." in lone
    assert "| computing time | 4.5 s, without 3 trainings that cells start from |" in lone
    both = page_text("pocket", [finished(EARLIER), finished(LATER)], {})
    assert "3 epochs, 7.5 s in all." in both, "its own cells, and the trainings alone of the others"
    assert "2 or 3 epochs, 9 s in all." in both
    assert "| computing time | 9 s |" in both


def test_other_files_beside_raw_ones_are_left_alone(raw: Path) -> None:
    before = page_of(raw)
    (raw / "notes.json").write_text("[]")
    assert page_of(raw) == before


def test_files_of_weights_stand_in_the_head(study: Study, raw: Path) -> None:
    found = results()
    found.outcomes["low"][0].place["weights"] = ["resnet18"]  # as older records have it, used or not
    write(raw / "X9.json", document(study, "pocket", found, PLANNED))
    assert "| weights |" not in page_of(raw)
    found.outcomes["high"][0].place["files"] = ["resnet50: w.pth (SHA-256 0123)"]
    write(raw / "X9.json", document(study, "pocket", found, PLANNED))
    assert "| weights | resnet50: w.pth (SHA-256 0123) |" in page_of(raw)


def test_a_tampered_verdict_does_not_survive(raw: Path) -> None:
    before = page_of(raw)
    content = json.loads((raw / "X9.json").read_text())
    content["verdicts"] = [{"claim": "high is above low", "status": "does not hold", "evidence": "trust me"}]
    content["title"] = content["notes"] = content["published"] = "trust me"
    (raw / "X9.json").write_text(json.dumps(content))
    assert page_of(raw) == before


def test_a_changed_result_changes_the_verdict(raw: Path) -> None:
    content = json.loads((raw / "X9.json").read_text())
    for cell in content["arms"]["high"]["cells"]:
        cell["figures"][FIGURE] = 0.5
    (raw / "X9.json").write_text(json.dumps(content))
    assert "| high is above low | ✘ does not hold |" in page_of(raw)


def test_a_remark_stands_beside_the_verdicts(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "pocket-X9.md").write_text("We looked twice.\n")
    text = page_of(raw, tmp_path)
    assert text.count("We looked twice.") == 1
    assert text.replace("\n\nWe looked twice.", "") == page_of(raw)


def test_studies_stand_in_the_order_of_the_papers() -> None:
    assert order(["X1", "E10", "A2", "E2", "M1", "G1", "H1", "A1"]) == ["A1", "A2", "G1", "E2", "E10", "H1", "M1", "X1"]


COMMITTED = sorted((RESULTS / "raw").glob("*/*.json"))


@pytest.mark.skipif(not COMMITTED, reason="no results are in yet")
def test_committed_pages_are_what_the_code_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "write", lambda _, file: file.touch())  # which are drawn; test_drawing.py says how
    (tmp_path / "reading").symlink_to(RESULTS / "reading")
    for scale in SCALES:
        (tmp_path / "figures" / scale).mkdir(parents=True)
        found = write_page(
            scale, RESULTS / "raw" / scale, tmp_path / f"{scale}.md", tmp_path / "figures" / scale, RESULTS / "reading"
        )
        text = (tmp_path / f"{scale}.md").read_text("utf-8")
        assert text == (RESULTS / f"{scale}.md").read_text("utf-8"), "run `make results`"
        if scale == "paper":
            write_overview(tmp_path, found)
        drawn = {file.name for file in (tmp_path / "figures" / scale).iterdir()}
        assert drawn == {file.name for file in (RESULTS / "figures" / scale).glob("*")}
    assert (tmp_path / "README.md").read_text("utf-8") == (RESULTS / "README.md").read_text("utf-8")


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_committed_results_are_where_they_belong(file: Path) -> None:
    content = read_plain(file)
    assert (content["scale"], content["study"]) == (file.parent.name, file.stem)
    assert not re.search(r"/(?:work|tmp|home|root)/", file.read_text("utf-8"))


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`tools/results.py`."""
    monkeypatch.syspath_prepend(RESULTS.parents[1] / "tools")
    return importlib.import_module("results")


def test_of_two_cells_of_a_seed_the_fuller_one_stays(tool: Any) -> None:
    def cells(*figures: dict[str, float]) -> Results:
        return Results(outcomes={"a": [Outcome(seed=seed, figures=own) for seed, own in enumerate(figures)]})

    before = cells({"R@1": 1.0, "ERS": 2.0}, {"R@1": 3.0}, {"R@1": 4.0})
    found = tool.joined(cells({"R@1": 5.0}, {"R@1": 6.0, "ERS": 7.0}), before)
    assert [outcome.figures for outcome in found.outcomes["a"]] == [
        {"R@1": 1.0, "ERS": 2.0},
        {"R@1": 6.0, "ERS": 7.0},
        {"R@1": 4.0},
    ]


def test_a_cell_that_stopped_gives_way_to_one_that_did_not(tool: Any) -> None:
    stopped = Outcome(seed=0, figures={"collapsed": 1.0}, stopped="collapsed")
    finished = Outcome(seed=0, figures={"R@1": 1.0})
    for before, new in ((stopped, finished), (finished, stopped)):
        found = tool.joined(*(Results(outcomes={"a": [one]}) for one in (new, before)))
        assert found.outcomes["a"] == [finished]


def test_the_tool_takes_raw_files_and_writes_all_pages(tool: Any, raw: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    tool.take(raw.parent, docs)
    tool.write(docs)
    assert "✔ holds" in (docs / "pocket.md").read_text("utf-8")
    assert "No results are in yet." in (docs / "paper.md").read_text("utf-8")
    assert json.loads((docs / "leaderboard.json").read_text()) == []
    assert "No models yet" in (docs / "leaderboard.md").read_text("utf-8")
