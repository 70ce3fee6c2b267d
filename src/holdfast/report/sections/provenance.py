"""Where the figures come from, and how to get them again."""

from __future__ import annotations

from typing import Any

from holdfast.report import figures
from holdfast.report.found import Found
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.protocols import USUAL_EPS, usual_eps
from holdfast.report.sections.public import command, public_path, report_command, spec
from holdfast.report.sections.recipe import block
from holdfast.run_files import finite

TINY = 1e-6


def provenance(source: Source) -> Section:
    """Versions, seeds, budgets and commands."""
    found = source.found
    made = block(found.exhibits, "made")
    versions: dict[str, Any] = {}
    for document in (made, found.audit, found.evaluation):
        versions |= block(document, "versions")
    seen = [("Images seen as", found.view)] if found.view else []
    facts = [("Data", spec(found.data)), *seen, *_seeds(found), *_budgets(found)]
    if found.evaluation.get("recipe"):
        facts.append(("Recipe", str(found.evaluation["recipe"])))
    content = {
        "versions": [(str(name), str(version)) for name, version in versions.items()],
        "facts": facts,
        "commands": _commands(found),
        "damaged": found.damaged,
    }
    return Section("How to get these figures again", content)


def _seeds(found: Found) -> list[tuple[str, str]]:
    seeds = {
        "training": found.recipe.get("seed"),
        "audit": found.audit.get("seed"),
        "this page": block(found.exhibits, "made").get("seed"),
    }
    known = [f"{name} {seed}" for name, seed in seeds.items() if seed is not None]
    return [("Seeds", ", ".join(known))] if known else []


def _budgets(found: Found) -> list[tuple[str, str]]:
    rows = []
    for name, audit in {"audit.json": found.audit, **found.audits}.items():
        budget = block(audit, "budget")
        if budget:
            start = f", start {budget['start']}" if budget.get("start") else ""
            text = (
                f"{audit.get('protocol')} ({audit.get('mode')}): ε {figures.eps(budget.get('eps_pixel'))} "
                f"({figures.number(budget.get('eps_normalized'), 4)} normalised), {budget.get('steps')} steps of "
                f"{figures.eps(budget.get('step'))}{start}, {figures.count(audit.get('images'))} of "
                f"{figures.count(audit.get('gallery'))} pictures attacked"
            )
            rows.append((name, text))
    attack = block(block(found.exhibits, "made"), "attack")
    if attack:
        text = f"goal {attack.get('goal')}, ε {figures.eps(attack.get('eps_pixel'))}, {attack.get('steps')} steps"
        rows.append(("Attacked pictures shown here", text))
    return rows


def _commands(found: Found) -> list[str]:
    lines = []
    if found.recipe:
        lines.append(
            command("holdfast", "train", f"{found.shown_folder}/recipe.yaml", "--out", f"{found.shown_folder}-again")
        )
    audits = {"audit.json": found.audit, **found.audits}
    # `audit.1.json` and the like are audits that a later one, which is listed, replaced.
    lines += [audit_again(found, name, audit) for name, audit in audits.items() if audit and name.count(".") == 1]
    return [*lines, _report_again(found)]


def audit_again(found: Found, name: str, audit: dict[str, Any]) -> str:
    """The command of an audit with every setting that is not the default, as far as the file tells.

    Args:
        found: the folder.
        name: of the audit's file, with its own folder in front where it has one.
        audit: the file's content.
    """
    own = bool(found.recipe)
    words: list[object] = ["holdfast", "audit", found.shown_folder if own else public_path(audit.get("model"))]
    words += ["--data", spec(audit.get("data") or found.data)]
    for option, default in (("protocol", "ers"), ("mode", "fixed")):
        if audit.get(option) not in (None, default):
            words += [f"--{option}", audit[option]]
    words += _eps(found, audit)
    if audit.get("split") and not _default_split(found, audit["split"]):
        words += ["--split", audit["split"]]
    for option in ("size", "limit"):
        if audit.get(option):
            words += [f"--{option}", audit[option]]
    if audit.get("skipped"):
        words.append("--skip-bad")
    words += ["--seed", audit.get("seed", 0)]
    place = f"{found.shown_folder}/audits/{name.rpartition('/')[0]}" if "/" in name else found.shown_folder
    if not own or "/" in name:
        words += ["--out", place]
    return command(*words)


def _eps(found: Found, audit: dict[str, Any]) -> list[object]:
    """`--eps` where the radius is not the protocol's own."""
    key, usual = USUAL_EPS.get(str(audit.get("protocol")), ("eps_pixel", 0.0))
    usual = usual_eps(found) if audit.get("protocol") == "ers" else usual
    eps = finite(block(audit, "budget").get(key))
    if eps is None or abs(eps - usual) < TINY:
        return []
    levels = 255 * eps
    return ["--eps", f"{levels:.0f}/255" if abs(levels - round(levels)) < TINY else f"{eps:.6g}"]


def _default_split(found: Found, split: Any) -> bool:
    """Whether an audit takes this split by itself: `query` where there is one, otherwise `test`."""
    splits = block(found.evaluation, "splits") or block(block(found.exhibits, "data_card"), "splits")
    return bool(split == "query" or (split == "test" and "query" not in splits))


def _report_again(found: Found) -> str:
    made = block(found.exhibits, "made")
    options: list[str] = []
    if made.get("data") and spec(made["data"]) != spec(found.data):
        options += ["--data", spec(made["data"])]
    own = found.recipe.get("seed") if found.recipe else found.audit.get("seed")
    if made.get("seed") is not None and made["seed"] != own:
        options += ["--seed", str(made["seed"])]
    return report_command(found, *options)
