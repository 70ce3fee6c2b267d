"""The demo: three ways of training on the same letters, each attacked, and one page that compares them."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import audit, console
from holdfast.evaluation import read_table
from holdfast.models import load_model
from holdfast.report import collect, compare, is_current, write
from holdfast.robustness import ROBUST
from holdfast.run_folder import read_run
from holdfast.search import create_index
from holdfast.search.store import MANIFEST
from holdfast.training import Recipe, Run, train

START = "demo-start"
MODELS = {
    "standard": "plain training",
    "hm": "hardness manipulation (HM), which learns from triplets that were made harder",
    "mdprop": "MDProp, which learns from clean and from adversarial images, through a BatchNorm set each",
}
"""Folder of each model and what it is; its recipe is `demo-NAME`."""

SERVED = ("standard", "hm")
"""Models whose indexes are made, so that a person can see an attack on each."""

LIMIT = 100
"""Images attacked per model: enough for ERS within about three points, few enough for a CPU."""


@dataclasses.dataclass(frozen=True)
class DemoModel:
    """One model of the demo.

    Args:
        run: its folder.
        report: its own page.
        recall: R@1 on characters that were never trained on.
        robust: robust R@1 of the attacked ones; None of an audit of before.
        ers: Empirical Robustness Score.
        ers_interval: its 95 % interval.
        seconds: spent in training steps, without those of the common start.
    """

    run: Path
    report: Path
    recall: float
    robust: float | None
    ers: float
    ers_interval: tuple[float, float]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Demo:
    """What the demo made.

    Args:
        page: compares the models, and links to the page of each.
        models: by name.
        indexes: of the test images, for `holdfast serve`.
        seconds: that this call took, less where it went on with an earlier one.
    """

    page: Path
    models: dict[str, DemoModel]
    indexes: list[Path]
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As `--json` prints it."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self), default=str))
        return plain


def demo(out: Path, settings: Sequence[str] = (), limit: int = LIMIT) -> Demo:
    """Train three models from one start, attack them, write a page on each and one that compares them.

    All have the same start, loss and number of epochs; they differ in the regime alone. What an earlier call finished
    is taken from its folder, and what it began goes on from there.

    Args:
        out: folder of the runs and of `report.html`.
        settings: `key.path=value` overrides of every recipe.
        limit: images attacked per model.
    """
    began = time.perf_counter()
    console.say("holdfast learns letters from some characters, and is then asked for characters it has never seen.")
    console.say("\nThe common start: a few epochs of plain training")
    start = train(START, out=out / "start", settings=settings)
    shown = {}
    for number, (name, words) in enumerate(MODELS.items(), start=1):
        console.say(f"\n{number} of {len(MODELS)}: {words}")
        changes = [*settings, f"init={json.dumps(str(start.folder))}"]
        run = train(f"demo-{name}", out=out / name, settings=changes)
        shown[name] = _show(run, limit)
    note = (
        f"Made by holdfast demo: {run.recipe.model.backbone}, a small net; {run.recipe.epochs} epochs each, after "
        f"{start.recipe.epochs} of plain training that all share; the same loss and seed; {limit} attacked images "
        "per model. Enough to see the difference, and no benchmark."
    )
    page = compare([model.run for model in shown.values()], out / "report.html", note=note)
    console.say("\nindexes of the test images")
    indexes = [_index(run.recipe, out / name) for name in SERVED]
    return Demo(page, shown, indexes, time.perf_counter() - began)


def _index(recipe: Recipe, run: Path) -> Path:
    """The test images of the demo as a model sees them."""
    folder = run.with_name(f"{run.name}.index")
    made = folder / MANIFEST
    if not made.is_file() or made.stat().st_mtime < (run / "evaluation.json").stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        table = read_table(recipe.data.plain, skip_bad=False)[0].split("test")
        audits = read_run(run).current_audits.values()
        create_index(folder, load_model(str(run)), table, reference=run.name, seed=recipe.seed, audits=audits)
    return folder


def _show(run: Run, limit: int) -> DemoModel:
    """Attack a trained model, and write its page."""
    file, found = run.folder / "audit.json", read_run(run.folder).audit
    if found.get("limit") != limit or file.stat().st_mtime < (run.folder / "evaluation.json").stat().st_mtime:
        found = audit.run(
            str(run.folder), run.recipe.data.plain, limit=limit, seed=run.recipe.seed, out=run.folder
        ).document
    if not is_current(run.folder):
        console.say("collecting images for its page")
        collect(run.folder, limit=limit)
    low, high = found["intervals"]["ERS"]
    return DemoModel(
        run=run.folder,
        report=write(run.folder),
        recall=run.evaluation["metrics"]["R@1"],
        robust=found["metrics"].get(ROBUST),
        ers=found["metrics"]["ERS"],
        ers_interval=(low, high),
        seconds=read_run(run.folder).training_seconds or 0.0,
    )
