"""Searches that go wrong without any attack: the worst of them with what they find instead, and a list of all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.report.context import CollectContext, PageContext, Section
from holdfast.report.public import public_path
from holdfast.report.sections.strips import match_of, matches, shown_matches
from holdfast.run_files import block, blocks

if TYPE_CHECKING:
    from torch import Tensor

CARDS, EACH, RETURNED = 20, 3, 4
"""Failures that are shown with images, how many of one class at most, and how many images each found."""
OPEN = 5
"""So many are open; the rest is folded."""
LISTED = 1000
"""Failures that are listed by name."""


def collect(context: CollectContext) -> dict[str, Any]:
    """Every query whose nearest image is of another class, the worst first.

    Worst is the one whose first right image comes last; of those in the same place, the one that is nearest to what it
    found instead. No class has more than three of those that are shown with images.
    """
    from holdfast.sphere import distance

    searches, references = context.searches, context.subject.references
    rows, found = searches.rows[~searches.right], searches.found[~searches.right]
    vectors = references.clean(rows)
    places, away = _first_places(context, rows), distance(vectors, references.vectors[found]).tolist()
    labels, taken = searches.labels[~searches.right].tolist(), references.labels[found].tolist()
    order = sorted(range(len(rows)), key=lambda i: (-places[i], away[i]))
    ids = context.store.table.ids
    listed = [
        {
            "image": ids[int(rows[i])],
            "label": context.name_of(labels[i]),
            "found": context.name_of(taken[i]),
            "distance": away[i],
            "place": places[i],
        }
        for i in order[:LISTED]
    ]
    chosen: list[int] = []
    shown: Counter[int] = Counter()
    for i in order:
        if len(chosen) < CARDS and shown[labels[i]] < EACH:
            chosen.append(i)
            shown[labels[i]] += 1
    cards = [_card(context, rows[i], labels[i], places[i]) for i in chosen]
    return {"searches": len(searches.rows), "wrong": len(rows), "listed": listed, "cards": cards}


def _first_places(context: CollectContext, rows: Tensor) -> list[int]:
    """Where the first right image stands in each query's list, from 1."""
    import torch

    from holdfast.metrics.ranks import match_ranks

    references = context.subject.references
    places = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for queries, ranks, _ in match_ranks(references.embedded(references.clean(rows), rows)) if len(rows) else ():
        places[queries] = ranks[:, 0].to(places)
    return [int(place) for place in places.tolist()]


def _card(context: CollectContext, row: Tensor, label: int, place: int) -> dict[str, Any]:
    """A query, the images it found, and the right one that it should have found."""
    subject, name = context.subject, context.name_of(label)
    vector, references = subject.references.clean(row), subject.references
    nearest, _ = references.extreme(vector[None], lambda block: references.positives(row[None], block))
    return {
        "query": context.images.of(subject.store, int(row), f"query, {name}"),
        "image": context.store.table.ids[int(row)],
        "label": name,
        "place": place,
        "matches": matches(context, vector, row, RETURNED),
        "should": None if place <= RETURNED else match_of(context, vector, row, nearest, [place])[0],
    }


def show(context: PageContext) -> dict[str, Any]:
    """The worst with their images, and the list."""
    stored = context.exhibit("failures")
    wrong, total = int(stored["wrong"]), int(stored["searches"])
    if not wrong:
        return {"title": "No search finds an image of another class first", "wrong": 0}
    cards = [_shown(card, context) for card in blocks(stored, "cards")]
    return {
        "title": f"{wrong:,} of {total:,} searches find an image of another class first",
        "wrong": wrong,
        "cards": cards[:OPEN],
        "more": cards[OPEN:],
        "each": EACH,
        "view": context.files.view,
        "rows": [{**row, "image": public_path(row["image"])} for row in blocks(stored, "listed")],
    }


def _shown(card: dict[str, Any], context: PageContext) -> dict[str, Any]:
    should = shown_matches([block(card, "should")], context.images) if block(card, "should") else []
    return {
        "label": card["label"],
        "image": public_path(card["image"]),
        "place": card["place"],
        "query": context.images.tag(card["query"]),
        "matches": shown_matches(card["matches"], context.images),
        "should": should[0] if should else None,
    }


SECTION = Section("failures", "Failures", show, {"failures": collect}, of_images=True)
