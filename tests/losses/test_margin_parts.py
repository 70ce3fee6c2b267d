"""One-sided margin losses: distances of the other kind are constant, the boundary learns from both."""

from __future__ import annotations

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, mining
from holdfast.mining import Pairs, Triplets, Tuples


@pytest.mark.parametrize("part", ["positive", "negative"])
@pytest.mark.parametrize("mined", [True, False])
def test_boundary_learns_from_both_kinds(part: str, mined: bool) -> None:
    z, labels = batch(2)
    tuples = mining.build("random")(z, labels, torch.Generator().manual_seed(0)) if mined else None
    assert tuples is None or isinstance(tuples, Triplets)
    gradients = []
    for kept in ("both", part):
        loss = losses.build("margin", classes=5, beta=1.0, part=kept)
        loss(z.clone().requires_grad_(), labels, tuples).backward()
        gradients.append(loss.beta.grad)
    assert gradients[0].abs().sum() > 0.1
    torch.testing.assert_close(gradients[0], gradients[1])


def test_positive_only_pulls_the_boundary_in_once_all_are_near() -> None:
    """Or nothing would be left to learn when positives are within the boundary, long before one point."""
    z, labels = batch(3)
    near = torch.nn.functional.normalize(z[:1] + 0.01 * z, dim=1).requires_grad_()
    loss = losses.build("margin", part="positive")
    loss(near, labels).backward()
    assert (loss.beta.grad > 0).all()
    assert (near.grad == 0).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_parts_go_by_the_tuples_given(kind: str) -> None:
    """Two views of an image are positives of each other whatever their labels say."""
    z, _ = batch(4)
    labels = torch.arange(len(z))  # no class has two images
    one, other = torch.tensor([0, 1]), torch.tensor([2, 3])
    tuples: Tuples = Triplets(one, other, one + 6)
    if kind == "pairs":
        same = torch.tensor([True, True, False, False])
        tuples = Pairs(torch.cat([one, one]), torch.cat([other, one + 6]), same)
    for part, kept, constant in (("positive", other, one + 6), ("negative", one + 6, other)):
        _, gradient = value_and_gradient(losses.build("margin", beta=0.9, margin=1.5, part=part), z, labels, tuples)
        assert gradient[kept].abs().sum() > 0.1
        assert (gradient[constant] == 0).all()
