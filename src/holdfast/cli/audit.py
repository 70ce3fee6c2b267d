"""Measure how easily a model is fooled.

holdfast audit runs/demo/hm --data glyphs --limit 500
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

from holdfast.audit.ers import TERMS
from holdfast.cli.parsing import MODEL_ON_DATA, CommandResult, Parser, above_zero, non_negative, positive, shared
from holdfast.console import figure, table
from holdfast.errors import plural
from holdfast.metric_info import MetricInfo, stored
from holdfast.run_files import eps_words


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument("--protocol", default="ers", help="{protocols} (default: ers)")
    sub.add_argument("--mode", default="fixed", help="fixed (default), published (ers) or replaced (adml, stax)")
    precisions, yes_no = ("auto", "float32", "bfloat16"), ("auto", "yes", "no")
    sub.add_argument(
        "--precision",
        choices=precisions,
        metavar="P",
        default="auto",
        help="of crafting: auto (default), float32, bfloat16",
    )
    sub.add_argument(
        "--compile",
        choices=yes_no,
        metavar="C",
        default="auto",
        help="craft through torch.compile: auto (default), yes, no",
    )
    sub.add_argument("--eps", help="in place of the protocol's own, e.g. 4/255")
    sub.add_argument(
        "--units", choices=("pixel", "normalized"), metavar="U", help="of the eps of adml: pixel (default), normalized"
    )
    sub.add_argument("--batches", help="adml, replaced: 56x2 (default), 28x4, shuffled or ordered")
    sub.add_argument("--no-hinge", action="store_true", help="adml: attack triplets that are satisfied too")
    sub.add_argument(
        "--robust-norm", choices=("linf", "l2"), metavar="N", default="linf", help="of robust R@1: linf, l2"
    )
    sub.add_argument("--robust-eps", metavar="E", help="of robust R@1 (default: --eps where in pixels, else 8/255)")
    sub.add_argument("--limit", type=positive, metavar="N", help="attack a class-balanced subset of N images")
    sub.add_argument("--minutes", type=above_zero, metavar="M", help="attack as many images as fit into M minutes")
    sub.add_argument("--quick", action="store_true", help="a first look: 20 images, a quarter of the steps")
    sub.add_argument("--save-examples", type=non_negative, default=0, metavar="N", help="store N attacked images")
    sub.add_argument("--out", help="folder for audit.json and the rest (default: the run, or audits/MODEL-DATA)")


def run(options: argparse.Namespace) -> CommandResult | None:
    """Attack."""
    from holdfast.audit import Execution, run
    from holdfast.devices import choose_device
    from holdfast.processes import joined

    folder = options.out or default_audit_folder(options.model, options.data)
    protocol = {"name": options.protocol, "mode": options.mode}
    protocol |= {key: getattr(options, key) for key in ("eps", "units", "batches") if getattr(options, key) is not None}
    protocol |= {"hinge": False} if options.no_hinge else {}
    with joined(choose_device(options.device)) as processes:
        audit = run(
            options.model,
            options.data,
            protocol,
            limit=options.limit,
            minutes=options.minutes,
            quick=options.quick,
            split=options.split,
            size=options.size,
            seed=options.seed or 0,
            out=folder,
            examples=options.save_examples,
            skip_bad=options.skip_bad,
            trust_code=options.trust_code,
            device=options.device,
            ensemble={"norm": options.robust_norm, "eps": options.robust_eps},
            execution=Execution(
                batch=options.batch,
                precision=options.precision,
                compile="auto" if options.compile == "auto" else options.compile == "yes",
            ),
        )
    return (audit.document, f"{audit_table(audit.document)}\nwritten to {audit.file}") if processes.main else None


def default_audit_folder(model: str, data: str) -> str:
    """The run itself where a run is audited on its own data, otherwise a folder named after model and data."""
    from holdfast.data import parse
    from holdfast.training.folder import differences, same_place
    from holdfast.training.recipe_files import read_plain

    recipe = Path(model) / "recipe.yaml"
    if recipe.is_file():
        asked, own = ({"data": block} for block in (parse(data), read_plain(recipe).get("data", {})))
        own["data"] = {key: value for key, value in own["data"].items() if key in asked["data"]}
        if all(same_place(key, own, asked) for key in differences(own, asked)):
            return model
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{Path(model).name or model}-{data}")
    return str(Path("audits") / name.strip("-."))


def audit_table(document: dict[str, Any]) -> str:
    """Figures with intervals, terms of ERS and meanings, then the flags with advice, as a person reads them."""
    rows, described = [], stored(document)
    terms = TERMS if document["protocol"] == "ers" else {}
    for key, value in document["metrics"].items():
        interval = document["intervals"].get(key)
        info = described.get(key, MetricInfo())
        ends = " to ".join(_figure(end, info) for end in interval or ())
        term = [figure(terms[key](value), 1) if key in terms and value is not None else ""] if terms else []
        rows.append((key, _figure(value, info), ends, *term, info.meaning))
    columns = ["figure", "value", "95 % interval", *(["term of ERS"] if terms else []), "meaning"]
    text = table(columns, rows, left=(len(columns) - 1,))
    budget = document["budget"]
    eps = f"eps {eps_words(budget)}"
    batches = document.get("settings", {}).get("batches")
    mode = f"{document['mode']}, batches {batches}" if batches else document["mode"]
    head = (
        f"{document['protocol']} ({mode}) on {plural(document['images'], 'image')} against a gallery of "
        f"{document['gallery']:,}; {eps}, {plural(budget['steps'], 'step')}"
    )
    head += _robust(document.get("robust"))
    limited = "\nA subset was attacked: mind the intervals." if document["limit"] else ""
    if document.get("quick"):
        limited = "\nA first look: fewer images and steps than a full audit has."
    text += _by_strength(document["natural"]) if document.get("natural") else ""
    return f"{head}{limited}\n{text}\n{_flags(document['flags'])}"


def _figure(value: Any, info: MetricInfo) -> str:
    """A value as its description wants it shown."""
    return figure(value if value is None or info.scale == 1 else info.scale * value, info.digits)


def _robust(robust: dict[str, Any] | None) -> str:
    """What stands behind robust R@1; audits of schema 1 have none."""
    if not robust:
        return ""
    from holdfast.audit.plan import duration

    eps = f"{255 * robust['eps']:.3g}/255" if robust["norm"] == "linf" else f"{robust['eps']:.3g} in L2"
    cost = f"{plural(robust['passes'], 'pass')} in {duration(robust['seconds'])}"
    return f"\nrobust R@1 counts {plural(len(robust['attacks']), 'attack')} at eps {eps}; the ensemble took {cost}"


def _by_strength(cells: dict[str, list[float | None]]) -> str:
    """R@1 under every kind of damage and at each strength."""
    strengths = range(1, 1 + max(map(len, cells.values())))
    rows = [(kind, *(figure(value, 1) for value in row)) for kind, row in cells.items()]
    return f"\n\nR@1 by kind and strength of damage\n{table(['', *map(str, strengths)], rows)}\n"


def _flags(flags: list[dict[str, Any]]) -> str:
    if not flags:
        return "No flags: nothing suggests that these figures mislead."
    lines = []
    for flag in flags:
        lines.append(f"{flag['level'].upper()} {flag['name']}: {flag['why']}.")
        lines.append(textwrap.indent(flag["advice"], "    "))
    return "\n".join(lines)
