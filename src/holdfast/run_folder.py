"""A run or audit folder, read once into one typed object; without torch, and without trust in what lies there."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import run_files
from holdfast.errors import HoldfastError
from holdfast.files import inside
from holdfast.run_files import batch_size, data_block, finite, log_lines, steps
from holdfast.yaml_files import NotYaml, read_yaml

EXHIBITS_FILE, EXHIBITS_SCHEMA = "artifacts/exhibits.json", 1
VERIFICATION_FILE = "artifacts/verification.json"
HEADER_LIMIT = 100_000_000
"""What the safetensors format allows a header to be, in bytes."""
DAMAGED = (ValueError, ArithmeticError, TypeError, LookupError, AttributeError, RecursionError)
"""What code raises on files that are not as they should be."""
COUNTED_APART = ("running_mean", "running_var", "num_batches_tracked")
"""Tensors of a BatchNorm layer that are no parameters."""


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """The files of one folder, as plain data; what is not there is empty.

    Args:
        folder: where.
        recipe: how it was trained.
        recipe_text: the same as YAML.
        log: lines of metrics.jsonl.
        evaluation: clean figures.
        audit: the ten attacks, mode fixed.
        audits: every other audit, by file name.
        exhibits: strips, map and the like.
        damaged: names of files that could not be read, some with the reason in brackets.
        verification: thresholds that `holdfast calibrate` found.
    """

    folder: Path
    recipe: dict[str, Any]
    recipe_text: str
    log: list[dict[str, Any]]
    evaluation: dict[str, Any]
    audit: dict[str, Any]
    audits: dict[str, dict[str, Any]]
    exhibits: dict[str, Any]
    damaged: list[str]
    verification: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the run: its folder's."""
        return self.folder.resolve().name

    @property
    def shown_folder(self) -> str:
        """The folder as a command on the page names it: relative where it can be, never a private path."""
        try:
            return str(self.folder.resolve().relative_to(Path.cwd()))
        except ValueError:
            return self.name

    @property
    def data(self) -> dict[str, Any]:
        """What was trained on, or audited with."""
        named = (data_block(document) for document in (self.recipe, self.evaluation, self.main_audit))
        return next((data for data in named if data), {})

    @property
    def all_audits(self) -> dict[str, dict[str, Any]]:
        """Every audit by file name, `audit.json` first."""
        return {"audit.json": self.audit, **self.audits} if self.audit else self.audits

    @property
    def main_audit(self) -> dict[str, Any]:
        """The ten attacks, or the first other audit where they were not run; empty without any."""
        return next(iter(self.all_audits.values()), {})

    @property
    def current_audits(self) -> dict[str, dict[str, Any]]:
        """The newest audit of each protocol and mode, by file name: `audit.json` first, none that was moved aside."""
        return {name: audit for name, audit in self.all_audits.items() if name.count(".") == 1 and "/" not in name}

    @property
    def view(self) -> str:
        """How the model saw the images, in words; empty where no file says."""
        told = (document.get("view") for document in (self.evaluation, *self.all_audits.values()))
        return next((view for view in told if isinstance(view, str) and view), "")

    @property
    def data_spec(self) -> str:
        """The data as `--data` takes it, `DATA` where that is not known."""
        place = self.data.get("root") or self.data.get("file")
        name = self.data.get("name", "DATA")
        return f"{name}:{place}" if place else str(name)

    @property
    def training_seconds(self) -> float | None:
        """Time spent in training steps."""
        return run_files.training_seconds(self.log, batch_size(self.recipe))

    @property
    def passes_per_step(self) -> float | None:
        """How often a step ran the model forward and back, on average."""
        return run_files.passes_per_step(self.log)

    @property
    def images_seen(self) -> float | None:
        """Images the run learnt from, repeats counted."""
        batch = batch_size(self.recipe)
        last = max((step for step, _ in steps(self.log)), default=0.0)
        return finite(batch * last) if batch and last else None

    @property
    def parameters(self) -> int | None:
        """Weights of the packaged model, auxiliary BatchNorm sets left out; from the header of the file."""
        try:
            with inside(self.folder, self.folder / "model" / "model.safetensors").open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > HEADER_LIMIT:
                    return None
                header = json.loads(file.read(length))
            total = sum(
                int(math.prod(tensor["shape"]))
                for name, tensor in header.items()
                if name != "__metadata__" and not name.startswith("bank.") and not name.endswith(COUNTED_APART)
            )
            return None if finite(total) is None else total
        except (HoldfastError, OSError, *DAMAGED):
            return None


def read_run(folder: Path) -> RunFiles:
    """Read a run or audit folder.

    The folder may be a stranger's: a file that is a link out of it is not read, and what is read is made fit to be
    shown.
    """
    damaged: list[str] = []
    audits = {file.name: _document(folder, file, damaged) for file in sorted(folder.glob("audit*.json"))}
    audits |= {
        f"{file.parent.name}/{file.name}": _document(folder, file, damaged)
        for file in sorted(folder.glob("audits/*/audit*.json"))
    }
    text = _text(folder, folder / "recipe.yaml", damaged)
    recipe = _keys(text, read_yaml, "recipe.yaml", damaged)
    exhibits = _document(folder, folder / EXHIBITS_FILE, damaged)
    if exhibits and exhibits.get("schema") != EXHIBITS_SCHEMA:
        damaged.append("exhibits.json")
        exhibits = {}
    found = RunFiles(
        folder=folder,
        recipe=recipe,
        recipe_text=text if text and recipe else "",
        log=[_fit(line) for line in log_lines(_text(folder, folder / "metrics.jsonl", damaged))],
        evaluation=_document(folder, folder / "evaluation.json", damaged),
        audit=audits.pop("audit.json", {}),
        audits={name: document for name, document in audits.items() if document},
        exhibits=exhibits,
        damaged=damaged,
        verification=_document(folder, folder / VERIFICATION_FILE, damaged),
    )
    if not (found.recipe or found.evaluation or found.audit or found.audits):
        broken = f"; damaged: {', '.join(damaged)}" if damaged else ""
        raise HoldfastError(
            f"{folder} is neither a run nor an audit (no readable recipe.yaml, evaluation.json or audit.json{broken}); "
            "give a folder that `holdfast train` or `holdfast audit` wrote"
        )
    return found


def _document(folder: Path, file: Path, damaged: list[str]) -> dict[str, Any]:
    return _keys(_text(folder, file, damaged), json.loads, file.name, damaged)


def _keys(text: str | None, parse: Callable[[str], Any], name: str, damaged: list[str]) -> dict[str, Any]:
    """What stands under the keys of a file; nothing where there is no text, or none that can be read."""
    if text is None:
        return {}
    why = " (no keys)"
    try:
        content = _fit(parse(text))
        if isinstance(content, dict):
            return content
    except NotYaml as error:
        why = f" ({error})"
    except (ValueError, RecursionError):
        why = ""
    damaged.append(name + why)
    return {}


def _text(folder: Path, file: Path, damaged: list[str]) -> str | None:
    """What a file of the folder holds; None where there is none, or none that is read."""
    if not file.is_file():
        return None
    try:
        return inside(folder, file).read_text("utf-8", errors="replace")
    except HoldfastError:
        damaged.append(f"{file.name} (a link that leads out of the folder)")
    except OSError as error:
        damaged.append(f"{file.name} ({error.strerror})")
    return None


def _fit(value: Any) -> Any:
    """The same with words for keys, and without what JSON and YAML can hold but no page: half characters, endless
    numbers."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_fit(str(key)): _fit(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fit(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > 1023:
        return math.copysign(math.inf, value > 0 or -1)
    return value
