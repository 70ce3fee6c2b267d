"""How long an audit takes: counted before, shown while it runs, and chosen by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from holdfast import audit, console
from holdfast.attacks.forward import counting
from holdfast.audit import ensemble, ers, masking, plan, preparation, probes, runner, subject
from holdfast.audit.plan import Passes, Progress, Speed, TimeLimit, duration
from holdfast.audit.preparation import Execution, Selection, batch_in, fitting_batch, make_subject
from holdfast.cli import main
from holdfast.data import load
from holdfast.errors import RecipeError
from holdfast.models import Embedder
from holdfast.robustness import ROBUST

DATA = {"name": "glyphs", "characters": 40, "per_class": 4, "size": 16}


@pytest.fixture
def untrained() -> Embedder:
    torch.manual_seed(0)
    return Embedder("conv-tiny", dim=8, size=16, canvas=16)


class Recorded(Progress):
    """Also keeps, for each thing that was done, the passes it was to take at most and those it took."""

    made: list[Recorded]

    def __init__(self, total: Passes, speed: Speed | None = None) -> None:
        super().__init__(total, speed)
        self.total, self.done = total, []
        Recorded.made.append(self)

    @contextmanager
    def doing(self, what: str, passes: Passes) -> Iterator[None]:
        taken = []

        def tell(images: int, back: bool) -> None:
            taken.append(Passes(back=images) if back else Passes(forward=images))

        with super().doing(what, passes), counting(tell):
            yield
        self.done.append((what, passes, sum(taken, Passes())))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    Recorded.made = []
    monkeypatch.setattr(runner, "Progress", Recorded)
    return Recorded.made


@pytest.mark.parametrize(
    ("protocol", "limit"),
    [("ers", 16), ("adml", 16), ({"name": "adml", "mode": "replaced"}, 50), ("stax", 16), ("thorough", 16)],
)
def test_the_passes_counted_before_are_those_that_are_made(
    protocol: Any, limit: int, untrained: Embedder, recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 20)
    monkeypatch.setattr(ensemble, "STEPS", 5)
    monkeypatch.setattr(ers, "STEPS", 5)
    monkeypatch.setattr(probes, "IMAGES", 16)
    audit.run(untrained, DATA, protocol=protocol, limit=limit)
    (progress,) = recorded
    attacks = [entry for entry in progress.done if entry[0].startswith("attack")]
    checking = [entry for entry in progress.done if entry not in attacks]
    for _, planned, taken in progress.done:
        if protocol != "thorough":  # where one eps may take more, and others less
            assert taken.back <= planned.back
            assert taken.forward <= planned.forward
        assert taken.back > 0 or planned.back == 0
    total = sum((taken for _, _, taken in progress.done), Passes())
    assert total.back <= progress.total.back
    assert total.forward <= progress.total.forward
    assert any(taken == planned for _, planned, taken in attacks) or protocol == "thorough", "goals without a floor"
    assert checking, "the checks behind flags are counted, too"
    assert sum((planned for _, planned, _ in progress.done), Passes()).back <= progress.total.back


def test_a_bar_moves_inside_an_attack_and_is_not_full_before_the_last_check(
    untrained: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    real = Progress._move

    def move(self: Progress, to: int) -> None:
        real(self, to)
        seen.append((self._bar.desc, to))

    monkeypatch.setattr(Progress, "_move", move)
    monkeypatch.setattr(masking, "MARGIN", -1.0)  # so that every check is made
    monkeypatch.setattr(probes, "FARTHER", 1e9)
    monkeypatch.setattr(probes, "IMAGES", 16)
    with console.shown():
        audit.run(untrained, DATA, protocol="adml", limit=16)
    places = [place for _, place in seen]
    assert places == sorted(places)
    inside = {place for what, place in seen if "alignment" in what}
    assert len(inside) >= 7, "one for each step"
    full = next(what for what, place in seen if place == max(places))
    assert "random search" in full


def test_the_estimate_comes_before_the_first_attack(
    untrained: Embedder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "measure_speed", lambda *_: Speed(forward=0.5, back=2.0))
    with console.shown():
        audit.run(untrained, DATA, limit=10)
    said = capsys.readouterr().err
    # 9 attacks of 10 images: 2,880 passes forward and back of 2 s, and 90 forward of 0.5 s.
    estimate = "9 attacks 1.6 h (2,880 passes forward and back, 90 forward alone), ensemble at most"
    assert estimate in said
    assert said.index(estimate) < said.index("attack 1 of 9")


def test_minutes_choose_the_images_that_fit_and_give_the_figures_of_that_limit(
    untrained: Embedder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ers, "STEPS", 5)
    monkeypatch.setattr(runner, "measure_speed", lambda *_: Speed(forward=0.0, back=1.0))
    with console.shown():
        document = audit.run(untrained, DATA, minutes=20).document
    assert f"{document['images']} of 100 images fit into 20 min" in capsys.readouterr().err
    # 45 seconds of attacks for each, 2 to 18 of the ensemble, and 13 to 30 of checks for 8 of them: 13 fit into 95 % of
    # 1,200 s, 24 do not.
    assert document["minutes"] == 20
    assert document["limit"] == document["images"]
    assert 13 <= document["images"] <= 23
    same = audit.run(untrained, DATA, limit=document["limit"]).document
    assert same["metrics"] == document["metrics"]


def test_a_killed_audit_goes_on_with_the_images_it_had_chosen(
    untrained: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ers, "STEPS", 5)
    speeds = iter([Speed(0.0, 1.0), Speed(0.0, 3.0), Speed(0.0, 3.0)])
    monkeypatch.setattr(runner, "measure_speed", lambda *_: next(speeds))
    real, calls = runner.AuditState.put, iter(range(100))

    def dies(self: Any, *arguments: Any) -> None:
        if next(calls) == 4:
            raise KeyboardInterrupt
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runner.AuditState, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            audit.run(untrained, DATA, minutes=20, out=tmp_path)
    resumed = audit.run(untrained, DATA, minutes=20, out=tmp_path).document
    afresh = audit.run(untrained, DATA, minutes=20, out=tmp_path / "other").document
    assert afresh["images"] < resumed["images"], "it chose by the speed it had before the kill"
    whole = audit.run(untrained, DATA, limit=resumed["images"]).document
    assert resumed["metrics"] == whole["metrics"]


def test_a_limit_holds_under_minutes_too(untrained: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ers, "STEPS", 2)
    document = audit.run(untrained, DATA, limit=3, minutes=1000).document
    assert (document["images"], document["limit"], document["minutes"]) == (3, 3, 1000)


def test_too_few_minutes_are_refused_with_what_would_do(untrained: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "measure_speed", lambda *_: Speed(1.0, 10.0))
    with pytest.raises(
        RecipeError, match=r"too short to attack one image; give --minutes \d+ for 10 images, or .*quick"
    ):
        audit.run(untrained, DATA, minutes=5)
    monkeypatch.setattr(plan.TimeLimit, "left", -1.0)
    with pytest.raises(RecipeError, match=r"embedding the 100 clean images takes about .*; give more --minutes"):
        audit.run(untrained, DATA, minutes=5)


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_minutes_are_a_number_above_zero(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "m", "--data", "glyphs", "--minutes", minutes])
    assert "--minutes" in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "fits"), [(1.0, 57), (0.001, 100), (57.1, 0), (30.0, 1)])
def test_the_largest_number_that_fits_is_chosen(seconds: float, fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.time, "monotonic", lambda: 0.0)
    limit = TimeLimit(1, began=0.0)
    if fits:
        assert limit.choose(100, lambda count: seconds * count) == fits
    else:
        with pytest.raises(RecipeError):
            limit.choose(100, lambda count: seconds * count)


def test_an_audit_without_checks_has_the_same_figures_for_fewer_passes(
    untrained: Embedder, recorded: list[Recorded]
) -> None:
    plain, full = (audit.run(untrained, DATA, limit=20, checks=checks).document for checks in (False, True))
    assert (plain["checks"], full["checks"]) == (False, True)
    assert {flag["name"]: flag["level"] for flag in plain["flags"]}["unchecked"] == "note"
    assert "unchecked" not in {flag["name"] for flag in full["flags"]}
    left_out = full["metrics"].keys() - plain["metrics"].keys()
    assert left_out == {key for key in full["metrics"] if key == ROBUST or key.startswith("gallery ")}
    assert plain["metrics"] == {key: value for key, value in full["metrics"].items() if key not in left_out}
    brief, whole = recorded
    assert brief.total.back < whole.total.back
    with pytest.raises(RecipeError, match="ensemble="):
        audit.run(untrained, DATA, limit=20, checks=False, ensemble={"norm": "l2"})


def test_a_first_look_says_so_and_takes_less(
    untrained: Embedder, recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 30)
    document = audit.run(untrained, DATA, quick=True).document
    full = audit.run(untrained, DATA, limit=20).document
    assert (document["quick"], full["quick"]) == (True, False)
    assert (document["images"], document["limit"]) == (20, 20)
    assert (document["budget"]["steps"], full["budget"]["steps"]) == (8, 32)
    assert {flag["name"]: flag["level"] for flag in document["flags"]}["first-look"] == "note"
    assert "first-look" not in {flag["name"] for flag in full["flags"]}
    quick, whole = recorded
    assert 3.5 * quick.total.back < whole.total.back


@pytest.mark.parametrize("protocol", ["adml", "stax", "thorough"])
def test_steps_of_a_first_look_still_cross_the_ball(
    protocol: str, untrained: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 30)
    selection = Selection(load(DATA), "test", 4, quick=True)
    budget = audit.build(protocol).budget(make_subject(untrained.eval(), selection, Execution())[0])
    assert 5 <= budget.steps <= 7
    assert budget.steps * budget.step_size >= budget.eps * (1 - 1e-9)


def test_checks_end_early_where_the_gradient_breaks_everything(
    untrained: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "square", lambda *_, **__: pytest.fail("nothing is masked that it could show"))
    monkeypatch.setattr(masking, "MARGIN", 1.0)  # as if the gradient had broken every query
    audit.run(untrained, DATA, protocol="adml", limit=8)


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (61, "61 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_passes_on_a_gpu_are_as_large_as_its_memory_holds() -> None:
    gib = 2**30
    assert batch_in(60 * gib, gib / 50) == 2048
    assert batch_in(30 * gib, gib / 50) == 1024
    assert batch_in(6 * gib, gib / 8) == 32
    assert batch_in(0, gib) == 1


def test_the_heaviest_pass_of_an_audit_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    held = iter([1000, 1000 + 64 * 10])  # before, and at the peak of a pass of 64 images
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda device: next(held))
    for name in ("reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *device: None)
    monkeypatch.setattr(preparation, "free_memory", lambda device: 4000)
    seen: list[torch.dtype] = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    model.register_forward_hook(lambda _, given, made: seen.append(made.dtype))
    assert fitting_batch(model.requires_grad_(False), torch.rand(64, 3, 2, 2)) == 256, "of 300"
    assert seen == [torch.float32]
