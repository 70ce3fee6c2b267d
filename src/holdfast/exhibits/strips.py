"""Retrieval strips: a query and what it finds, before and after the attack."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast import seeds
from holdfast.audit.examples import amplified
from holdfast.exhibits.attacked import GOAL
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import NO_GRADIENTS, Scene
from holdfast.sphere import distance

STRIPS, MATCHES = 8, 6
OUTCOMES = ("fooled", "held", "wrong")


def strips(scene: Scene) -> list[dict[str, Any]]:
    """Eight queries, chosen by seed and not by how they look.

    The attacked queries that have something to find fall into three kinds: fooled, held, and wrong before anything was
    changed. Each kind gets places in proportion to how often it occurs, and at least one where it occurs at all; within
    a kind they come in one order that the seed draws, so that models asked the same queries mostly show the same ones.
    """
    kinds = outcomes(scene)
    if not any(len(positions) for positions in kinds.values()):
        raise Missing("no query has another image of its class to find")
    places = shared_out([len(positions) for positions in kinds.values()], STRIPS)
    turn = torch.randperm(len(scene.subject.rows), generator=seeds.generator(scene.seed, "strips"))
    shown = []
    for positions, count in zip(kinds.values(), places, strict=True):
        shown += positions[turn[positions].argsort()[:count]].tolist()
    return [_strip(scene, position) for position in shown]


def outcomes(scene: Scene) -> dict[str, Tensor]:
    """Positions among the attacked queries by what became of them; those that are right hold where none is attacked."""
    references, rows = scene.subject.references, scene.subject.rows
    before = references.hits(references.clean(rows), rows).cpu()
    after = scene.attacked.stored_hits.cpu() if scene.subject.differentiable else before
    kinds = (before > 0) & (after == 0), (before > 0) & (after > 0), before == 0
    return {name: kind.nonzero()[:, 0] for name, kind in zip(OUTCOMES, kinds, strict=True)}


def outcome_counts(scene: Scene) -> dict[str, int]:
    """How many of the attacked queries were fooled, held, or were wrong before: what the strips stand for."""
    if not scene.subject.differentiable:
        raise Missing(NO_GRADIENTS)
    return {kind: len(positions) for kind, positions in outcomes(scene).items()}


def shared_out(sizes: list[int], places: int) -> list[int]:
    """Places in proportion to sizes, at least one for what is not empty and no more than there are.

    One by one, each place goes to whoever has the fewest for their size (the method of Sainte-Laguë).
    """
    given = [min(1, size) for size in sizes]
    while sum(given) < min(places, sum(sizes)):
        claims = [size / (2 * have + 1) if have < size else 0.0 for size, have in zip(sizes, given, strict=True)]
        given[claims.index(max(claims))] += 1
    return given


def _strip(scene: Scene, position: int) -> dict[str, Any]:
    subject = scene.subject
    row = subject.rows[position]
    name = scene.name_of(subject.labels[row])
    return {
        "query": scene.pictures.exact(subject.images(row[None])[0], f"query, {name}"),
        "label": name,
        "matches": matches(scene, subject.references.clean(row), row),
        "attacked": _attacked(scene, position) if subject.differentiable else None,
    }


def _attacked(scene: Scene, position: int) -> dict[str, Any]:
    """The query as a file holds it after the attack, its change stretched to full contrast, and what it finds now."""
    row = scene.subject.rows[position]
    name = scene.name_of(scene.subject.labels[row])
    stored = scene.attacked.stored[position].float() / 255
    change = stored - scene.subject.images(row[None])[0]
    largest = float(change.abs().max())
    factor = 0.5 / largest if largest else 1.0
    return {
        "picture": scene.pictures.exact(stored, f"attacked query, {name}"),
        "change": scene.pictures.exact(amplified(change), f"what the attack changed, amplified {factor:.0f} times"),
        "amplified": factor,
        "goal": GOAL,
        "eps_pixel": scene.budget.eps,
        "matches": matches(scene, scene.attacked.vectors[position], row),
    }


def matches(scene: Scene, vector: Tensor, row: Tensor) -> list[dict[str, Any]]:
    """The nearest gallery images of a vector, the query's own copy and camera left out; fewer where there are fewer."""
    references = scene.subject.references
    found = references.nearest(vector[None], row[None], MATCHES)[0]
    found = torch.tensor(list(dict.fromkeys(found.tolist())), device=found.device)  # short rankings repeat their end
    right = references.same(row[None], found)[0].tolist()
    names = [scene.name_of(references.labels[item]) for item in found]
    return [
        {
            "picture": scene.pictures.of(scene.searched, item, f"match {place}, {name}, {'right' if hit else 'wrong'}"),
            "label": name,
            "right": hit,
            "distance": away,
        }
        for place, (item, name, hit, away) in enumerate(
            zip(found.tolist(), names, right, distance(vector, references.vectors[found]).tolist(), strict=True), 1
        )
    ]
