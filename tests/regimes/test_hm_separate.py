from __future__ import annotations

import copy
from typing import Any

import by_hand
import pytest
import torch
from hm_by_hand import BUDGET, apart, climbed, drawn_triplets, hard
from regime_cases import batch, context, embedder, gradients, unit

from holdfast import regimes
from holdfast.losses import build as build_loss
from holdfast.models.bank import SetStart

LOSS = "binomial-deviance"
"""Smooth in every pair: untouched copies of one image are apart by rounding alone, and a loss that averages over pairs
above zero, as contrastive does, would count them on one machine and not on another."""

ICS_MARGIN = 1.0
"""Large, so that the hinge of the structure term is open for some triplets."""


def hm(destination: Any, **arguments: Any) -> regimes.Regime:
    return regimes.build("hm", source="random", destination=destination, budget=BUDGET, **arguments)


@pytest.mark.parametrize("ics", [0.0, 0.5])
def test_separate_is_a_sum_over_two_networks_that_share_all_but_batchnorm(ics: float) -> None:
    """The clean batch is learnt by the network; triplets are crafted and learnt by its twin with the other set."""
    model, given = embedder(sets=(SetStart("hm", 0.3),)), batch()
    twin = copy.deepcopy(model)
    other = copy.deepcopy(model)
    other.backbone.conv, other.backbone.out = twin.backbone.conv, twin.backbone.out
    other.backbone.bn = twin.bank.sets["hm"][0]
    triplets = drawn_triplets(given.labels)
    wanted = [0.05] * len(triplets)
    z = by_hand.looking(twin, "eval")(given.images).detach()
    short = [float(hard(z, t)) < h for t, h in zip(triplets, wanted, strict=True)]
    images = climbed(by_hand.looking(other, "eval"), given.images, triplets, wanted, short)

    made = hm(0.05, separate=True, ics=ics, ics_margin=ICS_MARGIN if ics else 0.0)
    result = made.step(context(model, LOSS), given)
    places = [(i, i + 1, i + 2) for i in range(0, len(images), 3)]
    clean, moved = unit(twin, given.images), unit(other, images)
    criterion = build_loss(LOSS).double()
    labels = given.labels[[row for triplet in triplets for row in triplet]]
    loss = criterion(clean, given.labels) + criterion(moved, labels)
    if ics:
        near = [
            torch.relu(by_hand.apart(clean[a], moved[slot]) - apart(clean, a, p) + ICS_MARGIN)
            for (a, p, _), (slot, _, _) in zip(triplets, places, strict=True)
        ]
        loss = loss + ics * torch.stack(near).mean()
    torch.testing.assert_close(result.loss, loss)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss))
    torch.testing.assert_close(result.encoded.z, clean)
    assert set(result.terms) == {"triplet", "clean"} | ({"ics"} if ics else set())


def test_separate_needs_a_set_and_a_pass_more() -> None:
    plain, separate = hm("lga"), hm("lga", separate=True)
    assert plain.sets() == ()
    assert separate.sets() == (SetStart("hm"),)
    assert separate.passes == plain.passes + 1
