"""The run folder: what a run leaves on disk, and whether this command may continue it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from holdfast.data import ImageTable
from holdfast.errors import RecipeError, TrainingError
from holdfast.files import inside, new_folder, recover_folder, write_atomic
from holdfast.locks import locked
from holdfast.models import Embedder
from holdfast.models.card import CARD, card_text
from holdfast.run_files import finite, parse_json
from holdfast.training.recipe import Recipe
from holdfast.yaml_files import read_yaml

LOCK = ".lock"
PLACES = ("data.root", "data.file", "model.weights", "init")
"""Keys of a recipe that may be paths."""


class TrainingFolder:
    """Paths and files of one run.

    `recipe.yaml` (resolved), `metrics.jsonl`, `checkpoint/`, `model/` (the best by validation), `last/`,
    `evaluation.json` (written last: a run that has it is finished); `.lock` while a process trains; `start/`, the run
    that came first, where the recipe has one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe_file = folder / "recipe.yaml"
        self.metrics = folder / "metrics.jsonl"
        self.checkpoints = folder / "checkpoint"
        self.good = folder / "checkpoint-good"
        self.model = folder / "model"
        self.last = folder / "last"
        self.evaluation = folder / "evaluation.json"
        self.first = folder / "start"

    def open(self, recipe: Recipe) -> dict[str, Any] | None:
        """Make sure that a run that is here has the same recipe; its evaluation if it is finished. Writes nothing."""
        for place in (self.checkpoints, self.good, self.first):
            inside(self.folder, place)
        if not self._begun():
            return None
        there = self.stored_recipe()
        if there is None:
            raise RecipeError(f"{self.recipe_file} is empty or damaged; give another --out, or delete that folder")
        different = [key for key in differences(there, recipe.plain()) if not same_place(key, there, recipe.plain())]
        if different:
            raise RecipeError(
                f"{self.folder} holds a run of another recipe (differs in {', '.join(different[:3])}); "
                "give another --out, or delete that folder"
            )
        return self.finished()

    @contextmanager
    def held(self, recipe: Recipe) -> Iterator[None]:
        """Keep other processes out while the block trains, and write the recipe of a new run.

        A run that stopped before its first checkpoint has nothing to lose and is replaced; one that failed before it
        wrote more than its recipe leaves nothing.
        """
        new = [place for place in (self.folder, *self.folder.parents) if not place.exists()]
        with ExitStack() as stack:
            if new:
                stack.push(partial(self._leave_nothing, new))
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.folder / LOCK, str(self.folder)))
                self.open(recipe)  # again: a process that left just now may have begun a run
                if not self._begun():
                    write_atomic(self.recipe_file, recipe.yaml())
                for place in (self.model, self.last):
                    recover_folder(place)
            except OSError as error:
                reason = error.strerror or error
                raise TrainingError(f"cannot write into {self.folder}: {reason}; give another --out") from error
            yield

    def _leave_nothing(self, new: Sequence[Path], kind: type[BaseException] | None, *_: object) -> None:
        """When a run ends in an error and there is only its recipe: not its folder, nor those made on the way there."""
        with suppress(OSError):
            if kind is not None and [file.name for file in self.folder.iterdir()] == [self.recipe_file.name]:
                self.recipe_file.unlink()
                for place in new:
                    place.rmdir()

    def _begun(self) -> bool:
        return self.recipe_file.is_file() and (self.checkpoints.exists() or self.evaluation.exists())

    def stored_recipe(self) -> dict[str, Any] | None:
        """The content of recipe.yaml; None where it is missing, empty or damaged."""
        try:
            there = read_yaml(self.recipe_file.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return there if isinstance(there, dict) else None

    def finished(self) -> dict[str, Any] | None:
        """The evaluation of a finished run; a damaged one means that the run has to finish again."""
        if not self.evaluation.is_file():
            return None
        try:
            found = parse_json(self.evaluation.read_text("utf-8"))
        except ValueError:
            return None
        return found if is_evaluation(found) else None

    def save_model(self, model: Embedder, where: Path, recipe: Recipe, values: Mapping[str, Any] | None = None) -> None:
        """Package a model so that it replaces the one before in one step.

        Its card has the recipe and the figures on validation classes; `write_card` writes the whole one in the end.
        """
        with new_folder(where) as aside:
            try:
                card = card_text(recipe.plain(), {"metrics": values, "split": "validation"} if values else None)
                (aside / CARD).write_text(card, "utf-8")  # one that is there already is kept
                model.save_pretrained(aside)
            except SafetensorError as error:
                raise OSError(f"{where}: {error}") from error


def is_evaluation(found: Any) -> bool:
    """Whether a document has all that is read of a finished run's evaluation, each of its kind."""
    kinds = {"metrics": dict, "undefined": dict, "skipped": list, "images": int, "split": str}
    return (
        isinstance(found, dict)
        and all(isinstance(found.get(key), kind) for key, kind in kinds.items())
        and finite(found["images"]) is not None
        and all(value in (None, True, False) or finite(value) is not None for value in found["metrics"].values())
        and all(isinstance(reason, str) for reason in found["undefined"].values())
    )


def default_folder(recipe_name: str, recipe: Recipe) -> Path:
    """`runs/RECIPE-DATA-sSEED`, so that the same command finds its run again."""
    data = recipe.data.plain
    place = next((Path(str(data[key])).stem for key in ("root", "file") if key in data), None)
    what = f"{data['name']}-{place}" if place and data["name"] in ("folder", "csv") else str(data["name"])
    return Path("runs") / f"{Path(recipe_name).stem}-{what}-s{recipe.seed}"


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Paths of the keys in which two nested structures differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *[k for k in b if k not in a]]
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{where}.{k}" if where else str(k))]
    return [] if a == b else [where]


def same_place(key: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether a key of two recipes is a path, and both lead to one place: `photos`, `./photos/`, `/home/me/photos`."""
    if key not in PLACES:
        return False
    for part in key.split("."):
        a, b = a.get(part, {}), b.get(part, {})
    return (
        isinstance(a, str) and isinstance(b, str) and Path(a).expanduser().resolve() == Path(b).expanduser().resolve()
    )


def split_counts(table: ImageTable) -> dict[str, dict[str, int]]:
    """Images and classes of each split, as evaluation.json and the model card state them."""
    parts = {name: table.split(name) for name in dict.fromkeys(table.splits.tolist())}
    return {name: {"images": len(part), "classes": len(set(part.labels.tolist()))} for name, part in parts.items()}
