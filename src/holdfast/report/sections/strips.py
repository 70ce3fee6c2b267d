"""Searches: queries and what they find, before and after the attack."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.report.context import GOAL, NO_POSITIVE, Absent, CollectContext, PageContext, Section
from holdfast.report.images import PageImages
from holdfast.run_files import block, finite

if TYPE_CHECKING:
    from torch import Tensor

STRIPS, MATCHES = 8, 6
OUTCOMES = ("fooled", "held", "wrong")
OPEN = 4
"""So many are open; the rest is folded."""


def collect(context: CollectContext) -> list[dict[str, Any]]:
    """Eight queries, chosen by seed and not by how they look.

    The attacked queries with a positive in the gallery fall into three kinds: fooled, held, and wrong before anything
    was changed. Each kind gets places in proportion to how often it occurs, and at least one where it occurs at all;
    within a kind they come in one order that the seed draws, so that models asked the same queries mostly show the same
    ones.
    """
    import torch

    from holdfast import seeds

    kinds = outcomes(context)
    if not any(len(positions) for positions in kinds.values()):
        raise Absent(NO_POSITIVE)
    places = shared_out([len(positions) for positions in kinds.values()], STRIPS)
    turn = torch.randperm(len(context.subject.rows), generator=seeds.generator(context.seed, "strips"))
    shown = []
    for positions, count in zip(kinds.values(), places, strict=True):
        shown += positions[turn[positions].argsort()[:count]].tolist()
    return [_strip(context, position) for position in shown]


def outcomes(context: CollectContext) -> dict[str, Tensor]:
    """Positions among the attacked queries by what became of them; those that are right hold where none is attacked."""
    references, rows = context.subject.references, context.subject.rows
    before = references.hits(references.clean(rows), rows).cpu()
    after = context.attacked.stored_hits.cpu() if context.subject.differentiable else before
    kinds = (before > 0) & (after == 0), (before > 0) & (after > 0), before == 0
    return {name: kind.nonzero()[:, 0] for name, kind in zip(OUTCOMES, kinds, strict=True)}


def outcome_counts(context: CollectContext) -> dict[str, int]:
    """How many of the attacked queries were fooled, held, or were wrong before: what the strips stand for."""
    context.require_gradients()
    return {kind: len(positions) for kind, positions in outcomes(context).items()}


def shared_out(sizes: list[int], places: int) -> list[int]:
    """Places in proportion to sizes, at least one for what is not empty and no more than there are.

    One by one, each place goes to whoever has the fewest for their size (the method of Sainte-Laguë).
    """
    given = [min(1, size) for size in sizes]
    while sum(given) < min(places, sum(sizes)):
        claims = [size / (2 * have + 1) if have < size else 0.0 for size, have in zip(sizes, given, strict=True)]
        given[claims.index(max(claims))] += 1
    return given


def _strip(context: CollectContext, position: int) -> dict[str, Any]:
    """A query, the query as a file holds it after the attack, its change at full contrast, and what both find."""
    from holdfast.audit.examples import amplified

    subject = context.subject
    row = subject.rows[position]
    name = context.name_of(subject.labels[row])
    query = subject.images(row[None])[0]
    strip = {
        "query": context.images.exact(query, f"query, {name}"),
        "label": name,
        "matches": matches(context, subject.references.clean(row), row),
        "attacked": None,
    }
    if not subject.differentiable:
        return strip
    stored = context.attacked.stored[position].float() / 255
    change = stored - query
    largest = float(change.abs().max())
    factor = 0.5 / largest if largest else 1.0
    told = f"what the attack changed, amplified {factor:.0f} times"
    strip["attacked"] = {
        "picture": context.images.exact(stored, f"attacked query, {name}"),
        "change": context.images.seen(amplified(change), told),
        "amplified": factor,
        "goal": GOAL,
        "eps_pixel": context.budget.eps,
        "matches": matches(context, context.attacked.vectors[position], row),
    }
    return strip


def matches(context: CollectContext, vector: Tensor, row: Tensor, count: int = MATCHES) -> list[dict[str, Any]]:
    """The nearest gallery images of a vector, the query's own copy and camera left out; fewer where there are fewer."""
    import torch

    found = context.subject.references.nearest(vector[None], row[None], count)[0]
    found = torch.tensor(list(dict.fromkeys(found.tolist())), device=found.device)  # short rankings repeat their end
    return match_of(context, vector, row, found, range(1, len(found) + 1))


def match_of(
    context: CollectContext, vector: Tensor, row: Tensor, found: Tensor, places: Iterable[int]
) -> list[dict[str, Any]]:
    """Gallery images as matches of a query, each with its place in the query's list."""
    from holdfast.sphere import distance

    references = context.subject.references
    right = references.same(row[None], found)[0].tolist()
    away = distance(vector, references.vectors[found]).tolist()
    listed = []
    for place, item, hit, length in zip(places, found.tolist(), right, away, strict=True):
        name = context.name_of(references.labels[item])
        told = f"match {place}, {name}, {'right' if hit else 'wrong'}"
        image = context.images.of(context.searched, item, told)
        listed.append({"picture": image, "label": name, "right": hit, "distance": length})
    return listed


def show(context: PageContext) -> dict[str, Any]:
    """Every strip with its images."""
    listed = mixed(listed_strips(context))
    attacked = any(strip["attacked"] for strip in listed)
    counted = block(context.files.exhibits, "outcomes")
    fooled, held = (finite(counted.get(kind)) for kind in ("fooled", "held"))
    if attacked and fooled is not None and held is not None and fooled + held > 0:
        title = f"Of {fooled + held:,.0f} searches that were right, {fooled:,.0f} go wrong after the attack"
    else:
        title = f"What {len(listed)} searches find"
    shown = {"open": listed[:OPEN], "more": listed[OPEN:], "strength": context.strength, "attacked": attacked}
    return {"title": title, **shown}


def listed_strips(context: PageContext) -> list[dict[str, Any]]:
    """All strips, as they are stored, with their images."""
    return [shown_strip(strip, context.images) for strip in context.exhibit("strips")]


def shown_strip(strip: dict[str, Any], images: PageImages) -> dict[str, Any]:
    """One strip with its images."""
    query, attacked = images.tag(strip["query"]), block(strip, "attacked")
    if attacked:
        made = {"image": images.tag(attacked["picture"]), "change": images.tag(attacked.get("change"))}
        attacked = {**attacked, **made, **_matches(attacked, images)}
    return {"label": strip["label"], "query": query, "attacked": attacked, **_matches(strip, images)}


def _matches(part: dict[str, Any], images: PageImages) -> dict[str, Any]:
    """What a query found, and whether the first is right."""
    found = shown_matches(part["matches"], images)
    return {"matches": found, "right": bool(found and found[0]["right"])}


def shown_matches(found: list[dict[str, Any]], images: PageImages) -> list[dict[str, Any]]:
    """Matches with their images."""
    return [
        {**match, "label": match["label"], "image": images.tag(match["picture"]), "right": match["right"] is True}
        for match in found
    ]


def mixed(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In turn one that the attack fooled, one that held and one wrong before, so that the first few show all kinds."""
    kinds: dict[tuple[bool, bool], list[dict[str, Any]]] = {}
    for strip in listed:
        fooled = bool(strip["attacked"]) and not strip["attacked"]["right"]
        kinds.setdefault((strip["right"], fooled and strip["right"]), []).append(strip)
    return [strip for turn in itertools.zip_longest(*kinds.values()) for strip in turn if strip is not None]


SECTION = Section("strips", "Searches", show, {"strips": collect, "outcomes": outcome_counts}, of_images=True)
