"""What a page may claim: one measurement per sentence, no verdict on weak attacks, commands that give it again."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from reported_runs import SCORES, audit, change, run_folder, write

from holdfast.audit.ers import ers_score
from holdfast.report.page import make
from holdfast.report.sections.eps_curve import curve
from holdfast.report.sections.provenance import audit_again
from holdfast.run_folder import read_run

EXHIBITS = Path("artifacts") / "exhibits.json"
OTHER = {"data": {"name": "omniglot", "root": "/home/alice/private/omni"}, "split": "test"}
SIZES = [0, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return run_folder(tmp_path)


def text_of(run: Path) -> str:
    page = re.sub(r"<(style|script).*?</\1>", " ", make(run).html.replace("<wbr>", ""), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split()).replace("\u202f", " ")


def titles(run: Path) -> dict[str, str]:
    found = re.findall(r'<h2 id="(\w+)-title">(.*?)</h2>', make(run).html, re.S)
    return {key: html.unescape(title).replace("\u202f", " ") for key, title in found}


def set_curve(run: Path, recalls: list[Any], **more: Any) -> None:
    radius = {"goal": "misrank", "images": 200, "steps": 16, "eps_pixel": SIZES, "R@1": recalls, **more}
    change(run / EXHIBITS, radius=radius)


def test_exhibits_of_other_data_are_not_mixed_in(run: Path) -> None:
    change(run / EXHIBITS, made={**OTHER, "seed": 3})
    text = text_of(run)
    assert "Two sets of images on this page" in text
    assert text.count("Of omniglot:omni, test split, not of the data of the figures above") == 8
    # The audit's own 200 images, of the run's data, and not the curve of the other data.
    assert "Of 200 attacked queries, 77.0 % are right as they are, and 20.0 % after a barely visible change" in text
    assert "R@1 of 200 queries falls from 76.0 % to 4.0 %" in titles(run)["eps"]


def test_nothing_of_other_data_stands_beside_own_figures(run: Path) -> None:
    points = [{"eps": 0.0, "R@1": 76.0}, {"eps": 1 / 255, "R@1": 10.0}]
    write(run / "audit-thorough-fixed.json", {**audit(), "protocol": "thorough", "curve": points})
    shown = ("One search, before and after the attack", "worst of many attacks (thorough audit)")
    assert all(words in make(run).html for words in shown)
    change(run / EXHIBITS, made=OTHER)
    assert not any(words in make(run).html for words in shown)


@pytest.mark.parametrize(
    "made", [{"data": {"name": "glyphs", "skip_bad": True}, "split": "test"}, {}, {"data": "glyphs"}]
)
def test_exhibits_of_the_same_data_need_no_note(run: Path, made: dict[str, Any]) -> None:
    change(run / EXHIBITS, made=made)
    assert "Two sets of images" not in text_of(run)


def test_exhibits_of_the_same_images_elsewhere_need_no_note(run: Path) -> None:
    change(run / "evaluation.json", content="1f" * 16)
    change(run / EXHIBITS, made={**OTHER, "content": "1f" * 16})
    assert "Two sets of images" not in text_of(run)
    change(run / EXHIBITS, made={"data": {"name": "glyphs"}, "split": "test", "content": "2e" * 16})
    assert "Two sets of images" in text_of(run)


def test_another_split_is_other_data(run: Path) -> None:
    change(run / EXHIBITS, made={"data": {"name": "glyphs"}, "split": "train"})
    assert "are of glyphs, train split" in text_of(run)


@pytest.mark.parametrize(("at_eight", "words"), [(76.01, "stays at 76.0 %"), (80.0, "rises from 76.0 % to 80.0 %")])
def test_a_title_says_which_way_it_goes(run: Path, at_eight: float, words: str) -> None:
    set_curve(run, [76.0, 75.0, 70.0, 72.0, at_eight, 0.0])
    assert titles(run)["eps"] == f"R@1 of 200 queries {words} at 8/255 per pixel"


def test_before_and_after_and_what_training_warned_of(run: Path) -> None:
    start = {"of": "the plain features of mobilenet_v2", "test": 80.6, "validation": 90.0}
    kept = {"epoch": 3, "why": "the best R@1 on the validation classes", "validation": 88.0}
    change(run / "evaluation.json", start=start, kept=kept, warnings=["training lost: R@1 80.6 → 78.8"])
    change(run / "audit.json", flags=[])
    text = text_of(run)
    assert "3,150 searches; before training, 80.6 % (the plain features of mobilenet_v2)" in text
    assert "of 3,150 test images find their class first; 80.6 % before training" in text
    assert "kept: epoch 3, the best R@1 on the validation classes (90.0 → 88.0)" in text
    assert titles(run)["flags"] == "1 reason to read these figures with care"
    assert "Doubt: training training lost: R@1 80.6 → 78.8" in text
    assert "othing suggests that these figures mislead" not in text


def test_the_headline_is_the_whole_evaluation(run: Path) -> None:
    # Six searches of an audit may go as they like: they are no headline, with an evaluation or without.
    change(run / "audit.json", images=6, limit=6, metrics={**audit()["metrics"], "R@1": 83.3})
    assert "The nearest match is right 78.8 % of the time, in 3,150 searches" in text_of(run)
    (run / "evaluation.json").unlink()
    assert "The nearest match is right 78.8 % of the time, in 3,150 searches" in text_of(run)  # 667 failures of 3,150
    change(run / EXHIBITS, failures=None)
    text = text_of(run)
    assert "nearest match is right 83.3 % of the time in a sample of 6" in text
    assert "R@1, clean images 83.3 % R@1: 83.3 of 100 of 6 sampled test images find their class first" in text
    assert "The nearest match is right 83.3 %" not in text


def test_ers_stands_beside_the_ten_terms_it_is_the_mean_of(run: Path) -> None:
    shown = re.search(r'<dl class="terms">(.*?)</dl>', make(run).html, re.S)
    assert shown is not None
    terms = [float(term) for term in re.findall(r"<dd>([\d.]+)</dd>", shown[1])]
    assert len(terms) == 10
    assert sum(terms) / 10 == pytest.approx(ers_score(SCORES), abs=0.05)


def test_no_pair_is_the_most_confused_among_equals(run: Path) -> None:
    pairs = [{"a": name, "b": "x", "times": 2, "share": 20.0} for name in ("one", "two")]
    change(run / EXHIBITS, confusions=pairs)
    assert titles(run)["confusions"] == "No two classes are confused more often than others: 2 times at most"


def test_a_page_of_before_names_what_it_lacks(run: Path) -> None:
    document = json.loads((run / EXHIBITS).read_text("utf-8"))
    write(run / EXHIBITS, {key: value for key, value in document.items() if key not in ("classes", "failures")})
    text = text_of(run)
    assert "Classes, Failures: not collected by the version that made this page's images" in text
    assert "Most often confused" in text


def test_validation_that_stays(run: Path) -> None:
    lines = [{"step": n, "epoch": n, "validation": {"R@1": 50.0 + n / 100}} for n in range(3)]
    write(run / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert titles(run)["curves"] == "Validation R@1 stayed at 50.0 %"


def test_last_and_best_on_test_are_named(run: Path) -> None:
    recalls = [30.0, 58.0, 59.31, 58.9]
    lines = [{"step": n, "epoch": n, "test": {"R@1": recall}} for n, recall in enumerate(recalls)]
    write(run / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert titles(run)["curves"] == "Test R@1 rose from 30.0 % to 58.9 %"
    best = "Best on test, as papers often publish it: 59.3 % , epoch 2."
    assert f"Test R@1 of the model that is reported (last): 78.8 % . {best}" in text_of(run)
    change(run / "evaluation.json", reported="best on validation", best_on_test={"epoch": 1, "R@1": 61.0})
    assert "reported (best on validation): 78.8 % . Best on test, as papers often publish it: 61.0 %" in text_of(run)
    for damage in (7, "text", [], {"R@1": "high"}, {"R@1": [], "epoch": {}}):
        change(run / "evaluation.json", best_on_test=damage, reported=damage)
        assert "Test R@1 rose" in text_of(run)


@pytest.mark.parametrize(
    ("sizes", "recalls"),
    [(7, [1.0]), ([0.0], 7), ([0.0, 0.1], [1.0]), ([0.0], [None]), ("ab", "cd"), ([0.0], [float("nan")]), (None, None)],
)
def test_a_damaged_curve_is_no_curve(run: Path, sizes: Any, recalls: Any) -> None:
    set_curve(run, recalls, eps_pixel=sizes)
    assert curve({"eps_pixel": sizes, "R@1": recalls}) == []
    assert "Attack strength" in make(run).missing


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"metrics": {"R@1": 77.0, **SCORES, "ERS": 60.0, "collapsed": True}}, "The embedding has collapsed"),
        ({"flags": [{"name": "masked", "level": "error", "why": "w", "advice": "a"}]}, "not to trust its figures"),
        ({"budget": {"eps_pixel": 4 / 255, "steps": 32}}, "weaker than those that the score is defined with (8/255"),
        ({"budget": {"eps_pixel": 8 / 255, "steps": 8}}, "weaker than"),
        ({"budget": {}}, "is not recorded"),
    ],
)
def test_no_verdict_where_it_would_mislead(run: Path, changes: dict[str, Any], why: str) -> None:
    assert titles(run)["attacks"].endswith("standing: it resists in part")
    change(run / "audit.json", **changes)
    assert titles(run)["attacks"].endswith("standing")
    assert why in text_of(run)


def test_small_pictures_have_a_larger_usual_radius(run: Path) -> None:
    file = run / "recipe.yaml"
    write(file, file.read_text("utf-8").replace("validation: 0.1", "size: 28"))
    assert titles(run)["attacks"].endswith("standing")
    assert "defined with (77/255" in text_of(run)


def test_the_number_beside_a_bar_enters_the_mean(run: Path) -> None:
    scores = {**SCORES, "CA+": 60.0, "TMA": -0.5}
    change(run / "audit.json", metrics={"R@1": 77.0, **scores, "ERS": 50.0})
    text = text_of(run)
    assert "Push an image up in a stranger's search: withstood: 120.0 of 100" in text
    assert "Make a query pass for a chosen other image: withstood: 150.0 of 100" in text
    assert "the changed image ended 60.0 % down the list" in text
    assert "rose to the top" not in text


def test_no_confusion_is_a_finding(run: Path) -> None:
    change(run / EXHIBITS, confusions=[])
    assert titles(run)["confusions"] == "No query found a wrong class first"
    assert "Confusions" not in make(run).missing


@pytest.mark.parametrize(
    "card",
    [
        {"name": "glyphs"},
        {"name": "x", "splits": {"test": 7}, "samples": [{}, 3, {"pictures": None}]},
        {"per_class": 4},
    ],
)
def test_a_data_card_in_part(run: Path, card: dict[str, Any]) -> None:
    change(run / EXHIBITS, data_card=card)
    assert "Training" not in make(run).missing
    assert re.search(
        r"Data card: [a-z, ]*per class[a-z, ]* not recorded; holdfast report runs/full --refresh", text_of(run)
    )


def test_a_command_holds_every_setting(run: Path) -> None:
    document = {
        **audit(), "protocol": "adml", "mode": "replaced", "split": "val", "limit": None, "seed": 7,
        "skipped": [{"image": "a", "reason": "b"}], "data": {"name": "folder", "root": "my photos; rm x"},
        "budget": {"eps_pixel": 4 / 255, "steps": 7},
    }  # fmt: skip
    assert shlex.split(audit_again(read_run(run), "audit-adml-replaced.json", document)) == [
        "holdfast", "audit", "runs/full", "--data", "folder:my photos; rm x", "--protocol", "adml",
        "--mode", "replaced", "--eps", "4/255", "--split", "val", "--skip-bad", "--seed", "7",
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", ["ers", "adml", "stax", "thorough"])
def test_the_protocols_own_eps_is_left_out(run: Path, protocol: str) -> None:
    document = {**audit(), "protocol": protocol, "eps": None, "budget": {"eps_pixel": 0.02, "eps_normalized": 0.04}}
    assert "--eps" not in audit_again(read_run(run), "audit.json", document)
    document["eps"] = 4 / 255
    assert "--eps 4/255" in audit_again(read_run(run), "audit.json", document)


@pytest.mark.parametrize(("protocol", "told"), [("adml", "0.02"), ("stax", "0.04"), ("thorough", "0.02")])
def test_an_audit_of_before_names_its_eps(run: Path, protocol: str, told: str) -> None:
    document = {**audit(), "protocol": protocol, "budget": {"eps_pixel": 0.02, "eps_normalized": 0.04}}
    assert f"--eps {told}" in audit_again(read_run(run), "audit.json", document)
    own = {**document, "protocol": "ers", "budget": {"eps_pixel": 8 / 255}}
    assert "--eps" not in audit_again(read_run(run), "audit.json", own)


def test_other_audits_have_commands_too(run: Path) -> None:
    (run / "audits" / "sharp").mkdir(parents=True)
    write(run / "audits" / "sharp" / "audit.json", {**audit(), "budget": {"eps_pixel": 16 / 255, "steps": 32}})
    wanted = "holdfast audit runs/full --data glyphs --eps 16/255 --limit 200 --seed 5 --out runs/full/audits/sharp"
    assert wanted in text_of(run)


def test_commands_on_the_page_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_folder(tmp_path, name="my runs/$(x)")
    for file in ("metrics.jsonl", "evaluation.json", "audit.json", EXHIBITS):
        (run / file).unlink()
    text = text_of(run)
    assert text.count("holdfast ") > text.count("holdfast ·") + 4
    commands = re.findall(r"holdfast (?:train|audit|report|evaluate) .{12}", text)
    assert len(commands) >= 5
    assert all(line.split(" ", 2)[2].startswith("'my runs/$(") for line in commands)


@pytest.mark.parametrize("images", [True, False])
def test_pages_name_no_private_folder(run: Path, images: bool) -> None:
    file = run / "recipe.yaml"
    data = "data:\n  name: folder\n  root: /home/alice/secret plans/photos\ninit: ~/deep/start\n"
    write(file, data + file.read_text("utf-8").partition("\n")[2].partition("\n")[2].partition("\n")[2])
    block = {"name": "folder", "root": "/home/alice/secret plans/photos"}
    flag = {
        "name": "f",
        "level": "note",
        "why": "cannot read /home/alice/deep/x.png, 8/255",
        "advice": "see https://a.b/c",
    }
    for name in ("audit.json", "evaluation.json"):
        change(run / name, data=block, model="/home/alice/deep/model")
    change(run / "audit.json", flags=[flag])
    change(run / EXHIBITS, triplet=None, missing={"triplet": "nothing in /home/alice/deep/here"}, made={"data": block})
    page = make(run, images).html
    for private in ("alice", "secret", "deep"):
        assert private not in page
    text = html.unescape(page)
    assert "--data folder:photos" in text
    assert "root: …/photos" in text
    assert "cannot read …/x.png, 8/255" in text
    assert "https://a.b/c" in text


def test_the_page_says_how_images_were_seen(run: Path) -> None:
    assert "Images seen as" not in text_of(run)
    change(run / "audit.json", view="256 → 224 px, <b>squashed</b>")
    assert "Images seen as 256 → 224 px, <b>squashed</b>" in text_of(run)
    change(run / "evaluation.json", view=["no", "words"])
    assert "256 → 224 px" in text_of(run)


def test_an_audit_alone_names_no_private_folder(run: Path) -> None:
    for file in ("metrics.jsonl", "evaluation.json", "recipe.yaml", EXHIBITS):
        (run / file).unlink()
    change(run / "audit.json", model="/home/alice/deep/nets.py:build", data="C:\\Users\\alice\\photos")
    page = make(run).html.replace("<wbr>", "")
    assert "alice" not in page
    assert "How well nets.py:build finds images of photos" in page
    change(run / "audit.json", model="timm:resnet18.tv_in1k@/home/alice/deep/w.pth")
    page = make(run).html.replace("<wbr>", "")
    assert "alice" not in page
    assert "How well timm:resnet18.tv_in1k@w.pth finds images of photos" in page


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"classes": 28, "per_class": 4}, "28 classes × 4 (112 images)"),
        ({"classes": 112, "per_class": 2, "sampler": "pairs"}, "112 pairs of a class (224 images)"),
    ],
)
def test_it_says_what_a_batch_is_made_of(run: Path, batch: dict[str, Any], said: str) -> None:
    file = run / "recipe.yaml"
    write(file, yaml.safe_dump({**yaml.safe_load(file.read_text("utf-8")), "batch": batch}))
    assert said in text_of(run)
