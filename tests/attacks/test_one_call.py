"""An attack in one call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from attack_cases import ARGUMENTS, network, pictures

import holdfast
from holdfast import attacks, seeds
from holdfast.attacks import References
from holdfast.attacks.budget import Norm
from holdfast.errors import DataError, ModelError, RecipeError


def test_is_what_its_parts_do() -> None:
    model, (images, labels) = network(), pictures()
    found = holdfast.attack(model, images, labels, goal="gtm", eps=8 / 255)
    assert model.training
    with torch.no_grad():
        references = References(model.eval()(images), labels)
    bound = attacks.build("gtm").bind(references, torch.arange(len(images)))
    wanted = attacks.pgd(model, images, bound, holdfast.Budget(eps=8 / 255))
    torch.testing.assert_close(found.images, wanted.images)
    torch.testing.assert_close(found.loss, wanted.loss)
    assert (found.images - images).abs().max() <= 8 / 255
    assert found.clean["hit"].mean() == 1
    assert repr(found).startswith(
        "AttackResult(24 images, GreedyTopOneMisranking(published=False), linf eps 8/255, 10 "
    )
    assert f"hit 1 → {found.measures['hit'].mean():.3g}" in repr(found)


@pytest.mark.parametrize("name", attacks.names())
def test_every_goal_by_name_or_as_an_object_in_batches_of_any_size(name: str) -> None:
    model, (images, labels) = network(), pictures()
    goal = attacks.build(name, **ARGUMENTS[name]) if name in ARGUMENTS else name
    one, two = (
        holdfast.attack(model, images, labels.tolist(), goal, 0.5, steps=2, norm="l2", batch=size) for size in (7, 24)
    )
    torch.testing.assert_close(one.images, two.images, rtol=0, atol=1e-3)
    assert one.images.shape == images.shape
    assert list(one.clean) == list(one.measures)
    for key, values in one.measures.items():
        torch.testing.assert_close(values, two.measures[key], rtol=1e-3, atol=1e-3, equal_nan=True)
        assert values.shape == one.clean[key].shape


@pytest.mark.parametrize("name", ["qa+", "gtm", "es", "tma"])
def test_another_gallery_is_searched(name: str) -> None:
    model, (images, labels) = network(), pictures()
    gallery = holdfast.gallery(model, images[::2], labels[::2], batch=5)
    assert len(gallery) == 12
    found = holdfast.attack(model, images[1::2], labels[1::2], name, gallery=gallery, steps=3)
    with torch.no_grad():
        references = References(
            model.eval()(images[::2]), labels[::2], queries=model(images[1::2]), query_labels=labels[1::2]
        )
    bound = attacks.build(name).bind(references, torch.arange(12), seeds.generator(0, "targets"))
    wanted = attacks.pgd(model, images[1::2], bound, holdfast.Budget(eps=8 / 255, steps=3))
    torch.testing.assert_close(found.images, wanted.images)


def test_seeds_decide_every_draw() -> None:
    model, (images, labels) = network(), pictures()

    def made(seed: int, **options: object) -> torch.Tensor:
        return holdfast.attack(model, images, labels, steps=2, seed=seed, **options).images  # type: ignore[arg-type]

    assert torch.equal(made(1, goal="tma"), made(1, goal="tma"))
    assert not torch.equal(made(1, goal="tma"), made(2, goal="tma"))
    assert torch.equal(made(1, start="uniform"), made(1, start="uniform"))
    assert not torch.equal(made(1, start="uniform"), made(2, start="uniform"))


def test_a_longer_euclidean_or_adaptive_attack_is_an_argument() -> None:
    model, (images, labels) = network(), pictures()
    found = holdfast.attack(model, images, labels, "misrank", 6.0, norm="l2", method="apgd", steps=8)
    assert (found.images - images).flatten(1).norm(dim=1).max() <= 6
    assert found.measures["hit"].mean() < 0.5 < found.clean["hit"].mean()


@pytest.fixture
def doubles() -> Iterator[None]:
    """Torch makes numbers in double precision where nothing else is said."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("goal", "norm"), [("misrank", "linf"), ("single-target", "l2")])
def test_no_draw_depends_on_the_default_type(goal: str, norm: Norm, request: pytest.FixtureRequest) -> None:
    model, (images, labels) = network(), pictures()

    def made() -> torch.Tensor:
        return holdfast.attack(model, images, labels, goal, start="uniform", norm=norm, steps=2).images

    usual = made()
    request.getfixturevalue("doubles")
    assert torch.equal(made(), usual)


@pytest.mark.parametrize("name", attacks.names())
def test_a_gallery_made_in_inference_mode(name: str) -> None:
    model, (images, labels) = network(), pictures()
    goal = attacks.build(name, **ARGUMENTS[name]) if name in ARGUMENTS else name
    with torch.inference_mode():
        gallery = holdfast.gallery(model, images[::2], labels[::2])
    found = holdfast.attack(model, images[1::2], labels[1::2], goal, gallery=gallery, steps=2)
    wanted = holdfast.attack(
        model, images[1::2], labels[1::2], goal, gallery=holdfast.gallery(model, images[::2], labels[::2]), steps=2
    )
    assert torch.equal(found.images, wanted.images)


def test_an_autocast_around_it_changes_nothing() -> None:
    model, (images, labels) = network(), pictures()
    usual = holdfast.attack(model, images, labels, steps=3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(holdfast.attack(model, images, labels, steps=3).images, usual.images)


def test_frozen_scripts() -> None:
    model, (images, labels) = network().eval(), pictures()
    script = torch.jit.freeze(torch.jit.script(model))
    found, wanted = (holdfast.attack(one, images, labels, steps=2).images for one in (script, model))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_weights_of_another_type_get_one_line(kind: torch.dtype) -> None:
    model, (images, labels) = network().to(kind), pictures()
    with pytest.raises(ModelError, match=str(kind)):
        holdfast.attack(model, images, labels)


def test_mistakes_get_one_line() -> None:
    model, (images, labels) = network(), pictures()
    with pytest.raises(RecipeError, match="misrank"):
        holdfast.attack(model, images, labels, "misrnk")
    with pytest.raises(DataError, match="divide by 255"):
        holdfast.attack(model, (255 * images).byte(), labels)
    with pytest.raises(DataError, match="labels"):
        holdfast.attack(model, images)
    with pytest.raises(DataError, match="labels"):
        holdfast.attack(model, images, list("abc") * 8)
    with pytest.raises(ModelError, match=r"needs an nn\.Module"):
        holdfast.attack(lambda x: x, images, labels)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="batch must be 1"):
        holdfast.attack(model, images, labels, batch=0)
    queries = References(torch.eye(3), torch.arange(3), queries=torch.eye(3), query_labels=torch.arange(3))
    with pytest.raises(DataError, match="gallery alone"):
        holdfast.attack(model, images, labels, gallery=queries)
    assert holdfast.attack(model, images, goal="tma", steps=1).measures["cosine"].shape == (24,)
