from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from holdfast import audit
from holdfast.cli import main
from holdfast.errors import ModelError
from holdfast.models import Embedder, write_card
from holdfast.models.card import card_text, training_rows, untouched

RECIPE: dict[str, Any] = {
    "data": {"name": "folder", "root": "/home/somebody/secret-project/photos"},
    "model": {"backbone": "conv-tiny", "dim": 8, "weights": None, "normalize": True},
    "batch": {"classes": 6, "per_class": 3},
    "loss": {"name": "margin", "beta": 1.2},
    "regime": {"name": "standard"},
    "optimizer": {"name": "adam", "lr": 0.003},
    "epochs": 3,
    "seed": 0,
}
EVALUATION: dict[str, Any] = {
    "data": RECIPE["data"],
    "split": "test",
    "images": 1234,
    "view": "36 → 32 px, shape kept, centre crop, bilinear",
    "metrics": {"R@1": 81.25, "mAP@R": 40.0, "NMI+": None, "collapsed": False},
    "recipe": "0123456789ab",
    "splits": {"train": {"images": 900, "classes": 30}, "test": {"images": 1234, "classes": 31}},
    "versions": {"holdfast": "0.1.0"},
}
AUDIT: dict[str, Any] = {
    "protocol": "ers",
    "mode": "fixed",
    "data": "glyphs",
    "split": "test",
    "images": 200,
    "gallery": 1234,
    "limit": 200,
    "seed": 0,
    "budget": {"eps_pixel": 8 / 255, "eps_normalized": 0.0627, "steps": 32},
    "metrics": {"R@1": 80.0, "ERS": 12.34},
    "intervals": {"ERS": [11.0, 13.5]},
    "flags": [{"name": "subset", "level": "note", "why": "few images", "advice": "Attack more"}],
}
HEADINGS = [
    *("How to load", "Intended use", "Out-of-scope use", "Data", "Training", "Clean retrieval"),
    *("Robustness", "Limits", "Licence", "Citation"),
]
LOG = [{"step": 10, "images_per_second": 18.0, "passes": 2.0}, {"step": 20, "images_per_second": 9.0, "passes": 4.0}]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    Embedder("conv-tiny", dim=8).save_pretrained(folder / "model")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    (folder / "evaluation.json").write_text(json.dumps(EVALUATION))
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in LOG) + '\n{"step": 30, "ima')
    (folder / "model" / "README.md").write_text(card_text(RECIPE))
    return folder


def test_every_section_is_there_and_says_what_the_files_say(run: Path) -> None:
    (run / "audit.json").write_text(json.dumps(AUDIT))
    text = write_card(run).read_text()
    for heading in HEADINGS:
        assert f"\n## {heading}\n" in text
    for fact in (
        "becomes such an image (`model.view`): 36 → 32 px, shape kept, centre crop, bilinear.",
        "| train | 900 | 30 |",
        "| R@1 | 81.2 |",
        "On 1,234 images of the test split of folder (photos)",
        "200 attacked images (a subset) of the test split of glyphs against a gallery of 1,234",
        "by more than 8/255 (0.0627 normalised), 32 steps",
        "| ERS | 12.3 | 11.0 to 13.5 |",
        "note subset: few images. Attack more",
        "20 steps, 3.0 passes a step, 0.5 minutes",  # 10 × 18 / 18 + 10 × 18 / 9 seconds
        "Not stated: ask whoever gave you this model",
    ):
        assert fact in text, fact
    assert "secret-project" not in text
    assert "NMI+" not in text


def test_the_header_is_one_that_the_hub_reads(run: Path) -> None:
    (run / "audit.json").write_text(json.dumps(AUDIT))
    data = ModelCard.load(write_card(run, license="apache-2.0", title="Photos")).data
    assert (data.library_name, data.pipeline_tag, data.license) == (
        "holdfast",
        "image-feature-extraction",
        "apache-2.0",
    )
    assert data.model_name == "Photos"
    figures = {result.metric_type: result.metric_value for result in data.eval_results}
    assert figures == {"R@1": 81.25, "mAP@R": 40.0, "ERS": 12.34}


def test_robust_recall_comes_first_and_says_when_not_to_trust_it(run: Path) -> None:
    robust = {
        **AUDIT,
        "metrics": {"R@1": 80.0, "robust R@1": 3.5, "ERS": 36.0},
        "intervals": {"robust R@1": [1.5, 6.5]},
        "robust": {"eps": 8 / 255, "norm": "linf", "queries": 200},
    }
    (run / "audit.json").write_text(json.dumps(robust))
    card = ModelCard.load(write_card(run))
    told = "Of 100 searches 80 find their class; 3.5 (1.5 to 6.5) still do when every pixel may change by up to 8/255."
    assert f"\n{told}\n" in card.text
    assert "| R@1 | 80.0 |  |\n| robust R@1 | 3.500 | 1.500 to 6.500 |" in card.text
    listed = {result.metric_type: result.metric_name for result in card.data.eval_results}
    assert listed["robust R@1"] == "robust R@1 (fixed, eps 8/255)"
    flag = {"name": "masked-gradient", "level": "error", "why": "70.0; 0.5 past [it]", "advice": "remove it"}
    (run / "audit.json").write_text(json.dumps({**robust, "flags": [flag]}))
    card = ModelCard.load(write_card(run))
    assert "**Not to be trusted.** masked-gradient: 70.0; 0.5 past \\[it\\]." in card.text
    assert "\nReported: of 100 searches 80 find their class; 3.5" in card.text
    assert {result.metric_type for result in card.data.eval_results} == {"R@1", "mAP@R"}


def test_without_a_licence_the_header_has_none(run: Path) -> None:
    assert "license" not in ModelCard.load(write_card(run)).data.to_dict()
    assert "license" not in ModelCard(card_text(RECIPE)).data.to_dict()


def test_licence_and_title_stay_when_the_card_is_written_again(run: Path) -> None:
    first = write_card(run, license="mit", title="Near <photos>\nand far").read_text()
    assert write_card(run).read_text() == first
    assert "\n# Near &lt;photos> and far\n" in first
    assert ModelCard(write_card(run, license="cc-by-4.0").read_text()).data.license == "cc-by-4.0"


def test_a_card_edited_by_hand_is_left_alone(run: Path) -> None:
    file = write_card(run)
    edited = file.read_text().replace("## Limits\n", "## Limits\n\n- Blurred pictures.")
    assert untouched(file.read_text())
    assert not untouched(edited)
    file.write_text(edited)
    with pytest.raises(ModelError, match="edited by hand"):
        write_card(run)
    assert file.read_text() == edited
    assert "Blurred" not in write_card(run, force=True).read_text()


def test_other_audits_are_listed_and_old_ones_are_not(run: Path) -> None:
    (run / "audit-stax-fixed.json").write_text(json.dumps({**AUDIT, "protocol": "stax"}))
    (run / "audit.1.json").write_text(json.dumps({**AUDIT, "protocol": "older"}))
    (run / "audit-adml-fixed.2.json").write_text(json.dumps({**AUDIT, "protocol": "older"}))
    text = write_card(run).read_text()
    assert "### stax (fixed)" in text
    assert "### older" not in text


def test_strings_from_files_stay_text(run: Path) -> None:
    evil = "<script>x</script> | [a](http://b) `c`\n# d {{ 7 + 7 }}"
    (run / "recipe.yaml").write_text(yaml.safe_dump({**RECIPE, "data": {"name": evil}}))
    flag = {"name": evil, "level": "note", "why": evil, "advice": evil}
    (run / "audit.json").write_text(json.dumps({**AUDIT, "data": evil, "flags": [flag], "protocol": evil}))
    (run / "evaluation.json").write_text(json.dumps({**EVALUATION, "data": evil, "split": evil}))
    text = write_card(run, title="t").read_text()
    body = ModelCard(text).text
    assert "<script" not in body
    assert "\n# d" not in body
    assert "[a]" not in body
    assert " | [" not in body
    assert "{{ 7 + 7 }}" in body


def test_half_a_character_does_not_stop_the_card(run: Path) -> None:
    (run / "evaluation.json").write_text(json.dumps({**EVALUATION, "recipe": "a\ud800b"}))
    written = yaml.safe_dump({**RECIPE, "loss": {"name": "half"}}).replace("name: half", 'name: "half\\ud800"')
    (run / "recipe.yaml").write_text(written)
    (run / "model" / "README.md").unlink()
    text = write_card(run).read_text("utf-8")
    assert "a?b" in text
    assert "# half? on folder" in text


@pytest.mark.parametrize("licence", ["Apache 2.0", "", "a\nb", "x" * 80, "mit: {"])
def test_what_is_no_licence_identifier_is_refused(run: Path, licence: str) -> None:
    with pytest.raises(ModelError, match="no licence identifier"):
        write_card(run, license=licence)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recipe.yaml", "- 1"),
        ("recipe.yaml", "a: ["),
        ("recipe.yaml", "loss: &l [x, x]\nregime: [*l, *l]"),
        ("recipe.yaml", "loss: !!python/object/apply:os.getcwd []"),
        ("evaluation.json", '{"metrics": 3}'),
        ("evaluation.json", "{"),
        ("audit.json", '{"budget": {}}'),
        ("evaluation.json", f'{{"metrics": {{"R@1": 1{"0" * 400}}}}}'),
        ("metrics.jsonl", '{"step": 0, "images_per_second": 1.0}'),
    ],
)
def test_damaged_files_are_one_line(run: Path, file: str, content: str) -> None:
    (run / file).write_text(content)
    before = (run / "model" / "README.md").read_text()
    with pytest.raises(ModelError, match="damaged") as caught:
        write_card(run)
    assert "\n" not in str(caught.value)
    assert (run / "model" / "README.md").read_text() == before


def test_a_run_has_its_card_and_an_audit_refreshes_it(tiny: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    from holdfast import train

    folder = train({**tiny, "epochs": 1}, out=tmp_path / "run").folder
    card = folder / "model" / "README.md"
    assert "| train | " in card.read_text()
    assert "Not measured; assume" in card.read_text()
    assert "On the test split" not in (folder / "last" / "README.md").read_text()
    assert main(["card", str(folder), "--license", "mit"]) == 0
    audit.run(str(folder), tiny["data"], limit=6, out=folder)
    text = card.read_text()
    assert "### ers (fixed)" in text
    assert ModelCard(text).data.license == "mit"
    with pytest.raises(ModelError, match="no run with a packaged model"):
        write_card(tmp_path)


def test_an_audit_of_another_model_leaves_the_card_alone(run: Path, tmp_path: Path) -> None:
    before = (run / "model" / "README.md").read_text()
    model = Embedder("conv-tiny", dim=8)
    data = {"name": "glyphs", "characters": 20, "per_class": 3}
    audit.run(model, data, {"name": "ers", "eps": "1/255"}, limit=4, out=run)
    assert (run / "model" / "README.md").read_text() == before


@pytest.mark.parametrize(
    ("batch", "said"),
    [(RECIPE["batch"], "6 classes of 3 images"), ({"classes": 9, "per_class": 2, "sampler": "pairs"}, "9 pairs")],
)
def test_it_says_what_a_batch_is_made_of(batch: dict[str, Any], said: str) -> None:
    assert ("batch", said) in training_rows({**RECIPE, "batch": batch}, {}, [])
