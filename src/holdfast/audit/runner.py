"""One audit from start to finish."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from holdfast import console
from holdfast.attacks import Budget
from holdfast.attacks.frozen import frozen
from holdfast.audit import flags as checks
from holdfast.audit.base import Protocol, registry
from holdfast.audit.blocks import attack_all
from holdfast.audit.examples import save_examples
from holdfast.audit.masking import masking_flags
from holdfast.audit.preparation import GPU_BLOCK, borrow_model, make_subject, speed_up
from holdfast.audit.state import AuditState
from holdfast.audit.subject import Subject
from holdfast.config import builder
from holdfast.data import ImageTable, parse
from holdfast.devices import choose_device, seeded_devices
from holdfast.errors import HoldfastError, RecipeError
from holdfast.evaluation import choose_split, read_table
from holdfast.files import inside, write_json
from holdfast.locks import locked
from holdfast.models import Embedder
from holdfast.models.card import write_card
from holdfast.models.compiled import Compile
from holdfast.processes import current_processes
from holdfast.run_files import parse_json
from holdfast.versions import versions

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Audit:
    """A finished audit.

    Args:
        document: the content of the JSON file.
        file: where it is, if it was written.
    """

    document: dict[str, Any]
    file: Path | None


def run(
    model: str | nn.Module,
    data: str | dict[str, Any] | ImageTable,
    *,
    protocol: str = "ers",
    mode: str = "fixed",
    eps: float | str | None = None,
    settings: Mapping[str, Any] | None = None,
    limit: int | None = None,
    batch: int | None = None,
    split: str | None = None,
    size: int | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | Path | None = None,
    examples: int = 0,
    skip_bad: bool = False,
    trust_code: bool = False,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    compile: Compile = "auto",
) -> Audit:
    """Attack a model's embedding of labelled images and say how much of its retrieval is left.

    Args:
        model: an embedder, any module from images in [0, 1] to vectors, or what `holdfast.models.load_model` takes.
        data: a table, or a data specification such as `glyphs` or `folder:DIR`.
        protocol: `ers`, `adml`, `stax` or `thorough`.
        mode: `fixed`, or the protocol's `published` or `replaced` reading; never comparable with each other.
        eps: radius in place of the protocol's own, in its units; `8/255` is a number.
        settings: further arguments of the protocol, such as `units` and `batches` of `adml`, `only` of `stax`.
        limit: attack a seeded, class-balanced subset of this many images; the gallery stays whole.
        batch: images per pass, to bound memory; 256 when left out, 512 on a GPU.
        split: test, query (against gallery), val, train or all; by default what a paper would report.
        size: input size, for modules that do not know their own.
        seed: of targets, starts, subset and intervals.
        device: where to run; a GPU when there is one.
        out: folder for the JSON file and the measurements, so that an interrupted audit can go on; nothing is written
            when left out.
        examples: store this many attacked pictures under `out`.
        skip_bad: leave unreadable images out, and report them, instead of stopping.
        trust_code: let a packaged model import its own module.
        precision: of crafting; `auto` is bfloat16 where the device is fast at it. What is measured afterwards, and
            the clean embeddings, are in float32 either way.
        compile: craft through `torch.compile`; `auto` does on a GPU when the audit is long enough to gain.
    """
    main = current_processes().main  # which alone writes
    given = {**(settings or {}), **({} if eps is None else {"eps": eps})}
    chosen: Protocol = builder(registry)(protocol, mode=mode, **given)
    if limit is not None and limit < 1:
        raise RecipeError(f"limit must be 1 or more, got {limit}")
    if examples and out is None:
        raise RecipeError("examples need a folder to go to; give out")
    table, skip_bad = read_table(data, skip_bad)
    place = choose_device(device)
    batch = batch or (GPU_BLOCK if place.type == "cuda" else 256)
    embedder, raised = borrow_model(model, size, trust_code, place, chosen.through_sets)
    part = choose_split(table, split)
    title = f"{protocol}-{mode}"
    folder = Path(out) if out and main else None
    with (
        _held(folder, title),
        frozen(embedder),
        torch.random.fork_rng(seeded_devices(embedder.mean.device)),
    ):
        subject, skipped, more = make_subject(embedder, table, part, limit, seed, batch, skip_bad, chosen.through_sets)
        budget = chosen.budget(subject)
        subject = speed_up(subject, budget, precision, compile)
        if budget.eps > 1:
            raise RecipeError(f"eps {budget.eps:g} is more than the whole range of a pixel; did you mean {eps}/255?")
        console.say(
            f"{title} on {len(subject.rows):,} of {len(subject.labels):,} images; {budget.describe(subject.std)}"
        )
        identity = _identity(embedder, subject, budget, title) | {"settings": chosen.settings}
        state = None
        if folder is not None:
            state = AuditState(inside(folder, folder / "artifacts" / f"audit-{title}.partial"), identity)
            if state.resumed:
                console.say(f"resuming the audit in {folder}")
        measured, seconds = attack_all(chosen.parts(subject), subject, state)
        figures = chosen.figures(subject, measured)
        collapsed, spread = checks.collapse(subject.references.vectors, subject.references.labels, seed)
        masked = masking_flags(subject, budget.eps) if subject.differentiable else []
        document = {
            "schema": SCHEMA,
            "protocol": protocol,
            "mode": mode,
            "settings": chosen.settings,
            "data": data.name if isinstance(data, ImageTable) else parse(data),
            "split": part,
            "model": model if isinstance(model, str) else type(model).__name__,
            "images": len(subject.rows),
            "gallery": len(subject.references),
            "size": size,
            "view": str(embedder.view),
            "limit": limit,
            "skipped": [{"image": image, "reason": reason} for image, reason in skipped],
            "budget": _budget(budget, subject),
            "precision": subject.precision,
            "metrics": {**figures.values, **spread},
            "undefined": figures.reasons,
            "intervals": {key: list(ends) for key, ends in figures.intervals.items()},
            **figures.extra,
            "flags": [flag.plain() for flag in (*raised, *more, *collapsed, *masked)],
            "seconds": {name: round(value, 2) for name, value in seconds.items()},
            "seed": seed,
            "versions": versions(),
        }
        if folder is None or state is None:
            return Audit(document, None)
        name = f"{title}-{_short(identity)}"
        stored = [state.join(folder / "artifacts" / f"audit-{name}.safetensors", measured)]
        if examples:
            pictures = inside(folder, folder / "artifacts" / f"examples-{name}")
            stored.append(save_examples(subject, budget, pictures, examples))
        document["artifacts"] = [str(file.relative_to(folder)) for file in stored]
        document["identity"] = _short(identity)
        file = folder / audit_file(protocol, mode)
        kept = keep_other_audit(file, document["identity"])
        if kept:
            console.say(f"an audit of something else was in {file.name}; it is now {kept.name}")
        write_json(file, document)
        state.forget()
        if isinstance(model, str) and (folder / "recipe.yaml").is_file() and Path(model).resolve() == folder.resolve():
            _refresh_card(folder)
        return Audit(document, file)


@contextmanager
def _held(folder: Path | None, title: str) -> Iterator[None]:
    """Keep other audits of the protocol out of the folder: they would throw away each other's measurements.

    Args:
        folder: of the audit, which the main process alone has; None where nothing is written.
        title: protocol and mode; different ones may share a folder.
    """
    with ExitStack() as stack:

        def hold() -> None:
            if folder is not None:
                artifacts = inside(folder, folder / "artifacts")
                artifacts.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(artifacts / f".{title}.lock", f"the {title} audit in {folder}"))

        current_processes().tell(hold)
        yield


def _refresh_card(run: Path) -> None:
    """Write the audit into the model card of a run; one that cannot be written is no reason to lose the audit."""
    try:
        write_card(run)
    except HoldfastError as error:
        console.say(f"the model card was not refreshed: {error}")


def audit_file(protocol: str, mode: str) -> str:
    """`audit.json` for the default protocol, with protocol and mode in the name for the others."""
    return "audit.json" if (protocol, mode) == ("ers", "fixed") else f"audit-{protocol}-{mode}.json"


def keep_other_audit(file: Path, identity: str) -> Path | None:
    """Move an existing document of another model, data, budget or subset out of the way; evidence is never lost."""
    try:
        there = parse_json(file.read_text("utf-8")).get("identity") if file.is_file() else identity
    except (ValueError, AttributeError):
        there = None
    if there == identity:
        return None
    aside = next(p for n in itertools.count(1) if not (p := file.with_name(f"{file.stem}.{n}.json")).exists())
    file.replace(aside)
    return aside


def _budget(budget: Budget, subject: Subject) -> dict[str, Any]:
    pixel, normalized = budget.eps_in_both(subject.std)
    return {
        "eps_pixel": pixel,
        "eps_normalized": normalized,
        "step": budget.step_size,
        "steps": budget.steps,
        "norm": budget.norm,
        "start": budget.start,
        "method": budget.method if subject.differentiable else "square",
    }


def _identity(embedder: Embedder, subject: Subject, budget: Budget, title: str) -> dict[str, Any]:
    """What the measurements depend on."""
    digest = hashlib.sha256()
    for name, tensor in sorted({**embedder.state_dict(), "mean": embedder.mean, "std": subject.std}.items()):
        if name.startswith("bank.") and not subject.sets:  # most audits never look at auxiliary BatchNorm sets
            continue
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "title": title,
        "model": digest.hexdigest(),
        "view": str(embedder.view),
        "images": subject.digest,
        "rows": hashlib.sha256(subject.rows.cpu().numpy().tobytes()).hexdigest(),
        "budget": dataclasses.asdict(budget),
        "precision": subject.precision,
        "block": subject.block,
        "seed": subject.seed,
        "versions": versions(),
    }


def _short(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
