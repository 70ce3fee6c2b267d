"""Find the nearest images of an index.

holdfast search photos.index --query new.jpg
holdfast search photos.index --data images:new --html found.html --gallery folder:photos
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.parsing import (
    CommandResult,
    Parser,
    images_from,
    model_from,
    positive,
    refuse_idle,
    refuse_idle_milvus,
    searcher_from,
    shared,
    verdicts,
    writable,
)
from holdfast.console import table
from holdfast.errors import HoldfastError, one_line, plural
from holdfast.robustness import what_no_mark_means

if TYPE_CHECKING:
    from holdfast.search import Hit


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("index", metavar="FOLDER", help="an index that `holdfast index` made")
    asked = sub.add_mutually_exclusive_group(required=True)
    asked.add_argument("--query", nargs="+", metavar="IMAGE", help="image files to look for")
    shared(asked, "--data", help="look for every image of {datasets}")
    sub.add_argument("-k", type=positive, default=10, metavar="K", help="matches of each query (10)")
    shared(sub, "--split", "--batch", "--size", "--trust-code", "--device", "--skip-bad", "--no-images", "--milvus")
    sub.add_argument("--model", metavar="MODEL", help="the model that made the index, where it is not inside")
    sub.add_argument("--label", nargs="+", metavar="LABEL", help="search images of these classes only")
    sub.add_argument("--group", nargs="+", metavar="GROUP", help="search images of these groups only (cameras, say)")
    verdicts(sub)
    sub.add_argument("--html", metavar="FILE", help="also write a page with images")
    sub.add_argument("--gallery", metavar="DATA", help="with --html: where the index's images are")


def run(options: argparse.Namespace) -> CommandResult:
    """Search, and write the page if asked."""
    from holdfast.data import ImageStore
    from holdfast.data.readers.folder import image_files
    from holdfast.devices import choose_device
    from holdfast.evaluation import read_table
    from holdfast.files import write_atomic
    from holdfast.search import Filter, ask, model_of, strip_page

    if not options.html and (options.gallery or options.no_images):
        raise HoldfastError("--gallery and --no-images are about the page; add --html FILE")
    if not options.model:
        refuse_idle(options, "--size", "the model inside the index knows its own")
    if not options.data:
        refuse_idle(options, "--split", "it is about --data")
    images, skip_bad = images_from(options, image_files(options.query) if options.query else options.data)
    folder, device = Path(options.index), choose_device(options.device)
    refuse_idle_milvus(options, folder)
    searcher = searcher_from(options, folder)
    index = searcher.index
    own = model_from(options, device) if options.model else None
    model = model_of(folder, index, own, device, options.trust_code)
    store = ImageStore(images, model.view, device, skip_bad=skip_bad)
    where = Filter(tuple(options.label or ()), tuple(options.group or ()))
    found = ask(searcher, model, store, options.k, options.batch or 256, where)
    note = f"not checked for tampering: {found.unchecked}" if found.unchecked else ""
    hint = one_line(what_no_mark_means(index.model.audit, checked=not found.unchecked))
    if options.html:
        gallery = read_table(options.gallery, True)[0] if options.gallery and not options.no_images else None
        queries = None if options.no_images else store.table
        searched = f"{plural(len(index), 'image')} searched with {one_line(index.model.reference)}"
        unseen = "" if gallery or options.no_images else "images of the index are not shown: give --gallery DATA"
        about = " ".join(f"{line[0].upper()}{line[1:]}." for line in (searched, note, hint, unseen) if line)
        write_atomic(writable(options.html, "--html"), strip_page(found.answers, queries, gallery, about))
    answers = [answer.document() for answer in found.answers]
    skipped = [{"image": image, "reason": reason} for image, reason in store.skipped]
    lines = []
    for answer in found.answers:
        rows = [_row(number, match) for number, match in enumerate(answer.matches, 1)]
        mark = f": {answer.verdict}" if answer.verdict and answer.verdict.tampered else ""
        matches = table(["", "distance", "same", "label", "image"], rows, left=(2, 3, 4))
        lines.append(f"{one_line(answer.query)}{mark}\n{matches}\n")
    marked = sum(answer.verdict is not None and answer.verdict.tampered for answer in found.answers)
    if note or len(found.answers) > 1:
        lines.append(
            note or f"{marked:,} of {len(found.answers):,} queries {'looks' if marked == 1 else 'look'} tampered with"
        )
    if where and not any(answer.matches for answer in found.answers):
        lines.append("no image of the index has such a label and group")
    lines += [hint] if hint else []
    if store.skipped:
        lines.append(f"{len(store.skipped):,} unreadable, left out")
    if options.html:
        lines.append(f"page written to {options.html}")
    facts = {"answers": answers, "unchecked": found.unchecked, "skipped": skipped, "audit": dict(index.model.audit)}
    return facts, "\n".join(lines)


def _row(number: int, match: Hit) -> list[Any]:
    """A match as a line of a table."""
    same = {True: "yes", False: "no", None: "-"}[match.same]
    return [str(number), match.distance, same, one_line(match.label) or "-", one_line(match.id)]
