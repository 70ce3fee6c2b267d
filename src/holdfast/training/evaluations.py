"""Evaluations of a run: the test classes while it goes on, and the reported model at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load, save

from holdfast import console, metrics
from holdfast.data import ImageStore
from holdfast.errors import RecipeError
from holdfast.evaluation import choose_split, document, embed, embed_columns, evaluate
from holdfast.files import write_json
from holdfast.models import Embedder, load_model
from holdfast.models.card import write_card
from holdfast.models.embedder import PlainFeatures
from holdfast.models.preprocessing import preprocessing_of
from holdfast.processes import current_processes
from holdfast.run_files import ON_TEST, best_on_test, curve_on_test, outcome
from holdfast.training.folder import TrainingFolder, split_counts
from holdfast.training.health import keep_last_good
from holdfast.training.logs import read_log
from holdfast.training.session import Session

CLUSTERED = 2**22
"""Images times classes up to which k-means adds little to embedding the images; NMI is left out beyond."""

LAST = "last"
BEST = "best on validation"


def open_test_stores(session: Session) -> list[ImageStore]:
    """The images of the test classes: the test split, or queries and gallery."""
    table = session.table
    split = next((name for name in ("query", "test") if table.has(name)), None)
    if split is None:
        raise RecipeError(f"test_curve: {table.name} has no test classes; leave it at false, or give them in data")
    return [session.open_store(name) for name in ((split, "gallery") if split == "query" else (split,))]


def measure_start(
    session: Session, validation: ImageStore | None = None, tests: Sequence[ImageStore] = ()
) -> dict[str, Any]:
    """R@1 of the model as it came: `test` on the images that the run will be judged on, and `validation`.

    Where pretrained weights are given a new head, that is the backbone's plain features: what training must beat. They
    are seen at the size that the backbone came with where the run shows it larger images.

    Args:
        session: before its first step.
        validation: the images of the validation classes, if there are any.
        tests: those of the test classes, where they are open already.
    """
    recipe = session.recipe
    new_head = recipe.model.dim is not None or recipe.model.head is not None
    trained = recipe.init is not None or recipe.start is not None
    plain = not trained and recipe.model.weights not in (None, "none") and new_head
    model = PlainFeatures(session.model) if plain else session.evaluated_model
    view = preprocessing_of(recipe.model.backbone).view if plain else session.model.view
    if view.size < session.model.size:
        tests, validation = (), None if validation is None else session.open_store("val", view)
    else:
        view = session.model.view
    said = f"the plain features of {recipe.model.backbone} at {view.size} px" if plain else "the untrained model"
    of = f"the model of {'init' if recipe.init else 'start'}" if trained else said
    console.say(f"measuring what training starts from: {of}")
    split = choose_split(session.table, None)
    tests = tests or [session.open_store(name, view) for name in ((split, "gallery") if split == "query" else (split,))]
    columns = _on_device(embed_columns(model, tests), session.device)
    found = {"of": of, ON_TEST: metrics.retrieval(**columns, averages=False)["R@1"]}
    if validation is not None:
        labels = torch.tensor(validation.table.labels_for(recipe.data.plain["labels"]))
        found["validation"] = metrics.retrieval(embed(model, validation), labels, averages=False)["R@1"]
    return found


def _on_device(columns: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The columns that fine retrieval takes; the embeddings' device is the others'."""
    kept = {name: column for name, column in columns.items() if "coarse" not in name}
    return kept | {"embeddings": kept["embeddings"].to(device)}


def measure_on_test(session: Session, stores: Sequence[ImageStore]) -> dict[str, float | None]:
    """R@1, R@2, R@4, R@8 and, where it is cheap, NMI of the model as it is now on the test classes.

    Written down epoch by epoch, never used to choose a model.
    """
    columns = _on_device(embed_columns(session.evaluated_model, stores, precision=session.precision), session.device)
    values = metrics.retrieval(**columns, averages=False)
    found = {key: None if value is None else float(value) for key, value in values.items()}
    vectors, labels = metrics.EmbeddedSet.of(**columns).everything()
    classes = len(torch.unique(labels))
    if current_processes().main and classes > 1 and classes * len(vectors) <= CLUSTERED:
        found["NMI"] = 100 * metrics.nmi(labels, metrics.kmeans(vectors, classes, seed=session.recipe.seed))
    return found


def finish(session: Session, run: TrainingFolder) -> dict[str, Any]:
    """Package the last model, evaluate the reported one on the test classes and write evaluation.json.

    Reported is the best on the validation classes, or the last where there are none. What was best on the test classes
    stands beside it under its own name.
    """
    recipe, processes = session.recipe, current_processes()
    if processes.main:
        keep_last_good(run, suspicious=False)
        run.save_model(session.evaluated_model, run.last, recipe)
        if session.best is None:  # nothing to choose by, so the last is the model
            run.save_model(session.evaluated_model, run.model, recipe)
    result = evaluate(
        packaged_model(session, run),
        session.table,
        device=session.device,
        skip_bad=session.skip_bad,
        seed=recipe.seed,
        factor=recipe.clustering.factor,
        clusters=recipe.clustering.clusters,
    )
    content = document(result, model=run.folder.name, data=recipe.data.plain, seed=recipe.seed)
    content["recipe"] = recipe.digest()
    content["reported"] = LAST if session.best is None else BEST
    if recipe.test_curve:
        content["best_on_test"] = processes.tell(lambda: _best(run, content, recipe.epochs))
    content["splits"] = split_counts(session.table)
    content["regime"] = session.regime.in_words
    attacked = session.regime.passes > 1
    content |= processes.tell(lambda: outcome(read_log(run.metrics), content, recipe.epochs, attacked))
    if processes.main:
        for warning in content["warnings"]:
            console.say(f"warning: {warning}")
        write_card(run.folder, evaluation=content)
        write_json(run.evaluation, content)  # last: it marks the run as finished
    return content


def _best(run: TrainingFolder, content: dict[str, Any], epochs: int) -> dict[str, Any] | None:
    """The best epoch on the test classes; the last is as it was evaluated, where that is the reported model."""
    curve = curve_on_test(read_log(run.metrics))
    if curve and content["reported"] == LAST and curve[-1]["epoch"] == epochs:
        curve[-1] |= {key: content["metrics"][key] for key in curve[-1] if key in content["metrics"]}
    return best_on_test(curve)


def packaged_model(session: Session, run: TrainingFolder) -> Embedder:
    """The model in the run folder, which only the main process need be able to read."""
    processes = current_processes()
    if processes.main:
        model = load_model(str(run.folder), trust_code=session.recipe.model.backbone)
        if processes.several:
            processes.send(save({k: v.cpu().contiguous() for k, v in model.state_dict().items()}))
        return model
    model = session.evaluated_model
    model.load_state_dict(load(processes.send(b"")), strict=False)  # packages come without BatchNorm sets
    return model
