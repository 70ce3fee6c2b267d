"""One audit from start to finish."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast import console, seeds
from holdfast.attacks import Budget
from holdfast.attacks.forward import require_finite
from holdfast.audit import flags
from holdfast.audit.base import Protocol, registry
from holdfast.audit.cut import Cut
from holdfast.audit.ensemble import Ensemble, Robust
from holdfast.audit.examples import save_examples
from holdfast.audit.files import VECTORS, audit_file, held, make_room
from holdfast.audit.flags import Flag
from holdfast.audit.masking import falls_at_once, find_masking, reported_hits
from holdfast.audit.plan import FEW, Passes, Progress, Speed, TimeLimit, duration
from holdfast.audit.preparation import Execution, Selection, borrow_model, make_subject, measure_speed, speed_up
from holdfast.audit.probes import masking_passes
from holdfast.audit.state import AuditState, Queue, attack_all, kept_choice
from holdfast.audit.subject import Subject
from holdfast.config import instantiate
from holdfast.data import ImageTable, parse
from holdfast.devices import choose_device, seeded_devices
from holdfast.errors import HoldfastError, RecipeError, plural
from holdfast.evaluation import choose_split, read_table
from holdfast.files import inside, write_json
from holdfast.metric_info import plain
from holdfast.metrics.geometry import Geometry
from holdfast.models import Embedder
from holdfast.models.card import write_card
from holdfast.models.weights import raw_bytes
from holdfast.processes import current_processes
from holdfast.robustness import ROBUST
from holdfast.versions import versions

SCHEMA = 2
FIRST = ("R@1", ROBUST, "ERS")
"""Figures that stand first, in this order."""
QUICK_IMAGES = 20
"""Images of a first look."""
ENSEMBLE, CHECKS, EXAMPLES = "ensemble", "checks behind flags", "stored examples"
"""What comes behind the attacks."""
PROJECTIONS = 4
"""Numbers that clean vectors are summed up in."""
FIRST_GUESS = 64
"""Images for which attacks are prepared to see how many attacks there are, before the images are chosen."""


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
    model: str | Path | nn.Module,
    data: str | dict[str, Any] | ImageTable,
    protocol: str | Mapping[str, Any] | Protocol = "ers",
    *,
    limit: int | None = None,
    minutes: float | None = None,
    quick: bool = False,
    split: str | None = None,
    size: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    examples: int = 0,
    skip_bad: bool = False,
    trust_code: bool = False,
    device: str | torch.device | None = None,
    execution: Execution | None = None,
    ensemble: Ensemble | Mapping[str, Any] | None = None,
    checks: bool = True,
) -> Audit:
    """Attack a model's embedding of labelled images and say how much of its retrieval is left.

    Args:
        model: an embedder, any module from images in [0, 1] to vectors, or what `holdfast.models.load_model` takes.
        data: a table, or a data specification such as `glyphs` or `folder:DIR`.
        protocol: `ers`, `adml`, `stax`, `thorough` or `natural`; with its mode, eps and other arguments as
            `{"name": "ers", "mode": "published"}` or `Adml(mode="replaced", batches="28x4")`.
        limit: attack a seeded, class-balanced subset of this many images; the gallery stays whole.
        minutes: attack as many images as the whole audit, checks included, has time for; `limit` at most.
        quick: a first look: a quarter of the steps (five at least) and of the checks' effort, on 20 images where
            neither `limit` nor `minutes` says how many. Figures are not comparable with those of a full audit.
        split: test, query (against gallery), val, train or all; by default what a paper would report.
        size: input size, for modules that do not know their own.
        seed: of targets, starts, subset and intervals.
        out: folder for the JSON file and the measurements, so that an interrupted audit can go on; nothing is written
            when left out.
        examples: store this many adversarial images under `out`.
        skip_bad: leave unreadable images out, and report them, instead of stopping.
        trust_code: let a packaged model import its own module.
        device: where to run; a GPU when there is one.
        execution: images per pass, precision and compiling of attacks.
        ensemble: the ball of robust R@1, such as `Ensemble(norm="l2")`; that of the protocol's eps, where it was given
            in pixels, else 8/255, when left out.
        checks: False leaves out robust R@1 and the probes for masked gradients, which may take longer than the attacks:
            for another look at a model that an audit has checked. It raises the flag `unchecked`.
    """
    if torch.is_inference_mode_enabled():
        raise RecipeError("an audit needs gradients, and torch.inference_mode() has none; call it outside of that")
    time_limit = None if minutes is None else TimeLimit(minutes)
    execution = execution or Execution()
    chosen: Protocol = instantiate(Protocol, protocol, "protocol")
    wanted: Ensemble = instantiate(Ensemble, ensemble or {}, "ensemble")
    if chosen.pixel_eps is not None:
        Budget(eps=chosen.pixel_eps)  # refused before anything is embedded
    name = _registered_name(chosen)
    title = f"{name}-{chosen.mode}"
    if limit is not None and limit < 1:
        raise RecipeError(f"limit must be 1 or more, got {limit}")
    if quick and limit is None and minutes is None:
        limit = QUICK_IMAGES
    if examples and not chosen.adversarial:
        raise RecipeError(f"examples are adversarial images, and {name} makes none; leave them out")
    if examples and out is None:
        raise RecipeError("examples require out=")
    if ensemble is not None and not checks:
        raise RecipeError("checks=False measures no robust R@1, so that ensemble= does nothing; leave one of them out")
    checked = checks and chosen.adversarial
    table, skip_bad = read_table(data, skip_bad)
    selection = Selection(table, choose_split(table, split), limit, seed, skip_bad, quick, time_limit)
    folder = Path(out) if out and current_processes().main else None  # the main process alone writes
    with (
        borrow_model(model, size, trust_code, choose_device(device), chosen.through_sets) as (embedder, raised),
        held(folder, title),
        torch.random.fork_rng(seeded_devices(embedder.mean.device)),
    ):
        subject, skipped, more = make_subject(embedder, selection, execution, chosen.through_sets)
        require_finite(subject.references.vectors, subject.references.clean(subject.rows))
        partial = None if folder is None else inside(folder, folder / "artifacts" / f"audit-{title}.partial")
        budget, content = chosen.budget(subject), subject.content()
        settings: dict[str, Any] = {"settings": chosen.settings, "content": content}
        settings |= {"quick": True} if quick else {}
        settings |= {} if wanted == Ensemble() else {"ensemble": dataclasses.asdict(wanted)}
        settings |= {} if checks else {"checks": False}
        speed = measure_speed(subject, execution) if time_limit or console.visible() else None
        scope = ""
        if time_limit and speed:
            scope = _short(_identity(embedder, subject, budget, title) | settings | {"minutes": minutes})
            before = kept_choice(partial, scope) if partial else None
            count = _choose_images(time_limit, chosen, wanted if checked else None, subject, speed, examples, before)
            limit = limit if count == len(subject.rows) else count
            subject = subject.limited(limit)
        subject = speed_up(subject, budget, execution)
        console.say(f"{title} on {len(subject.rows):,} of {len(subject.labels):,} images; {chosen.words(subject)}")
        identity = _identity(embedder, subject, budget, title) | settings
        state = None
        if partial is not None:
            state = AuditState(partial, identity)
            if state.resumed:
                console.say(f"resuming the audit in {folder}")
            if scope:
                state.keep_choice(scope, len(subject.rows))
        parts = chosen.parts(subject)
        robust = Robust(wanted, chosen, subject, parts) if checked else None
        queue = Queue.of(parts, subject, chosen.passes(subject), state)
        after = _after_attacks(chosen, subject, examples, robust)
        if speed:
            _say_estimate(queue, after, speed)
        ensemble_passes = robust.passes() * len(subject.rows) if robust else Passes()
        with Progress(queue.total + ensemble_passes + after.get(CHECKS, Passes()), speed) as progress:
            measured, costs = attack_all(queue, subject, state, progress)
            figures = chosen.figures(subject, measured)
            masked: list[Flag] = []
            if robust:
                robust.attack(measured, state, progress)
                probed = find_masking(subject, budget.eps, reported_hits(subject, measured), progress)
                masked = probed.flags
                robust.count_probes(probed.broken, budget.eps, measured)
                robust.report(figures, measured)
            collapsed, spread = flags.collapse(subject.references.vectors, subject.references.labels, seed)
        if chosen.adversarial and not checks:
            raised.append(Flag("unchecked", "robust R@1 and the probes for masked gradients were left out"))
        if quick:
            why = f"{plural(len(subject.rows), 'image')} attacked, in {plural(budget.steps, 'step')} each"
            raised.append(Flag("first-look", why))
        values = {key: figures.values[key] for key in (*FIRST, *figures.values) if key in figures.values} | spread
        described = {**chosen.describe(), **(robust.describe() if robust else {}), **Geometry().describe()}
        document = {
            "schema": SCHEMA,
            "protocol": name,
            "mode": chosen.mode,
            "eps": chosen.eps,
            "settings": chosen.settings,
            "units": chosen.units,
            "ensemble": dataclasses.asdict(wanted),
            "data": data.name if isinstance(data, ImageTable) else parse(data),
            "split": selection.split,
            "model": type(model).__name__ if isinstance(model, nn.Module) else os.fspath(model),
            "images": len(subject.rows),
            "gallery": len(subject.references),
            "content": content,
            "size": size,
            "view": str(embedder.view),
            "limit": limit,
            "minutes": minutes,
            "quick": quick,
            "checks": checks,
            "skipped": [{"image": image, "reason": reason} for image, reason in skipped],
            "budget": _budget(budget, subject),
            "precision": subject.precision,
            "compiled": subject.run is not None,
            "metrics": values,
            "undefined": figures.reasons,
            "described": plain({key: info for key, info in described.items() if key in values}),
            "intervals": {key: list(ends) for key, ends in figures.intervals.items()},
            **figures.extra,
            "flags": [flag.plain() for flag in (*raised, *more, *collapsed, *masked, *flags.backfires(measured))],
            "seconds": {name: round(cost.seconds, 2) for name, cost in costs.items()},
            "seed": seed,
            "versions": versions(),
        }
        if folder is None or state is None:
            return Audit(document, None)
        of = f"{title}-{_short(identity)}"
        stored = [state.join(folder / "artifacts" / f"audit-{of}.safetensors", measured)]
        if examples:
            images = inside(folder, folder / "artifacts" / f"examples-{of}")
            with Progress(after[EXAMPLES], speed) as progress, progress.doing("storing examples", after[EXAMPLES]):
                stored.append(save_examples(subject, budget, images, examples))
        document["artifacts"] = [str(file.relative_to(folder)) for file in stored]
        document["identity"] = _short(identity)
        document["weights"] = identity["model"]
        document[VECTORS] = identity[VECTORS]
        file, kept = make_room(folder / audit_file(title), document)
        if kept:
            console.say(f"an audit of something else was in {file.name}; it is now {kept.name}")
        elif file.name != audit_file(title):
            console.say(f"the full audit of this model stays in {audit_file(title)}; this one is {file.name}")
        write_json(file, document)
        state.forget()
        place = Path(model) if isinstance(model, (str, Path)) else None
        if place and (folder / "recipe.yaml").is_file() and place.resolve() == folder.resolve():
            _refresh_card(folder)
        return Audit(document, file)


def _after_attacks(
    protocol: Protocol, subject: Subject, examples: int, robust: Robust | None, falls: bool = False
) -> dict[str, Passes]:
    """What comes behind the attacks, and takes at most so many passes; `falls` as for `masking_passes`."""
    in_turn = Cut.every(subject.block, len(subject.rows)).rows_in_turn(current_processes().world)
    ensemble = robust.passes(falls) * in_turn if robust else Passes()
    checking = masking_passes(subject, falls) if robust else Passes()
    stored = (subject.passes(protocol.budget(subject)) + Passes(forward=1)) * min(examples, len(subject.rows))
    work = {ENSEMBLE: ensemble, CHECKS: checking, EXAMPLES: stored}
    return {name: passes for name, passes in work.items() if passes != Passes()}


def _choose_images(
    time_limit: TimeLimit,
    protocol: Protocol,
    ensemble: Ensemble | None,
    subject: Subject,
    speed: Speed,
    examples: int,
    before: int | None,
) -> int:
    """How many images the time left suffices for, or as many as a killed audit chose; all take the main process's."""
    world, each = current_processes().world, protocol.passes(subject)

    def choose() -> int:
        parts = protocol.parts(subject.limited(min(FIRST_GUESS, len(subject.rows))))
        robust = Robust(ensemble, protocol, subject, parts) if ensemble else None
        total = sum((part.passes or each for part in parts), Passes())
        falls = robust is not None and falls_at_once(subject, protocol.budget(subject).eps)

        def seconds(count: int) -> float:
            after = sum(_after_attacks(protocol, subject.limited(count), examples, robust, falls).values(), Passes())
            at_once = Cut.every(subject.block, count).rows_in_turn(world)
            return speed.seconds(total * at_once + after)

        return time_limit.choose(len(subject.rows), seconds)

    count = current_processes().tell(lambda: before or choose())
    few = "; so few give wide intervals, --quick looks at more" if count < FEW and not subject.quick else ""
    console.say(f"{count:,} of {len(subject.rows):,} images fit into {time_limit.minutes:g} min{few}")
    return count


def _say_estimate(queue: Queue, after: dict[str, Passes], speed: Speed) -> None:
    """How long it will take, before the first attack."""
    left = queue.left()
    counts = {"passes forward and back": left.back, "forward alone": left.forward}
    counted = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "all done before"
    told = [f"{len(queue.parts)} attacks {duration(speed.seconds(left))} ({counted})"]
    told += [f"{name} at most {duration(speed.seconds(passes))}" for name, passes in after.items()]
    console.say(f"about {duration(speed.seconds(sum(after.values(), left)))}: {', '.join(told)}")


def _registered_name(protocol: Protocol) -> str:
    """The name that a protocol's class is registered under."""
    names = [name for name in registry.names() if registry.get(name) is type(protocol)]
    if not names:
        raise RecipeError(f"the protocol {type(protocol).__name__} has no name; register it with audit.register")
    return names[0]


def _refresh_card(run: Path) -> None:
    """Write the audit into the model card of a run; one that cannot be written is no reason to lose the audit."""
    try:
        write_card(run)
    except HoldfastError as error:
        console.say(f"the model card was not refreshed: {error}")


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
        digest.update(raw_bytes(tensor))
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
        VECTORS: _projected(subject),
    }


def _projected(subject: Subject) -> list[float]:
    """What the clean vectors of all images come to: the same weights may belong to another function."""
    draw = seeds.generator(0, "projections")
    total = torch.zeros(PROJECTIONS, dtype=torch.float64)
    references = subject.references
    for vectors in (references.vectors, *([] if references.queries is None else [references.queries])):
        directions = torch.randn(vectors.shape[1], PROJECTIONS, generator=draw)
        weights = torch.randn(len(vectors), PROJECTIONS, generator=draw) / len(vectors) ** 0.5
        total += ((vectors @ directions.to(vectors)).cpu() * weights).double().sum(0)
    return [round(number, 4) for number in total.tolist()]


def _short(identity: dict[str, Any]) -> str:
    exact = {key: value for key, value in identity.items() if key != VECTORS}
    return hashlib.sha256(json.dumps(exact, sort_keys=True).encode()).hexdigest()[:8]
