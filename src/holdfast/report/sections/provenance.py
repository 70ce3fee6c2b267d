"""Where the figures come from, and how to get them again."""

from __future__ import annotations

import shlex
from typing import Any

from holdfast.report import figures
from holdfast.report.found import Found
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.recipe import block


def provenance(source: Source) -> Section:
    """Versions, seeds, budgets and commands."""
    found = source.found
    made = block(found.exhibits, "made")
    versions: dict[str, Any] = {}
    for document in (made, found.audit, found.evaluation):
        versions |= block(document, "versions")
    facts = [("Data", found.data_spec), *_seeds(found), *_budgets(found)]
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
    where = shlex.quote(found.shown_folder)
    lines = []
    if found.recipe:
        recipe, again = (shlex.quote(f"{found.shown_folder}{end}") for end in ("/recipe.yaml", "-again"))
        lines.append(f"holdfast train {recipe} --out {again}")
    audit = found.audit
    if audit:
        model = where if found.recipe else shlex.quote(str(audit.get("model")))
        limit = f" --limit {audit['limit']}" if audit.get("limit") else ""
        out = "" if found.recipe else f" --out {where}"
        lines.append(
            f"holdfast audit {model} --data {shlex.quote(found.data_spec)}{limit} --seed {audit.get('seed', 0)}{out}"
        )
    lines.append(f"holdfast report {where}")
    return lines
