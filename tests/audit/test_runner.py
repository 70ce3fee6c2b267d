from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import holdfast
from holdfast import attacks, audit
from holdfast.attacks import Budget, References, pgd
from holdfast.audit import ensemble, ers, runner, subject
from holdfast.audit.files import make_room
from holdfast.audit.state import read_measurements
from holdfast.cli import main
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import HoldfastError
from holdfast.models import Embedder
from holdfast.view import View

TEN = ("CA+", "CA-", "QA+", "QA-", "TMA", "ES:D", "ES:R", "LTM", "GTM", "GTT")


def figures(document: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in document.items() if k not in ("seconds", "artifacts", "robust")}


def test_an_undefended_model_falls(model: Embedder, table: ImageTable) -> None:
    document = audit.run(model, table, limit=48).document
    values = document["metrics"]
    assert values["R@1"] > 60
    assert values["ERS"] < 25
    assert values["ERS"] == pytest.approx(audit.ers_score({key: values[key] for key in TEN}))
    assert values["collapsed"] is False
    assert document["budget"]["eps_pixel"] == pytest.approx(8 / 255)
    assert document["budget"]["eps_normalized"] == pytest.approx(8 / 255 / 0.5)
    assert document["budget"]["steps"] == 32
    for key, (low, high) in document["intervals"].items():
        assert low - 1e-9 <= values[key] <= high + 1e-9, key
    assert {*TEN, "ERS", "R@1"} <= document["intervals"].keys()


def test_every_image_is_attacked_against_the_whole_gallery(model: Embedder, table: ImageTable) -> None:
    """TMA of the audit, against the attack written out by hand."""
    document = audit.run(model, table, limit=20, seed=3).document
    assert (document["images"], document["gallery"]) == (20, len(table.split("test")))
    from holdfast import seeds
    from holdfast.audit.sampling import balanced_rows

    test = table.split("test")
    rows = balanced_rows(torch.tensor(test.labels), 20, 3)
    images = ImageStore(test, View(model.size), "cpu").inputs(torch.arange(len(test)))
    with torch.no_grad():
        vectors = model.eval()(images)
    goal = attacks.build("tma").bind(References(vectors), rows, seeds.generator(3, "targets", "tma"))
    found = pgd(model, images[rows], goal, Budget(eps=8 / 255, step=3 / 255, steps=32))
    assert document["metrics"]["TMA"] == pytest.approx(float(found.measures["cosine"].mean()), abs=1e-5)


def test_published_mode_averages_batches_and_takes_the_step_before(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ers.PUBLISHED_BATCH == 112
    monkeypatch.setattr(ers, "PUBLISHED_BATCH", 12)
    fixed = audit.run(model, table, limit=17, out=tmp_path / "fixed").document
    published = audit.run(model, table, protocol=audit.Ers("published"), limit=17, out=tmp_path / "published").document
    measured = read_measurements(tmp_path / "published" / published["artifacts"][0])
    cosine = measured["tma"]["cosine"].double()
    by_hand = (cosine[:12].mean() + cosine[12:].mean()) / 2
    assert published["metrics"]["TMA"] == pytest.approx(float(by_hand))
    assert published["metrics"]["ES:D"] != fixed["metrics"]["ES:D"]
    assert (tmp_path / "published" / "audit-ers-published.json").is_file()
    assert (tmp_path / "fixed" / "audit.json").is_file()


@pytest.mark.parametrize(
    ("protocol", "mode"), [("adml", "fixed"), ("adml", "replaced"), ("stax", "fixed"), ("stax", "replaced")]
)
def test_the_other_protocols(protocol: str, mode: str, model: Embedder, table: ImageTable) -> None:
    document = audit.run(model, table, protocol={"name": protocol, "mode": mode}, limit=64).document
    names = (
        ("triplet", "alignment", "uniformity") if protocol == "adml" else ("stax", "mtax", "stax-large", "mtax-large")
    )
    shape = ("NMI", "pi_ratio", "overlap", "false_overlap")
    keys = ("R@1", "NMI", "mAP@C") if protocol == "adml" else ("R@1", "R@4", *shape)
    for key in keys:
        assert document["metrics"][key] is not None
        for name in names:
            assert f"{name}/{key}" in document["metrics"]
            low, high = document["intervals"][f"{name}/{key}"]
            assert low - 1e-9 <= document["metrics"][f"{name}/{key}"] <= high + 1e-9
    if mode == "fixed":
        hurt = names[1] if protocol == "adml" else "stax-large"
        assert document["metrics"][f"{hurt}/R@1"] < document["metrics"]["R@1"] - 20
    if protocol == "stax":  # a larger radius reaches more targets, and five are harder to reach at once than one
        rates = [document["metrics"][f"{name}/success_rate"] for name in ("mtax-large", "stax", "stax-large")]
        assert max(rates[:2]) < rates[2]


def test_stax_is_in_normalised_units(model: Embedder, table: ImageTable) -> None:
    budget = audit.run(model, table, protocol="stax", limit=16).document["budget"]
    assert budget["eps_normalized"] == pytest.approx(0.01)
    assert budget["eps_pixel"] == pytest.approx(0.005)


def test_thorough_is_never_kinder_than_one_of_its_attacks(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 5)
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 40)
    document = audit.run(model, table, protocol="thorough", limit=12, out=tmp_path).document
    curve = document["curve"]
    assert [point["eps"] for point in curve] == sorted(point["eps"] for point in curve)
    recall = [point["R@1"] for point in curve]
    assert recall == sorted(recall, reverse=True)
    precision = [point["mAP@R"] for point in curve]
    assert precision == sorted(precision, reverse=True)
    assert recall[-1] < 10
    measured = read_measurements(tmp_path / document["artifacts"][0])
    attacked = {name: arrays for name, arrays in measured.items() if name.startswith("eps=")}
    for name, arrays in attacked.items():
        eps = float(name.removeprefix("eps=").split("/")[0]) / 255
        finite = arrays["radius"][arrays["radius"].isfinite()]
        assert (finite <= eps + 1e-6).all()
        assert torch.equal(arrays["radius"].isinf(), arrays["hit"] > 0)
    needed = torch.stack([arrays["radius"] for arrays in attacked.values()]).amin(0)
    assert 100 * (needed > 0).double().mean() == pytest.approx(document["metrics"]["R@1"])  # right without a change
    assert document["metrics"]["breaking_eps"] == pytest.approx(float(needed.median()))
    assert document["metrics"]["breaking_eps"] < 16 / 255


def test_a_killed_audit_goes_on_and_gives_the_same_figures(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = audit.run(model, table, protocol="stax", limit=130, out=tmp_path / "whole").document
    killed(tmp_path / "cut", monkeypatch, model, table, protocol="stax", limit=130)
    assert len(list((tmp_path / "cut" / "artifacts" / "audit-stax-fixed.partial").glob("*.safetensors"))) == 5
    seen = audit.run(model, table, protocol="stax", limit=130, out=tmp_path / "cut")
    assert figures(seen.document) == figures(whole)
    assert all(value > 0 for value in seen.document["seconds"].values()), "also of what was done before the kill"
    assert not (tmp_path / "cut" / "artifacts" / "audit-stax-fixed.partial").exists()


class Blurred(nn.Module):
    """The same weights, and another function."""

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.width = model, width

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.model(nn.functional.avg_pool2d(images, self.width, 1, self.width // 2))
        return vectors


def killed(out: Path, monkeypatch: pytest.MonkeyPatch, *arguments: Any, **settings: Any) -> None:
    """An audit that is stopped once half of its attacks are done."""
    real, calls = runner.AuditState.put, iter(range(100))

    def dies(self: Any, *given: Any) -> None:
        if next(calls) == 5:
            raise KeyboardInterrupt
        real(self, *given)

    monkeypatch.setattr(runner.AuditState, "put", dies)
    with pytest.raises(KeyboardInterrupt):
        audit.run(*arguments, out=out, **settings)
    monkeypatch.undo()


def test_another_function_of_the_same_weights_is_another_audit(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, blurred = Blurred(model, 1).eval(), Blurred(model, 5).eval()
    settings: dict[str, Any] = {"limit": 12, "size": 16, "quick": True}
    killed(tmp_path / "cut", monkeypatch, plain, table, **settings)
    found = audit.run(blurred, table, **settings, out=tmp_path / "cut").document
    assert figures(found) == figures(audit.run(blurred, table, **settings, out=tmp_path / "whole").document)
    audit.run(plain, table, **settings, out=tmp_path / "cut")
    kept = json.loads((tmp_path / "cut" / "audit.1.json").read_text())
    assert kept["metrics"] == found["metrics"], "evidence is never lost"


def test_other_pixels_under_the_same_names_are_another_audit(
    model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)

    def drawn() -> None:
        for name in ("a", "b", "c"):
            (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
            for number in range(4):
                pixels = draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")

    drawn()
    settings: dict[str, Any] = {"split": "all", "quick": True}
    data = f"folder:{tmp_path / 'images'}"
    killed(tmp_path / "cut", monkeypatch, model, data, **settings)
    drawn()
    found = audit.run(model, data, **settings, out=tmp_path / "cut").document
    assert figures(found) == figures(audit.run(model, data, **settings, out=tmp_path / "whole").document)


def test_measurements_of_another_model_are_not_reused(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    from holdfast.audit.state import AuditState

    state = AuditState(tmp_path / "s", {"model": "a"})
    state.put("ca+", 0, {"rank": torch.ones(2), "cost": torch.ones(1, 3)})
    assert AuditState(tmp_path / "s", {"model": "a"}).get("ca+", 0, 2) is not None
    assert AuditState(tmp_path / "s", {"model": "b"}).get("ca+", 0, 2) is None


def test_a_damaged_block_is_attacked_again(tmp_path: Path) -> None:
    from holdfast.audit.state import AuditState

    state = AuditState(tmp_path / "s", {})
    state.put("ca+", 0, {"rank": torch.ones(2), "cost": torch.ones(1, 3)})
    next((tmp_path / "s").glob("ca*")).write_bytes(b"junk")
    assert state.get("ca+", 0, 2) is None


@pytest.mark.parametrize(
    "measured", [{"rank": torch.ones(3)}, {"rank": torch.tensor(1.0)}, {"rank": torch.ones(0)}, {}]
)
def test_a_block_of_other_rows_is_attacked_again(tmp_path: Path, measured: dict[str, torch.Tensor]) -> None:
    from holdfast.audit.state import AuditState

    state = AuditState(tmp_path / "s", {})
    state.put("ca+", 0, {**measured, "cost": torch.ones(1, 3)} if measured else {})
    assert state.get("ca+", 0, 2) is None


def test_measurements_that_are_none_are_one_line(tmp_path: Path) -> None:
    from holdfast.audit.state import read_measurements

    (tmp_path / "a.safetensors").write_bytes(b"junk")
    with pytest.raises(HoldfastError, match="holds no measurements"):
        read_measurements(tmp_path / "a.safetensors")


def test_query_and_gallery(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    test = table.split("test")
    half = np.where(np.arange(len(test)) % 2 == 0, "query", "gallery")
    document = audit.run(model, test.with_splits(half), limit=30).document
    assert document["split"] == "query"
    assert document["gallery"] == int((half == "gallery").sum())
    assert document["metrics"]["ERS"] < 30
    with pytest.raises(HoldfastError, match="queries and a gallery"):
        audit.run(model, test.with_splits(half), protocol=audit.Adml("replaced"), limit=30)


def test_an_onnx_model_is_searched_only(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 100)
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    file = tmp_path / "model.onnx"
    torch.onnx.export(model.eval(), (torch.rand(2, 3, model.size, model.size),), file, dynamic_shapes=({0: "batch"},))
    document = audit.run(f"onnx:{file}", table, protocol="adml", limit=12).document
    assert "no-gradients" in {flag["name"] for flag in document["flags"]}
    assert document["budget"]["method"] == "square"
    assert document["metrics"]["alignment/R@1"] <= document["metrics"]["R@1"]


def test_stored_examples_are_checked_as_files(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    document = audit.run(model, table, protocol="adml", limit=16, out=tmp_path, examples=3).document
    listing = json.loads((tmp_path / document["artifacts"][1]).read_text())
    folder = (tmp_path / document["artifacts"][1]).parent
    assert len(listing["examples"]) == 3
    for entry in listing["examples"]:
        clean, attacked = (
            np.asarray(Image.open(folder / entry["files"][kind])).astype(int) for kind in ("clean", "attacked")
        )
        change = np.abs(clean - attacked).max()
        assert 0 < change <= math.floor(0.0314 * 255)
        assert set(entry["finds_its_class"]) == {"clean", "attacked", "stored"}


def test_examples_are_not_written_through_a_link(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    def run() -> Path:
        found = audit.run(model, table, protocol="adml", limit=4, out=tmp_path / "audit", examples=1).document
        return (tmp_path / "audit" / found["artifacts"][1]).parent

    outside = tmp_path / "precious"
    outside.write_text("precious")
    picture = run() / "000-clean.png"
    picture.unlink()
    picture.symlink_to(outside)
    assert Image.open(run() / "000-clean.png").size == (model.size, model.size)
    assert outside.read_text() == "precious"


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", str(run), "--data", "glyphs", "--limit", "20", "--protocol", "adml", "--eps", "4/255"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["budget"]["eps_pixel"] == pytest.approx(4 / 255)
    assert document == json.loads((run / "audit-adml-fixed.json").read_text())
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "alignment/R@1" in printed
    assert "95 % interval" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--protocol", "err"], "did you mean 'ers'"),
        (["--mode", "replaced"], "unknown mode 'replaced'"),
        (["--eps", "big"], "expected a number"),
        (["--eps", "0"], "eps must be above zero"),
        (["--split", "train2"], "unknown split 'train2'"),
    ],
)
def test_mistakes(run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(run), "--data", "glyphs", *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


class Casting(nn.Module):
    """Half precision inside, float32 outside, and state that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten()).bfloat16()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images.bfloat16()).float()  # type: ignore[no-any-return]

    def get_extra_state(self) -> dict[str, int]:
        return {"trained": 3}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state == {"trained": 3}


def test_weights_of_any_type_are_audited_and_come_back_in_their_layout(table: ImageTable) -> None:
    module = Casting().eval()
    conv, images = module.net[0], torch.rand(3, 3, 28, 28)
    before, layout = module(images), conv.weight.stride()
    weight, bias = conv.weight, conv.bias
    assert audit.run(module, table, "adml", size=28, limit=4, quick=True).document["metrics"]
    assert (conv.weight, conv.bias) == (weight, bias)
    assert conv.weight.stride() == layout
    assert torch.equal(module(images), before)


def test_the_model_comes_back_as_it_was(model: Embedder, table: ImageTable) -> None:
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    audit.run(model, table, protocol="adml", limit=16)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.training


@pytest.mark.parametrize("mode", ["fixed", "replaced"])
@pytest.mark.parametrize("protocol", ["adml", "stax"])
def test_an_attack_that_changes_nothing_changes_no_figure(
    protocol: str, mode: str, model: Embedder, table: ImageTable
) -> None:
    values = audit.run(model, table, protocol={"name": protocol, "mode": mode, "eps": 1e-9}, limit=45).document[
        "metrics"
    ]
    for key, value in values.items():
        prefix, _, name = key.rpartition("/")
        if prefix and not prefix.endswith("large") and name != "success_rate":  # clean images imitate nobody
            assert value == pytest.approx(values[name], abs=1e-4), key


def test_cameras_are_set_aside_as_in_an_evaluation(model: Embedder, table: ImageTable) -> None:
    table = table.subset(np.isin(table.labels, np.unique(table.labels)[:8]))
    watched = dataclasses.replace(table, groups=np.arange(len(table)) % 2)
    recall = holdfast.evaluate(model, watched).values["R@1"]
    assert recall < holdfast.evaluate(model, table).values["R@1"]
    values = audit.run(model, watched, audit.Ers(eps=1e-9)).document["metrics"]
    assert values["R@1"] == pytest.approx(recall)
    for key in ("ES:R", "LTM", "GTM"):
        assert values[key] == pytest.approx(recall, abs=1.0), key


def test_what_cannot_be_found_is_undefined(model: Embedder, table: ImageTable) -> None:
    apart = np.where(table.labels % 2 == 0, "query", "gallery")
    document = audit.run(model, table.with_splits(apart), limit=10).document
    for key in ("R@1", "ES:R", "LTM", "GTM", "ERS"):
        assert document["metrics"][key] is None, key
        assert document["undefined"][key]


def test_another_audit_is_kept(model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    first = audit.run(model, table, protocol="adml", limit=12, out=tmp_path)
    again = audit.run(model, table, protocol="adml", limit=12, out=tmp_path)
    assert [f.name for f in tmp_path.glob("*.json")] == ["audit-adml-fixed.json"]
    other = audit.run(model, table, protocol="adml", limit=14, out=tmp_path)
    assert again.file == other.file
    kept = json.loads((tmp_path / "audit-adml-fixed.1.json").read_text())
    assert kept["metrics"] == first.document["metrics"]
    assert (tmp_path / kept["artifacts"][0]).is_file()


def test_the_callers_random_numbers_are_their_own(model: Embedder, table: ImageTable) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    audit.run(model, table, protocol="adml", limit=8)
    assert torch.equal(torch.rand(3), expected)


def test_small_passes_give_the_same_figures(model: Embedder, table: ImageTable) -> None:
    whole = audit.run(model, table, protocol="adml", limit=20).document["metrics"]
    small = audit.run(model, table, protocol="adml", limit=20, execution=audit.Execution(batch=7)).document["metrics"]
    assert small == pytest.approx(whole, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit must be 1 or more"),
        ({"protocol": audit.Ers(eps=8)}, "did you mean 8/255"),
        ({"examples": 2}, "out="),
    ],
)
def test_impossible_requests(arguments: dict[str, Any], message: str, model: Embedder, table: ImageTable) -> None:
    with pytest.raises(HoldfastError, match=message):
        audit.run(model, table, **arguments)


@pytest.mark.parametrize("protocol", ["ers", "thorough", {"name": "adml", "units": "pixel"}])
def test_an_eps_in_grey_levels_is_refused_before_anything_is_embedded(protocol: Any) -> None:
    asked = {"name": protocol} if isinstance(protocol, str) else protocol
    with pytest.raises(HoldfastError, match="did you mean 8/255"):
        audit.run("no such model", "no such data", protocol={**asked, "eps": 8})


def test_a_module_from_anywhere(table: ImageTable) -> None:
    module = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten())
    document = audit.run(module, table, protocol="adml", limit=16, size=16).document
    assert document["model"] == "Sequential"
    assert all(not p.requires_grad for p in module.parameters()) or not list(module.parameters())


@pytest.mark.parametrize("mode", audit.Ers.modes)
def test_attacks_that_share_passes_come_to_the_same(
    mode: str, model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU; here passes are shared by force, by four attacks at a time."""
    kept = {}
    for shared in (False, True):
        calls: list[int] = []
        plain_pgd = subject.pgd

        def counted(*arguments: Any, calls: list[int] = calls, plain: Any = plain_pgd, **options: Any) -> Any:
            calls.append(len(arguments[1]))
            return plain(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(subject, "pgd", counted)
            if shared:
                patch.setattr(subject.Subject, "shared_passes", property(lambda self: subject.SharedPasses()))
            out = tmp_path / str(shared)
            execution = audit.Execution(batch=56)
            document = audit.run(model, table, audit.Ers(mode), limit=12, out=out, execution=execution).document
        kept[shared] = read_measurements(out / document["artifacts"][0])
        crafted = calls[: 3 if shared else 9]
        assert crafted == ([48, 48, 12] if shared else [12] * 9)  # ES needs full precision in its first step
    for name, alone in kept[False].items():
        for key, values in alone.items():
            apart = (kept[True][name][key] - values).double().abs()  # a rounding may change the sign of a step
            assert float(apart.nanmean()) <= 0.05 * float(values.abs().max()), (name, key)


@pytest.mark.parametrize("lesser", [{"quick": True}, {"checks": False}])
def test_a_lesser_audit_does_not_take_the_place_of_a_full_one(lesser: dict[str, bool], tmp_path: Path) -> None:
    """Nor does it pile up; of another model, images or split it does."""
    file = tmp_path / "audit.json"
    facts = {"weights": "w", "content": "c", "split": "test", "vectors": [1.0, -2.0]}
    full = {**facts, "identity": "full", "quick": False, "checks": True}
    look = {**full, "identity": "look", **lesser}

    def written(document: dict[str, Any]) -> tuple[str, str | None]:
        place, moved = make_room(file, document)
        place.write_text(json.dumps(document))
        return place.name, moved and moved.name

    assert written(look) == ("audit.json", None)
    assert written(full) == ("audit.json", "audit.1.json")
    for _ in range(2):
        assert written({**look, "identity": "again"}) == ("audit.2.json", None)
    others: list[dict[str, Any]] = [{"weights": "v"}, {"content": "d"}, {"split": "val"}, {"vectors": [1.0, -1.9]}]
    for number, changed in enumerate(others, 3):
        assert written({**look, **changed, "identity": str(changed)}) == ("audit.json", f"audit.{number}.json")
        file.write_text(json.dumps(full))
    assert len(list(tmp_path.iterdir())) == 7
    assert written({**full, "vectors": [1.001, -2.001]}) == ("audit.json", None), "rounding"
