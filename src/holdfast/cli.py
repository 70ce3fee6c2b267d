"""The command line: thin, one function per command."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.console import Console, figure, listing, table
from holdfast.errors import HoldfastError, unknown
from holdfast.version import __version__

DATA_HELP = "glyphs, digits, folder:DIR, csv:FILE, cub:DIR, cars:DIR, sop:DIR, inshop:DIR, omniglot:DIR or mnist:DIR"
MODEL_HELP = "a run folder, a packaged model, a hub id, timm:NAME, torchvision:NAME, file.py:function or onnx:FILE"
HEADLINES = ("R@1", "R@2", "R@4", "R@8", "R@10", "R@100", "mAP", "mAP@R", "mAP@C", "NMI", "NMI+", "collapsed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it did what was asked, 2 with one line on standard error if the user must mend something."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except HoldfastError as error:
        if options.debug:
            traceback.print_exc()
        print(f"holdfast: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("holdfast: interrupted; run the same command to go on from the last checkpoint", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `holdfast list losses | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if options.debug:
            traceback.print_exc()
        print(f"holdfast: {_os_line(error, getattr(options, 'out', None))}", file=sys.stderr)
        return HoldfastError.exit_code
    return 0


def _os_line(error: OSError, out: str | None) -> str:
    """One line on a file that cannot be read or written; the file asked for, not the one written aside of it."""
    reason = error.strerror or " ".join(str(error).split())
    if error.errno is None:  # no file: a network client's
        return reason
    named = error.filename2 or error.filename
    asked = Path(out or ".")
    file = Path(os.fsdecode(named)) if isinstance(named, (str, bytes)) else asked
    ours = asked in (file, *file.parents) or file.name == f".{asked.name}.tmp"
    return f"{asked if ours and out else file}: {reason}{'; give another --out' if ours else ''}"


def positive(text: str) -> int:
    """A whole number from 1."""
    return _whole(text, 1)


def non_negative(text: str) -> int:
    """A whole number from 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got '{text}'")
    return value


def _train(options: argparse.Namespace) -> None:
    from holdfast.training import train

    settings = [*options.set, *([f"init={options.init}"] if options.init else [])]
    run = train(
        options.recipe,
        options.data,
        out=options.out,
        settings=settings,
        seed=options.seed,
        device=options.device,
        skip_bad=options.skip_bad,
        console=Console(options.json),
    )
    if options.json:
        print(json.dumps({"run": str(run.folder), **run.evaluation}))
        return
    print(_metrics_table(run.evaluation))
    print(f"run: {run.folder}   model: {run.folder / 'model'}")


def _evaluate(options: argparse.Namespace) -> None:
    from holdfast.data import parse
    from holdfast.evaluation import document, evaluate
    from holdfast.files import write_json
    from holdfast.models import load_model

    result = evaluate(
        load_model(options.model, options.size, options.trust_code),
        options.data,
        split=options.split,
        batch=options.batch or 256,
        device=options.device,
        skip_bad=options.skip_bad,
        seed=options.seed or 0,
        console=Console(options.json),
    )
    content = document(result, model=options.model, data=parse(options.data), seed=options.seed or 0)
    if options.out:
        write_json(_writable(options.out), content)
    print(json.dumps(content) if options.json else _metrics_table(content, every=True))


def _embed(options: argparse.Namespace) -> None:
    from holdfast.data import ImageStore
    from holdfast.devices import choose_device
    from holdfast.evaluation import choose_split, embed, read_table, save_vectors
    from holdfast.models import load_model

    images, skip_bad = read_table(options.data, options.skip_bad)
    split = choose_split(images, options.split or "all")
    device = choose_device(options.device)
    model = load_model(options.model, options.size, options.trust_code).to(device)
    chosen = images if split == "all" else images.split(split)
    store = ImageStore(chosen, model.canvas, device, skip_bad=skip_bad)
    vectors = embed(model, store, options.batch or 256, Console(options.json))
    out = save_vectors(_writable(options.out or "embeddings.npz"), vectors, store.table)
    facts = {"file": str(out), "images": len(vectors), "dim": vectors.shape[1], "skipped": len(store.skipped)}
    print(json.dumps(facts) if options.json else f"{len(vectors):,} vectors of {vectors.shape[1]} dims in {out}")


def _check(options: argparse.Namespace) -> None:
    from holdfast.data import check, load

    images = load(options.data)
    problems = check(images)
    if options.json:
        rows = [{"kind": p.kind, "what": p.what, "mend": p.how_to_mend} for p in problems]
        print(json.dumps({"data": options.data, "images": len(images), "problems": rows}))
        return
    print(images)
    for problem in problems:
        print(f"- {problem.kind}: {problem.what}\n  {problem.how_to_mend}")
    print(f"{len(problems)} kinds of problem" if problems else "nothing wrong")


def _explain(options: argparse.Namespace) -> None:
    import torch

    from holdfast.data import load
    from holdfast.evaluation import embed_splits
    from holdfast.gradients import explain
    from holdfast.gradients.building import parse
    from holdfast.models import load_model

    if (options.model is None) != (options.data is None):
        raise HoldfastError("--run and --data belong together: a trained model, and the images to show it on")
    rule, embedded = parse(options.rule), {}
    if options.model is not None:
        model, images = load_model(options.model), load(options.data)
        embedded = embed_splits(model, images, torch.device("cpu"), Console(options.json))
    explanation = explain(rule, embedded)
    out = _writable(options.out or f"{explanation.name.replace(' × ', '-')}.png")
    explanation.save(out)
    print(json.dumps({"file": str(out), **explanation.plain()}) if options.json else f"{explanation.name}: {out}")


def _audit(options: argparse.Namespace) -> None:
    from holdfast.audit import run
    from holdfast.audit.table import audit_table

    folder = options.out or default_audit_folder(options.model, options.data)
    audit = run(
        options.model,
        options.data,
        protocol=options.protocol,
        mode=options.mode,
        eps=options.eps,
        limit=options.limit,
        batch=options.batch,
        split=options.split,
        size=options.size,
        seed=options.seed or 0,
        device=options.device,
        out=folder,
        examples=options.save_examples,
        skip_bad=options.skip_bad,
        trust_code=options.trust_code,
        precision=options.precision,
        compile="auto" if options.compile == "auto" else options.compile == "yes",
        console=Console(options.json),
    )
    print(json.dumps(audit.document) if options.json else f"{audit_table(audit.document)}\nwritten to {audit.file}")


def default_audit_folder(model: str, data: str) -> str:
    """The run itself where a run is audited on its own data, otherwise a folder named after model and data."""
    from holdfast.data import parse
    from holdfast.training.recipe_files import read_plain

    recipe = Path(model) / "recipe.yaml"
    if recipe.is_file():
        own = read_plain(recipe).get("data", {})
        if all(own.get(key) == value for key, value in parse(data).items()):
            return model
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{Path(model).name or model}-{data}")
    return str(Path("audits") / name.strip("-."))


def _list(options: argparse.Namespace) -> None:
    entries = _families()[options.what]()
    print(json.dumps(entries, ensure_ascii=False) if options.json else listing(entries))


def _demo(options: argparse.Namespace) -> None:
    from holdfast.demo import demo

    demo(Path(options.out or "runs/demo"), Console(options.json), as_json=options.json)


def _families() -> dict[str, Callable[[], dict[str, str]]]:
    def registered(module: str) -> Callable[[], dict[str, str]]:
        def entries() -> dict[str, str]:
            import importlib

            registry = importlib.import_module(module).registry
            return {name: registry.summary(name) for name in registry.names()}

        return entries

    def recipes() -> dict[str, str]:
        from holdfast.training.recipe_files import shipped, summary

        return {name: summary(name) for name in shipped()}

    def direct_gradients() -> dict[str, str]:
        from holdfast.gradients.listing import entries

        return entries()

    def backbones() -> dict[str, str]:
        from holdfast.models.backbones import SUMMARIES

        return dict(SUMMARIES)

    return {
        "losses": registered("holdfast.losses.base"),
        "gradients": direct_gradients,
        "miners": registered("holdfast.mining.base"),
        "goals": registered("holdfast.attacks.base"),
        "regimes": registered("holdfast.regimes.base"),
        "destinations": registered("holdfast.regimes.destinations"),
        "protocols": registered("holdfast.audit"),
        "datasets": registered("holdfast.data"),
        "augmentations": registered("holdfast.data.augment"),
        "optimizers": registered("holdfast.training.optimizers"),
        "schedules": registered("holdfast.training.schedules"),
        "recipes": recipes,
        "backbones": backbones,
    }


def _metrics_table(content: dict[str, Any], every: bool = False) -> str:
    values = content["metrics"]
    names = [name for name in HEADLINES if name in values]
    names += [name for name in values if name not in names] if every else []
    lines = table(["metric", "value"], [(name, figure(values[name])) for name in names])
    reasons = "".join(f"\n{name}: {why}" for name, why in content["undefined"].items() if name in names)
    skipped = f"\n{len(content['skipped'])} unreadable images left out" if content["skipped"] else ""
    return f"{content['images']:,} images of the {content['split']} split\n{lines}{reasons}{skipped}"


def _writable(path: str) -> Path:
    out = Path(path)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"cannot create {out.parent}: {error.strerror}; give another --out") from error
    return out


class _Parser(argparse.ArgumentParser):
    """Argument errors in one line, with the nearest valid word."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            self.error(unknown(str(action.metavar).lower(), str(value), action.choices))

    def error(self, message: str) -> Any:
        print(f"holdfast: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="holdfast", description="Train, attack and audit image embeddings.")
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, run: Callable[[argparse.Namespace], None], text: str, example: str) -> _Parser:
        sub: _Parser = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example:  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")
        sub.add_argument("--debug", action="store_true", help="show tracebacks")
        sub.set_defaults(run=run)
        return sub

    def common(sub: _Parser, out: str) -> None:
        sub.add_argument("--seed", type=int, help="of everything random")
        sub.add_argument("--device", help="cpu, cuda or mps; by default the best there is")
        sub.add_argument("--skip-bad", action="store_true", help="leave unreadable images out and report how many")
        sub.add_argument("--out", help=out)

    def model_and_data(sub: _Parser) -> None:
        sub.add_argument("model", metavar="MODEL", help=MODEL_HELP)
        sub.add_argument("--data", required=True, metavar="DATA", help=DATA_HELP)
        sub.add_argument("--split", help="train, val, test, query (against gallery) or all")
        sub.add_argument("--batch", type=positive, help="images per pass (default 256; audits on a GPU 512)")
        sub.add_argument("--size", type=positive, help="input size, for models that do not know their own")
        sub.add_argument("--trust-code", action="store_true", help="let a package import its own module")

    sub = command(
        "train", _train, "train an embedding; the same command resumes", "holdfast train pocket --data glyphs"
    )
    sub.add_argument("recipe", metavar="RECIPE", help="a name from `holdfast list recipes`, or a YAML file")
    sub.add_argument("--data", metavar="DATA", help=DATA_HELP)
    sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, e.g. optimizer.lr=1e-4")
    sub.add_argument("--init", metavar="MODEL", help="start from another run's or package's weights")
    common(sub, "run folder (default: runs/RECIPE-DATA-sSEED)")

    sub = command(
        "evaluate", _evaluate, "measure retrieval on labelled images", "holdfast evaluate runs/demo --data glyphs"
    )
    model_and_data(sub)
    common(sub, "also write the result to this JSON file")

    sub = command(
        "embed", _embed, "write the vectors of images to disk", "holdfast embed runs/demo --data folder:photos"
    )
    model_and_data(sub)
    common(sub, "npz file (default: embeddings.npz)")

    sub = command(
        "audit", _audit, "measure how easily a model is fooled", "holdfast audit runs/demo --data glyphs --limit 500"
    )
    model_and_data(sub)
    sub.add_argument("--protocol", default="ers", help="ers (default), adml, stax or thorough")
    sub.add_argument("--mode", default="fixed", help="fixed (default), published (ers) or replaced (adml, stax)")
    sub.add_argument(
        "--precision", choices=("auto", "float32", "bfloat16"), metavar="P", default="auto", help="of crafting"
    )
    sub.add_argument(
        "--compile", choices=("auto", "yes", "no"), metavar="C", default="auto", help="craft through torch.compile"
    )
    sub.add_argument("--eps", help="radius in place of the protocol's own, e.g. 4/255")
    sub.add_argument("--limit", type=positive, metavar="N", help="attack a class-balanced subset of N images")
    sub.add_argument("--save-examples", type=non_negative, default=0, metavar="N", help="store N attacked pictures")
    common(sub, "folder for audit.json and what belongs to it (default: the run, or audits/MODEL-DATA)")

    sub = command("check", _check, "look for what is wrong with a dataset", "holdfast check --data folder:photos")
    sub.add_argument("--data", required=True, metavar="DATA", help=DATA_HELP)

    sub = command(
        "explain", _explain, "draw what a direct gradient does", "holdfast explain best --run runs/gs --data glyphs"
    )
    sub.add_argument("rule", metavar="RULE", help="see `holdfast list gradients`; or '{pair: sig, mask: sc1}'")
    sub.add_argument("--run", dest="model", metavar="RUN", help="also show where this model's triplets lie")
    sub.add_argument("--data", metavar="DATA", help=DATA_HELP)
    sub.add_argument("--out", help="png, svg or pdf file (default: RULE.png)")

    sub = command("list", _list, "list what recipes can name", "holdfast list losses")
    sub.add_argument("what", choices=sorted(_families()), metavar="FAMILY", help=", ".join(sorted(_families())))

    sub = command("demo", _demo, "train on embedded data and show what was learnt", "holdfast demo")
    sub.add_argument("--out", help="run folder (default: runs/demo)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
