"""Where the figures come from, and how to get them again."""

from __future__ import annotations

from typing import Any

from holdfast.report.context import PageContext, Section
from holdfast.report.public import command, public_path, report_command, spec
from holdfast.report.sections.attacks import TINY, usual_eps_of
from holdfast.run_files import block, finite
from holdfast.run_folder import RunFiles


def show(context: PageContext) -> dict[str, Any]:
    """Versions, seeds, budgets and commands."""
    files = context.files
    made = block(files.exhibits, "made")
    seeds = {"training": files.recipe.get("seed"), "audit": files.main_audit.get("seed"), "this page": made.get("seed")}
    versions = (block(document, "versions") for document in (made, files.main_audit, files.evaluation))
    return {
        "title": "How to get these figures again",
        "data": spec(files.data),
        "view": files.view,
        "seeds": ", ".join(f"{name} {seed}" for name, seed in seeds.items() if seed is not None),
        "budgets": [(name, audit, block(audit, "budget")) for name, audit in files.all_audits.items()],
        "attack": block(made, "attack"),
        "recipe": files.evaluation.get("recipe"),
        "versions": {name: version for those in versions for name, version in those.items()},
        "commands": _commands(files),
        "damaged": files.damaged,
    }


def _commands(files: RunFiles) -> list[str]:
    again = command("holdfast", "train", f"{files.shown_folder}/recipe.yaml", "--out", f"{files.shown_folder}-again")
    # `audit.1.json` and the like are audits that a later one, which is listed, replaced.
    audits = [audit_again(files, name, audit) for name, audit in files.all_audits.items() if name.count(".") == 1]
    return [*([again] if files.recipe else []), *audits, _report_again(files)]


def audit_again(files: RunFiles, name: str, audit: dict[str, Any]) -> str:
    """The command of an audit with every setting that is not the default, as far as the file tells.

    Args:
        files: the folder.
        name: of the audit's file, with its own folder in front where it has one.
        audit: the file's content.
    """
    own = bool(files.recipe)
    words: list[object] = ["holdfast", "audit", files.shown_folder if own else public_path(audit.get("model"))]
    words += ["--data", spec(audit.get("data") or files.data)]
    for option, default in (("protocol", "ers"), ("mode", "fixed")):
        if audit.get(option) not in (None, default):
            words += [f"--{option}", audit[option]]
    words += _eps(files, audit)
    if audit.get("units") == "normalized":
        words += ["--units", audit["units"]]
    settings, ensemble = block(audit, "settings"), block(audit, "ensemble")
    if settings.get("batches"):
        words += ["--batches", settings["batches"]]
    words += ["--no-hinge"] if settings.get("hinge") is False else []
    euclidean, robust_eps = ensemble.get("norm") == "l2", finite(ensemble.get("eps"))
    words += ["--robust-norm", "l2"] if euclidean else []
    if robust_eps is not None:
        words += ["--robust-eps", f"{robust_eps:.6g}" if euclidean else _levels(robust_eps)]
    if audit.get("split") and not _default_split(files, audit["split"]):
        words += ["--split", audit["split"]]
    for option in ("size", "limit"):
        if audit.get(option):
            words += [f"--{option}", audit[option]]
    words += ["--quick"] if audit.get("quick") is True else []
    if audit.get("skipped"):
        words.append("--skip-bad")
    words += ["--seed", audit.get("seed", 0)]
    place = f"{files.shown_folder}/audits/{name.rpartition('/')[0]}" if "/" in name else files.shown_folder
    if not own or "/" in name:
        words += ["--out", place]
    return command(*words)


def _eps(files: RunFiles, audit: dict[str, Any]) -> list[object]:
    """`--eps` where it is not the protocol's own, or where an audit of before 0.2 does not say whether it is."""
    eps, protocol = finite(audit.get("eps")), audit.get("protocol")
    if "eps" not in audit:
        eps = finite(block(audit, "budget").get("eps_normalized" if protocol == "stax" else "eps_pixel"))
        if eps is not None and protocol == "ers" and abs(eps - usual_eps_of(files)) < TINY:
            eps = None
    return [] if eps is None else ["--eps", _levels(eps)]


def _levels(eps: float) -> str:
    """An eps as a command takes it: in grey levels where these are whole."""
    levels = 255 * eps
    return f"{levels:.0f}/255" if abs(levels - round(levels)) < TINY else f"{eps:.6g}"


def _default_split(files: RunFiles, split: Any) -> bool:
    """Whether an audit takes this split by itself: `query` where there is one, otherwise `test`."""
    splits = block(files.evaluation, "splits") or block(block(files.exhibits, "data_card"), "splits")
    return bool(split == "query" or (split == "test" and "query" not in splits))


def _report_again(files: RunFiles) -> str:
    made = block(files.exhibits, "made")
    options: list[str] = []
    if made.get("data") and spec(made["data"]) != spec(files.data):
        options += ["--data", spec(made["data"])]
    own = files.recipe.get("seed") if files.recipe else files.main_audit.get("seed")
    if made.get("seed") is not None and made["seed"] != own:
        options += ["--seed", str(made["seed"])]
    return report_command(files, *options)


SECTION = Section("provenance", "Provenance", show)
