"""One cell from start to finish: train, measure, and file what was found after every part."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from holdfast import audit, console
from holdfast.attacks.forward import counting
from holdfast.config import builder
from holdfast.data import load
from holdfast.devices import choose_device, sharing_memory, within_share
from holdfast.errors import HoldfastError
from holdfast.files import new_folder, write_atomic
from holdfast.models import ModelConfig, load_model
from holdfast.models.compile_choice import shared_compiling
from holdfast.run_files import batch_size, curve_on_test, finite, log_lines, passes_per_step, training_seconds
from holdfast.training import train
from holdfast.training.folder import TrainingFolder, differences
from holdfast.training.health import Collapsed, Diverged
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.versions import versions
from holdfast_studies import probes
from holdfast_studies.job_count import ROOM
from holdfast_studies.jobs import (
    EMBEDDED,
    Cell,
    Computation,
    Measure,
    Probe,
    Training,
    flat,
    measure_key,
    placed,
    taken,
    unplaced,
)
from holdfast_studies.recorded import names, recipe_of
from holdfast_studies.results import BEST_ON_TEST, ON_TEST
from holdfast_studies.store import Store, same_model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Places:
    """Where things lie on this machine; no part of what a cell is.

    Args:
        data: dataset → folder.
        weights: backbone → file of ImageNet weights, in place of those that timm would fetch. `FILE@stride-1x1` is a
            ResNet file in the layout of 2015.
        device: `cpu`, `cuda`, or None for the best there is.
    """

    data: Mapping[str, str] = dataclasses.field(default_factory=dict)
    weights: Mapping[str, str] = dataclasses.field(default_factory=dict)
    device: str | None = None

    def lacks(self, cell: Cell) -> str | None:
        """What must be given before a cell can run; None if nothing."""
        name = None if cell.job.data is None else unplaced(cell.job.data)["name"]
        return None if name is None or name in EMBEDDED or name in self.data else f"--place {name}=DIR"

    def block(self, data: str | dict[str, Any]) -> dict[str, Any]:
        """The block of a dataset as it lies here."""
        block = unplaced(data)
        return {**block, **placed({"name": block["name"]}, self.data.get(block["name"], ""))}

    def weights_of(self, cell: Cell) -> list[str]:
        """The file that a cell's weights come from, a short digest of it and its layout; empty where none is given."""
        backbone = cell.job.fetched
        given = self._weights(backbone) if backbone else None
        if given is None:
            return []
        file, at, layout = given.partition("@")
        return [f"{backbone}: {_named(file)}{at and f' in the layout {layout}'}"]

    def model(self, plain: dict[str, Any]) -> dict[str, Any]:
        """A recipe's model block, ImageNet weights taken from the file given for its backbone."""
        given = self._weights(plain["backbone"])
        if plain.get("weights") != "imagenet" or given is None:
            return plain
        file, _, layout = given.partition("@")
        return {**plain, "weights": file, **({"layout": layout} if layout else {})}

    def _weights(self, backbone: str) -> str | None:
        """The file given for a backbone, or for its architecture: what stands before the dot of a timm name."""
        return self.weights.get(backbone, self.weights.get(backbone.partition(".")[0]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Company:
    """The cells around one, which it shares a machine with; no part of what it is.

    Args:
        alike: of the same network that are still to run here, this one among them.
        jobs: side by side on its device, this one among them.
    """

    alike: int = 1
    jobs: int = 1


ALONE = Company()


@functools.cache
def _named(file: str) -> str:
    """A file's name and a short digest."""
    digest = hashlib.sha256()
    with Path(file).open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return f"{Path(file).name} (SHA-256 {digest.hexdigest()[:12]})"


def run_cell(cell: Cell, store: Store, places: Places, company: Company = ALONE) -> None:
    """Do what is missing of a cell; a training that collapses or diverges is a result too.

    Measures that are known stay, unless the model had to be trained again and came out another one: then all are
    taken anew.

    Args:
        cell: what to do.
        store: of records and runs.
        places: of datasets and weights.
        company: what runs around it; beside others its audits keep to a part of a GPU's memory.
    """
    share = ROOM / company.jobs if company.jobs > 1 else 1.0
    with shared_compiling(company.alike), sharing_memory(share):
        _run_cell(cell, store, places)


def _run_cell(cell: Cell, store: Store, places: Places) -> None:
    console.say(f"{cell.arm}, seed {cell.seed}")
    scene = probes.Scene(seed=cell.seed, device=choose_device(places.device))
    record = store.read(cell) or {"arm": cell.arm, "seed": cell.seed, "measures": {}, "place": _place(cell, places)}
    if isinstance(cell.job, Training):
        try:
            found = _train(cell.job, cell.seed, store, places)
        except (Collapsed, Diverged) as error:
            ending = "collapsed" if isinstance(error, Collapsed) else "diverged"
            stopped = {"stopped": str(error), "figures": {ending: 1.0}, "recipe": recipe_of(cell.job, cell.seed)}
            store.write(cell, {**record, "measures": {}, **stopped})
            return
        if not same_model({"figures": found["figures"]}, record):
            record = {**record, "measures": {}, "place": _place(cell, places)}
        record = {**record, **found}
        store.write(cell, record)
    else:
        scene = _scene(cell.job, scene, places)
    for measure in cell.job.measures:
        if taken(record, measure) is not None:
            continue
        start, passed = time.perf_counter(), [0, 0]

        def count(images: int, back: bool, passed: list[int] = passed) -> None:
            passed[back] += images

        with counting(count):
            if isinstance(cell.job, Training):
                with within_share(scene.device):
                    found = _measure(measure, cell.job, cell.seed, store, places, scene)
            else:
                found = _probe(cell.job.measure, scene)
        seconds = round(time.perf_counter() - start, 2)
        found |= {"changes": names(), "passed": passed[True], "seconds": seconds}
        record["measures"] = {**record["measures"], measure_key(measure): found}
        store.write(cell, record)
        if isinstance(cell.job, Training):
            shutil.rmtree(store.audit(cell.job, cell.seed, measure), ignore_errors=True)  # what it measured is filed


def _train(job: Training, seed: int, store: Store, places: Places) -> dict[str, Any]:
    """Train (or find trained) and read the run's files."""
    plain = _located(job, seed, store, places)
    take_start(store.run(job, seed), plain)
    relocate(store.run(job, seed), plain)
    run = train(plain, out=store.run(job, seed), device=places.device)
    lines = log_lines((run.folder / "metrics.jsonl").read_text("utf-8", "replace"))
    checked = _validated(lines)
    curve = curve_on_test(lines)
    best = run.evaluation.get("best_on_test")
    figures = {
        **run.evaluation["metrics"],
        "log/passes": passes_per_step(lines),
        "log/seconds": training_seconds(lines, batch_size(plain)),
        "log/validation R@1": max((score for _, score in checked if score is not None), default=None),
        **({f"{BEST_ON_TEST} {key}": finite(value) for key, value in best.items()} if isinstance(best, dict) else {}),
    }
    return {
        "figures": {key: None if value is None else float(value) for key, value in figures.items()},
        "series": {
            "validation R@1": [list(pair) for pair in checked],
            **({ON_TEST: [[point["epoch"], finite(point.get("R@1"))] for point in curve]} if curve else {}),
        },
        "recipe": recipe_of(job, seed),
        "changes": names(),
        "seconds": figures["log/seconds"] or 0.0,
    }


def _validated(lines: Sequence[Mapping[str, Any]]) -> list[tuple[float, float | None]]:
    """Epoch and R@1 of each look at the validation classes after the first step."""
    looks = [line for line in lines if isinstance(line.get("validation"), dict) and finite(line.get("step"))]
    told = [line for line in looks if finite(line.get("epoch")) is not None]
    return [(line["epoch"], finite(line["validation"].get("R@1"))) for line in told]


def _located(job: Training, seed: int, store: Store, places: Places) -> dict[str, Any]:
    """The recipe with its data, weights and start as they lie here."""
    plain = job.resolved(seed).plain()
    plain |= {"data": places.block(plain["data"]), "model": places.model(plain["model"])}
    first = job.first(seed)
    if job.start is None or first is None:
        return plain
    here = json.dumps(str(store.run(job.start, seed)))
    return dict(json.loads(json.dumps(plain).replace(json.dumps(first.key), here)))


def _measure(
    measure: Measure, job: Training, seed: int, store: Store, places: Places, scene: probes.Scene
) -> dict[str, Any]:
    """One measure of a trained model."""
    folder, recipe = store.run(job, seed), _located(job, seed, store, places)
    if isinstance(measure, Probe):
        model = load_model(str(folder), trust_code=recipe["model"]["backbone"], sets=True).to(scene.device)
        table = load(recipe["data"])
        return _probe(measure, dataclasses.replace(scene, model=model, table=table, run=recipe))
    eps = {} if measure.eps is None else {"eps": measure.eps}  # which not every protocol has
    found = audit.run(
        str(folder),
        recipe["data"],
        {"name": measure.protocol, "mode": measure.mode, **eps, **(measure.settings or {})},
        limit=measure.limit,
        split=measure.split,
        seed=seed,
        device=places.device,
        out=store.audit(job, seed, measure),
        checks=measure.checks,
    )
    values = {key: value for key, value in found.document["metrics"].items() if isinstance(value, (bool, int, float))}
    return {
        "figures": {key: float(value) for key, value in values.items()},
        "flags": [flag["name"] for flag in found.document["flags"] if flag["level"] != "note"],
        "intervals": found.document["intervals"],
        "checks": measure.checks,
    }


def _probe(measure: Probe, scene: probes.Scene) -> dict[str, Any]:
    function: probes.ProbeFunction = builder(probes.registry)(measure.function, **measure.arguments)
    return dataclasses.asdict(function(scene))


def _scene(job: Computation, scene: probes.Scene, places: Places) -> probes.Scene:
    """Data and starting weights, where a computation names them."""
    table = None if job.data is None else load(places.block(job.data))
    if job.backbone is None:
        return dataclasses.replace(scene, table=table)
    settings = places.model({"backbone": job.backbone, "dim": None, "weights": "imagenet", **(job.model or {})})
    try:
        model = ModelConfig(**settings).build().to(scene.device)
    except OSError as error:
        raise HoldfastError(
            f"weights of {job.backbone} cannot be fetched ({error}); give --weights {job.backbone}=FILE"
        ) from error
    return dataclasses.replace(scene, table=table, model=model.eval())


def _place(cell: Cell, places: Places) -> dict[str, Any]:
    device = choose_device(places.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return {"device": name, "versions": versions(), "files": places.weights_of(cell)}


def relocate(folder: Path, plain: dict[str, Any]) -> None:
    """Write the paths of today into the recipe of a run that differs in nothing else, so that it goes on.

    The same of the run that comes before it, if any. A file of weights may lie elsewhere but must be called the same;
    another name may mean another model.
    """
    run, now = TrainingFolder(folder), load_recipe(plain)
    if (first := now.first()) is not None:
        relocate(run.first, first.plain())
    there = run.stored_recipe()
    if there is not None and there != now.plain() and _alike(there, now):  # else training says what is wrong with it
        write_atomic(run.recipe_file, now.yaml())


def take_start(folder: Path, plain: dict[str, Any]) -> None:
    """Copy the run that a recipe names as its `start`, where a training beside it has finished the same one."""
    first, wanted = load_recipe(plain).first(), TrainingFolder(folder).first
    if first is None or wanted.exists():
        return
    for start in sorted(folder.parent.glob(f"*/{wanted.name}")):
        run = TrainingFolder(start)
        there = run.stored_recipe()
        if run.finished() and there is not None and _alike(there, first):
            with new_folder(wanted) as aside:
                shutil.copytree(start, aside, dirs_exist_ok=True, ignore=shutil.ignore_patterns(run.checkpoints.name))
            return


def _alike(there: dict[str, Any], now: Recipe) -> bool:
    """Whether a stored recipe is that of today, paths aside."""
    old, new = flat(there), flat(now.plain())
    return all(_moved(key, old, new) for key in differences(there, now.plain()))


def _moved(key: str, there: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a setting that differs is a path that leads to the same thing."""
    old, new = there.get(key), now.get(key)
    same = bool(old and new) and _without_folders(old) == _without_folders(new)
    return key == "data.root" or (key in ("model.weights", "init", "extras") and same)


def _without_folders(value: Any) -> Any:
    """Paths by their last names, whatever holds them."""
    if isinstance(value, dict):
        return {key: _without_folders(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_folders(part) for part in value]
    return Path(value).name if isinstance(value, str) else value
