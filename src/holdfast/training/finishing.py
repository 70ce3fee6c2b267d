"""The end of a run: the last model packaged, the best one evaluated."""

from __future__ import annotations

from typing import Any

from safetensors.torch import load, save

from holdfast.console import Console
from holdfast.evaluation import document, evaluate
from holdfast.models import Embedder, load_model
from holdfast.models.run_card import write_card
from holdfast.run_files import best_on_test, curve_on_test
from holdfast.training.collapse import LastGood
from holdfast.training.folder import RunFolder, model_card, split_counts
from holdfast.training.logs import read_log
from holdfast.training.session import Session

LAST = "last"
BEST = "best on validation"


def finish(session: Session, run: RunFolder, console: Console) -> dict[str, Any]:
    """Package the last model, evaluate the reported one on the test classes and write evaluation.json.

    Reported is the best on the validation classes, or the last where there are none. What was best on the test classes
    stands beside it under its own name.
    """
    recipe = session.recipe
    if session.processes.main:
        LastGood(run).forget()
        run.save_model(session.evaluated_model, run.last, model_card(recipe, {}, ""))
        if session.best is None:  # nothing to choose by, so the last is the model
            run.save_model(session.evaluated_model, run.model, model_card(recipe, {}, ""))
    result = evaluate(
        packaged_model(session, run),
        session.table,
        device=session.device,
        skip_bad=session.skip_bad,
        seed=recipe.seed,
        factor=recipe.clustering.factor,
        clusters=recipe.clustering.clusters,
        console=console,
        processes=session.processes,
    )
    content = document(result, model=run.folder.name, data=recipe.data.plain, seed=recipe.seed)
    content["recipe"] = recipe.digest()
    content["reported"] = LAST if session.best is None else BEST
    if recipe.test_curve:
        content["best_on_test"] = session.processes.tell(lambda: _best(run, content, recipe.epochs))
    content["splits"] = split_counts(session.table)
    if session.processes.main:
        run.save_evaluation(content)
        write_card(run.folder)
    return content


def _best(run: RunFolder, content: dict[str, Any], epochs: int) -> dict[str, Any] | None:
    """The best epoch on the test classes; the last is as it was evaluated, where that is the reported model."""
    curve = curve_on_test(read_log(run.metrics))
    if curve and content["reported"] == LAST and curve[-1]["epoch"] == epochs:
        curve[-1] |= {key: content["metrics"][key] for key in curve[-1] if key in content["metrics"]}
    return best_on_test(curve)


def packaged_model(session: Session, run: RunFolder) -> Embedder:
    """The model in the run folder, which only the main process need be able to read."""
    if session.processes.main:
        model = load_model(str(run.folder), trust_code=session.recipe.model.backbone)
        if session.processes.several:
            session.processes.send(save({k: v.cpu().contiguous() for k, v in model.state_dict().items()}))
        return model
    model = session.evaluated_model
    model.load_state_dict(load(session.processes.send(b"")), strict=False)  # packages come without BatchNorm sets
    return model
