"""What the sections of a page need of a model, collected once and written beside the run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, RecipeError
from holdfast.files import inside, new_folder, write_json
from holdfast.report.context import GOAL, NO_GRADIENTS, Absent, CollectContext
from holdfast.report.images import FOLDER
from holdfast.report.sections import SECTIONS
from holdfast.run_files import parse_json
from holdfast.run_folder import EXHIBITS_FILE, EXHIBITS_SCHEMA
from holdfast.versions import versions

if TYPE_CHECKING:
    import torch

    from holdfast.report.origin import Origin

LIMIT = 200


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
    """Write `artifacts/exhibits.json` of a finished run or audit, with images beside it; returns the file.

    What cannot be shown is null there, with the reason under `missing`.

    Args:
        folder: a run, or the folder of an audit.
        data: other images than those that it names.
        images: write images; without, none leaves the dataset and older ones are deleted.
        device: where to run; a GPU when there is one.
        seed: of every choice; that of the run or audit when left out.
        limit: attack at most so many queries; when left out 200, but no more than the audit attacked.
        trust_code: let the model import its own module, or be a function in a Python file.
    """
    import torch

    from holdfast.audit.preparation import borrow_model
    from holdfast.devices import choose_device, seeded_devices
    from holdfast.report.model import open_model
    from holdfast.report.origin import find_origin

    if limit is not None and limit < 1:
        raise RecipeError(f"limit must be 1 or more, got {limit}")
    file = folder / EXHIBITS_FILE
    for place in (file.parent, file.with_name(FOLDER), file):  # also where no images are wanted: older ones go
        inside(folder, place)
    origin = find_origin(folder, data, trust_code)
    seed = origin.seed if seed is None else seed
    with (
        borrow_model(origin.model, origin.size, trust_code, choose_device(device), through_sets=True) as (embedder, _),
        _image_folder(file, images) as image_folder,
        torch.random.fork_rng(seeded_devices(embedder.mean.device)),
    ):
        context = open_model(origin, embedder, image_folder, seed, limit or min(LIMIT, origin.attacked or LIMIT))
        document = _document(context, origin, images)
    write_json(file, document)
    return file


def _document(context: CollectContext, origin: Origin, images: bool) -> dict[str, Any]:
    """What every section collects; what has nothing to show, with the reason."""
    made = {
        "model": origin.name,
        "data": origin.data,
        "split": context.split,
        "content": "" if isinstance(context.audited, str) else context.audited.content(),
        "seed": context.seed,
        "versions": versions(),
        "images": images,
        "attack": {"goal": GOAL, "eps_pixel": context.budget.eps, "steps": context.budget.steps},
    }
    shown: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, exhibit in (entry for section in SECTIONS for entry in section.collect.items()):
        try:
            shown[name] = exhibit(context)
        except Absent as absent:
            shown[name], missing[name] = None, absent.why
    if NO_GRADIENTS in missing.values():
        missing["attacked"] = NO_GRADIENTS  # the strips are there, but half of each is not
    return {"schema": EXHIBITS_SCHEMA, "made": made, **shown, "missing": missing}


@contextmanager
def _image_folder(file: Path, wanted: bool) -> Iterator[Path | None]:
    """The folder for images, moved into place when all is well, just after the document of the older ones is gone.

    So no document ever names images that are not its own, wherever this is interrupted.
    """
    folder = file.with_name(FOLDER)
    file.parent.mkdir(parents=True, exist_ok=True)
    if wanted:
        with new_folder(folder) as aside:
            yield aside
            file.unlink(missing_ok=True)
    else:
        yield None
        file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def is_current(folder: Path, *, images: bool = True) -> bool:
    """Whether `artifacts/exhibits.json` is there, of this schema, whole, and not older than what it was made from.

    Exhibits of other images than the folder's own are never current: they were asked for once, with `data`.

    Args:
        folder: a run, or the folder of an audit.
        images: ask for images, too; without, it does not matter whether there are any.
    """
    from holdfast.report.origin import own_data

    file = folder / EXHIBITS_FILE
    try:
        made = file.stat().st_mtime
        document = parse_json(file.read_text("utf-8"))
        own = own_data(folder)
    except (OSError, ValueError, HoldfastError):
        return False
    if not isinstance(document, dict) or document.get("schema") != EXHIBITS_SCHEMA:
        return False
    if any(name not in document for section in SECTIONS for name in section.collect):  # an earlier version made it
        return False
    sources = ["recipe.yaml", "evaluation.json", "audit.json", "audit-*-*.json", "model/*"]
    if any(source.stat().st_mtime > made for pattern in sources for source in folder.glob(pattern)):
        return False
    settings = document.pop("made", None)  # the block of a dataset may name a file, too, which is no image
    if not isinstance(settings, dict) or (own is not None and settings.get("data") != own):
        return False
    if not images:
        return True
    return settings.get("images") is True and all((file.parent / name).is_file() for name in _files(document))


def _files(value: Any) -> Iterator[str]:
    """Every image file that is named anywhere in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _files(part)
