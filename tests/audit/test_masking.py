"""Masked gradients are found, named and shown with and without their cause; sound models have none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import audit
from holdfast.attacks.forward import counting
from holdfast.attacks.frozen import frozen
from holdfast.audit import probes
from holdfast.audit.masking import Probed, find_masking
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.audit.probes import ProbeOutcome, masking_passes
from holdfast.audit.subject import Subject
from holdfast.data import ImageTable
from holdfast.models import Embedder, as_embedder

SIZE = 16
"""Of the images of the model."""
EPS = 8 / 255
Change = Callable[[Tensor], Tensor]


class Fake(nn.Module):
    def __init__(
        self,
        model: nn.Module,
        before: Change | None = None,
        inside: Change | None = None,
        behind: Change | None = None,
    ) -> None:
        super().__init__()
        self.model, self.before, self.behind = model, before, behind
        if inside:
            first = next(part for part in model.modules() if isinstance(part, nn.Conv2d))
            first.register_forward_hook(lambda module, inputs, maps: inside(maps))

    def forward(self, images: Tensor) -> Tensor:
        z = self.model(self.before(images) if self.before else images)
        return self.behind(z) if self.behind else z  # type: ignore[no-any-return]


def leaking(change: Change) -> Change:
    """A change without a gradient, and a small share of a blurred copy that has one."""
    return lambda x: change(x).detach() + 1e-3 * F.avg_pool2d(F.pad(x, [2] * 4, mode="reflect"), 5, 1)


def median(images: Tensor) -> Tensor:
    padded = F.pad(images, [1] * 4, mode="reflect")
    around = torch.stack([padded[..., i : i + SIZE, j : j + SIZE] for i in range(3) for j in range(3)])
    return (around.median(0).values * 16).round() / 16


def in_numpy(images: Tensor) -> Tensor:
    return torch.from_numpy(np.round(images.detach().numpy() * 16) / 16)


def subject_of(model: nn.Module, table: ImageTable, limit: int = 20) -> Subject:
    embedder = as_embedder(model.eval(), SIZE)
    return make_subject(embedder, Selection(table, "test", limit), Execution())[0]


def probe(subject: Subject, reported: dict[str, Tensor] | None = None) -> Probed:
    with frozen(subject.model), torch.random.fork_rng():
        return find_masking(subject, EPS, reported or {}, Progress(Passes()))


@pytest.mark.parametrize(
    ("name", "cause", "change"),
    [
        ("wave", "before", {"before": lambda x: x + 0.02 * torch.sin(900 * x)}),
        ("rounding", "before", {"before": leaking(lambda x: (8 * x).round() / 8)}),
        ("numpy", "before", {"before": leaking(in_numpy)}),
        ("median", "(before|inside)", {"before": leaking(median)}),
        ("tanh", "behind", {"behind": lambda z: torch.tanh(1500 * z)}),
        ("maps", "inside", {"inside": lambda h: (4 * h).round().detach() / 4 + 1e-3 * h.roll(1, 1)}),
    ],
)
def test_a_fake_is_told_with_its_cause(
    name: str, cause: str, change: dict[str, Any], model: Embedder, table: ImageTable
) -> None:
    (flag,) = probe(subject_of(Fake(model, **change), table)).flags
    assert re.fullmatch(f"masked-{cause}", flag.name), (name, flag)
    assert flag.plain()["level"] == "error"
    without, within = (float(figure) for figure in re.search(r"R@1 .*? ([\d.]+); ([\d.]+) when", flag.why).groups())  # type: ignore[union-attr]
    assert within <= without
    assert within < 20


def test_the_reported_attack_that_left_most_is_made_again(model: Embedder, table: ImageTable) -> None:
    subject = subject_of(Fake(model, before=lambda x: (8 * x).round() / 8), table)
    (flag,) = probe(subject, {"es": torch.zeros(20), "gtm": torch.ones(20), "robust": torch.ones(20)}).flags
    assert "R@1 under the reported attack gtm" in flag.why


@pytest.mark.parametrize(("held", "flags"), [(20, ["masked-before"]), (0, [])])
def test_a_search_that_left_more_than_gradients_past_the_mask_is_told(
    held: int, flags: list[str], model: Embedder, table: ImageTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProbeOutcome, "beats", lambda *_: False)  # as if a short search had come as far
    subject = dataclasses.replace(subject_of(Fake(model, before=in_numpy), table), differentiable=False)
    found = probe(subject, {"es": (torch.arange(20) < held).float()}).flags
    assert [flag.name for flag in found] == flags
    assert all("under the reported attack es, by random search" in flag.why for flag in found)


def test_a_sound_model_has_no_flag_and_takes_the_passes_that_were_planned(model: Embedder, table: ImageTable) -> None:
    subject = subject_of(model, table)
    taken = Passes()

    def count(images: int, back: bool) -> None:
        nonlocal taken
        taken += Passes(back=images) if back else Passes(forward=images)

    with counting(count):
        assert probe(subject, {"es": torch.ones(20)}).flags == []
    planned = masking_passes(subject)
    assert taken.back + taken.forward <= planned.back + planned.forward
    ers = audit.build("ers")
    whole = ers.passes(subject) * (len(ers.parts(subject)) * 20)
    assert planned.forward + 2 * planned.back <= (whole.forward + 2 * whole.back) / 2


def test_what_probes_break_counts_in_robust_recall(model: Embedder, table: ImageTable) -> None:
    fake = Fake(model, before=lambda x: (8 * x).round() / 8).eval()
    document = audit.run(fake, table, protocol="adml", limit=60, size=SIZE).document
    assert any(name.startswith("probe: ") for name in document["robust"]["broken_by"])
    assert document["metrics"]["robust R@1"] < 20 < document["metrics"]["R@1"]


class Unrecorded(Fake):
    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(images)


class _Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        raise NotImplementedError("no way back")


@pytest.mark.parametrize(
    ("build", "cause", "words"),
    [
        (lambda model: Unrecorded(model), "masked-inside", "no gradient reaches its pixels"),
        (lambda model: Fake(model, before=in_numpy), "masked-before", "no gradient reaches its pixels"),
        (lambda model: Fake(model, before=_Broken.apply), "masked-before", "no way back"),
    ],
)
def test_without_gradients_an_audit_goes_on_by_search(
    build: Callable[[nn.Module], nn.Module], cause: str, words: str, model: Embedder, table: ImageTable
) -> None:
    document = audit.run(build(model).eval(), table, protocol="adml", limit=60, size=SIZE).document
    flags = {flag["name"]: flag for flag in document["flags"]}
    assert document["budget"]["method"] == "square"
    assert flags["no-gradients"]["level"] == "warning"
    assert words in flags["no-gradients"]["why"]
    assert "by random search" in flags[cause]["why"]


def test_an_advantage_counts_if_it_is_large_and_no_accident() -> None:
    def outcome(*reached: float) -> ProbeOutcome:
        return ProbeOutcome(torch.zeros(len(reached), dtype=torch.bool), torch.tensor(reached))

    assert outcome(*[2.0] * 8).beats(outcome(*[1.0] * 8))
    assert outcome(*[2.0] * 8).beats(outcome(*[0.0] * 8))
    assert not outcome(*[1.1] * 40).beats(outcome(*[1.0] * 40)), "hardly farther"
    assert not outcome(*[2.0] * 4).beats(outcome(*[1.0] * 4)), "few images"
    assert not outcome(30.0, *[1.0] * 19).beats(outcome(*[1.0] * 20)), "one image"
    assert not outcome(*[0.0] * 8).beats(outcome(*[0.0] * 8))


def test_a_first_look_probes_less(model: Embedder, table: ImageTable) -> None:
    subject = subject_of(model, table)
    quick = dataclasses.replace(subject, quick=True)
    assert 1.5 * masking_passes(quick).back < masking_passes(subject).back
    assert probes.steps_of(quick) >= 4
