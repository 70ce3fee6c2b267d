"""Write a model as one ONNX graph, compared with torch.

holdfast export runs/demo/hm --onnx demo.onnx --data glyphs
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.parsing import CommandResult, Parser, model_from, positive, refuse_idle, shared, writable
from holdfast.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.data import ImageTable
    from holdfast.models import Embedder, Exported

SHOWN = 256
"""Real images that the graph is compared on, or that int8 reads its ranges from."""


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "model", "--split", "--size", "--trust-code", "--skip-bad")
    sub.add_argument("--onnx", required=True, metavar="FILE", help="where the graph goes")
    shared(sub, "--data", help="real images to compare on, needed for --int8: {datasets}")
    sub.add_argument("--int8", action="store_true", help="8-bit integers; refused if R@1 on DATA loses over 1 point")
    sub.add_argument("--opset", type=positive, metavar="N", help="version of the ONNX operators (default 17)")


def run(options: argparse.Namespace) -> CommandResult:
    """Export, and compare the graph with torch."""
    if options.int8 and not options.data:
        raise ModelError("--int8 is judged by R@1 on labelled images; give --data")
    if not options.data:
        refuse_idle(options, "--split --skip-bad", "it is about --data")
    if Path(options.onnx).is_dir():
        raise ModelError(f"{options.onnx} is a folder; name the file: --onnx {Path(options.onnx) / 'model.onnx'}")
    from holdfast.models import export_onnx
    from holdfast.models.export import OPSET

    model = model_from(options)
    settings: dict[str, Any] = {"opset": options.opset or OPSET, "notes": recipe_note(Path(options.model))}
    file = writable(options.onnx, "--onnx")
    done = _with_data(model, file, options, settings) if options.data else export_onnx(model, file, **settings)
    return done.plain(), str(done)


def _with_data(model: Embedder, file: Path, options: argparse.Namespace, settings: dict[str, Any]) -> Exported:
    """Export and compare on real images."""
    from holdfast.evaluation import choose_split, evaluate, read_table
    from holdfast.models import export_int8, export_onnx

    table, skip_bad = read_table(options.data, options.skip_bad)
    split = choose_split(table, options.split)
    if not options.int8:
        return export_onnx(model, file, images=some_images(model, table, split, skip_bad), **settings)
    # Ranges are read from images that do not judge them, where there are others.
    ranges = "train" if split != "all" and table.has("train") else split

    def recall(judged: Embedder) -> float | None:
        found: float | None = evaluate(judged, table, split=split, device="cpu", skip_bad=skip_bad).values["R@1"]
        return found

    return export_int8(model, file, images=some_images(model, table, ranges, skip_bad), score=recall, **settings)


def some_images(model: Embedder, table: ImageTable, split: str, skip_bad: bool) -> Tensor:
    """Images spread evenly over a split, as the model takes them."""
    import torch

    from holdfast.data import ImageStore

    chosen = table.split(split)
    few = chosen.subset(torch.linspace(0, len(chosen) - 1, min(SHOWN, len(chosen))).round().long())
    store = ImageStore(few, model.view, "cpu", skip_bad=skip_bad)
    return store.inputs(torch.arange(len(store)))


def recipe_note(model: Path) -> dict[str, str]:
    """What a graph says of the recipe, where the model is a run."""
    recipe = model / "recipe.yaml"
    return {"recipe_sha256": hashlib.sha256(recipe.read_bytes()).hexdigest()} if recipe.is_file() else {}
