"""What the YAML file of a paper says of its studies, as it reads at one scale.

A block whose only keys are scales has a value for each; a key whose value the scale has none of is left out. `{word}`
stands for an entry of the paper's `words`, which may be of any form. Of the items of a list, `scale` keeps one for that
scale, and `each` repeats one for every row of a table, whose entries are words inside of it; with `of`, a list of items
is repeated in turn. `each: {kind: [A, B]}` is short for a table of one column.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.yaml_files import read_yaml
from holdfast_studies.jobs import SCALES, Scale

CATALOGUE = Path(__file__).parent / "catalogue"
WORD = re.compile(r"\{(\w+)\}")


@functools.cache
def paper(name: str) -> dict[str, Any]:
    """What stands in a paper's YAML file: studies by id, `words` that they share, and tables of its own."""
    found: dict[str, Any] = read_yaml((CATALOGUE / f"{name}.yaml").read_text("utf-8"))
    return found


@functools.cache
def declared(study: str, scale: Scale) -> dict[str, Any]:
    """All that its paper's file says of a study.

    Claims without a `noise` have that of their figure. Columns, `figures` and `predictors` may be a list of blocks.
    """
    files = (paper(file.stem) for file in sorted(CATALOGUE.glob("*.yaml")))
    own = next((found for found in files if study in found), None)
    if own is None:
        raise LookupError(f"no YAML file of the catalogue has a block {study}; add one to the file of its paper")
    text: dict[str, Any] = at_scale(own[study], scale, own.get("words", {}))
    noise = at_scale(own.get("noise", {}), scale, {})
    claims = [_claim(claim, noise) for claim in text.get("claims", ())]
    columns = _joined(text.get("columns", {}))
    drawings = [_with_joined(block) for block in text.get("drawings", ())]
    return {**text, "claims": claims, "columns": columns, "drawings": drawings}


def at_scale(value: Any, scale: Scale, words: Mapping[str, Any]) -> Any:
    """A value as it reads at one scale.

    Args:
        value: as the file has it.
        scale: pocket or paper.
        words: word → what it stands for, which is read in the same way.
    """
    if isinstance(value, str):
        if whole := WORD.fullmatch(value):
            return at_scale(words[whole[1]], scale, words)
        return WORD.sub(lambda found: str(at_scale(words[found[1]], scale, words)), value)
    if isinstance(value, list):
        return [one for item in value for one in _items(item, scale, words)]
    if not isinstance(value, dict):
        return value
    if value and value.keys() <= set(SCALES):
        return at_scale(value.get(scale), scale, words)
    read = {at_scale(key, scale, words): at_scale(part, scale, words) for key, part in value.items()}
    return {key: part for key, part in read.items() if part is not None}


def _items(item: Any, scale: Scale, words: Mapping[str, Any]) -> Iterator[Any]:
    """An item of a list: none, one, or one for every row of `each`."""
    if not isinstance(item, dict):
        yield at_scale(item, scale, words)
        return
    rest = {key: part for key, part in item.items() if key not in ("each", "scale", "of")}
    rows = at_scale(item["each"], scale, words) if "each" in item else [{}]
    if isinstance(rows, dict):
        rows = [{name: entry} for name, column in rows.items() for entry in column]
    for row in rows if item.get("scale", scale) == scale else ():
        inside = {**words, **row}
        yield from at_scale(item["of"], scale, inside) if "of" in item else [at_scale(rest, scale, inside)]


def _claim(block: dict[str, Any], noise: Mapping[str, float]) -> dict[str, Any]:
    if "parts" in block:
        return {**block, "parts": [_claim(part, noise) for part in block["parts"]]}
    known = noise.get(block.get("figure", "R@1")) if block.keys() & {"arms", "figure"} else None
    return {**({} if known is None else {"noise": known}), **_with_joined(block)}


def _with_joined(block: dict[str, Any]) -> dict[str, Any]:
    return {key: _joined(value) if key in ("figures", "predictors") else value for key, value in block.items()}


def _joined(blocks: Any) -> dict[str, str]:
    return blocks if isinstance(blocks, dict) else {key: value for block in blocks for key, value in block.items()}
