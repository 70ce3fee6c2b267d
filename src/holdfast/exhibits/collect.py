"""Everything a page shows of a model, written beside the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from holdfast.attacks.frozen import frozen
from holdfast.audit.preparation import borrow_model
from holdfast.devices import choose_device, seeded_devices
from holdfast.errors import RecipeError
from holdfast.exhibits.attacked import GOAL
from holdfast.exhibits.confusions import confusions
from holdfast.exhibits.data_card import data_card
from holdfast.exhibits.distances import distances
from holdfast.exhibits.drift import drift
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.origin import Origin, find_origin
from holdfast.exhibits.projection import projection
from holdfast.exhibits.radius import radius
from holdfast.exhibits.scene import NO_GRADIENTS, Scene, open_scene
from holdfast.exhibits.strips import outcome_counts, strips
from holdfast.exhibits.triplet import triplet
from holdfast.files import inside, new_folder, write_json
from holdfast.versions import versions

SCHEMA = 1
FILE = "exhibits.json"
PICTURES = "pictures"
LIMIT = 200

EXHIBITS: dict[str, Callable[[Scene], Any]] = {
    "data_card": data_card,
    "strips": strips,
    "outcomes": outcome_counts,
    "distances": distances,
    "map": projection,
    "confusions": confusions,
    "triplet": triplet,
    "radius": radius,
    "drift": drift,
}


def collect(
    folder: Path,
    *,
    data: str | None = None,
    images: bool = True,
    device: str | torch.device | None = None,
    seed: int | None = None,
    limit: int | None = None,
    trust_code: bool = False,
) -> Path:
    """Look at a finished run or audit and write `artifacts/exhibits.json`, with pictures beside it; returns the file.

    What cannot be shown is null there, with the reason under `missing`.

    Args:
        folder: a run, or the folder of an audit.
        data: other images than those that it names.
        images: write pictures; without, no image leaves the dataset and older pictures are deleted.
        device: where to run; a GPU when there is one.
        seed: of every choice; that of the run or audit when left out.
        limit: attack at most so many queries; 200 when left out.
        trust_code: let the model import its own module, or be a function in a Python file.
    """
    if limit is not None and limit < 1:
        raise RecipeError(f"limit must be 1 or more, got {limit}")
    file = folder / "artifacts" / FILE
    for place in (file.parent, file.with_name(PICTURES), file):  # also where no pictures are wanted: older ones go
        inside(folder, place)
    origin = find_origin(folder, data, trust_code)
    seed = origin.seed if seed is None else seed
    embedder, _ = borrow_model(origin.model, origin.size, trust_code, choose_device(device), through_sets=True)
    with (
        _pictures(file, images) as pictures,
        frozen(embedder),
        torch.random.fork_rng(seeded_devices(embedder.mean.device)),
    ):
        scene = open_scene(origin, embedder, pictures, seed, limit or LIMIT)
        document = _document(scene, origin, images)
    write_json(file, document)
    return file


def _document(scene: Scene, origin: Origin, images: bool) -> dict[str, Any]:
    """All exhibits; those that have nothing to show, with the reason."""
    made = {
        "model": origin.name,
        "data": origin.data,
        "split": scene.split,
        "seed": scene.seed,
        "versions": versions(),
        "images": images,
        "attack": {"goal": GOAL, "eps_pixel": scene.budget.eps, "steps": scene.budget.steps},
    }
    shown: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, exhibit in EXHIBITS.items():
        try:
            shown[name] = exhibit(scene)
        except Missing as reason:
            shown[name], missing[name] = None, str(reason)
    if missing.get("radius") == NO_GRADIENTS:
        missing["attacked"] = NO_GRADIENTS  # the strips are there, but half of each is not
    return {"schema": SCHEMA, "made": made, **shown, "missing": missing}


@contextmanager
def _pictures(file: Path, wanted: bool) -> Iterator[Path | None]:
    """The folder for pictures, moved into place when all is well, just after the document of the older ones is gone.

    So no document ever names pictures that are not its own, wherever this is interrupted.
    """
    folder = file.with_name(PICTURES)
    file.parent.mkdir(parents=True, exist_ok=True)
    if wanted:
        with new_folder(folder) as aside:
            yield aside
            file.unlink(missing_ok=True)
    else:
        yield None
        file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
