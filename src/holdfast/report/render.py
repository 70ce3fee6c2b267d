"""From templates and facts to one file that fetches nothing."""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.report import formatting as fmt
from holdfast.run_files import eps_words, finite

SCRIPTS = ("page.js", "save.js", "tables.js", "drawings.js", "lens.js")
"""Of every page; each works without the others but for `save.js`, which makes the buttons."""


def render(template: str, scripts: tuple[str, ...] = (), **facts: Any) -> str:
    """A page as text.

    The page forbids itself every request and every script but its own (Content-Security-Policy), so that a hostile
    class name that slipped through escaping still could not run.

    Args:
        template: extends `base.html`.
        scripts: files beside it that run in the page.
        facts: what the template shows.
    """
    environment = _environment()
    sources = [_source(name) for name in scripts]
    return environment.get_template(template).render(
        style=Markup(_source("style.css")),
        scripts=[Markup(text) for text in sources],
        script_policy=" ".join(f"'{_digest(text)}'" for text in sources) or "'none'",
        **facts,
    )


def part(template: str, **facts: Any) -> Markup:
    """A part of a page: a template that extends none, with what it shows."""
    return Markup(_environment().get_template(template).render(**facts))


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("holdfast.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = (finite, fmt.number, fmt.percent, fmt.count, fmt.with_interval, fmt.brackets, fmt.eps, fmt.duration)
    words = (fmt.counted, fmt.short, fmt.breakable, eps_words)
    environment.filters |= {function.__name__: function for function in (*numbers, *words)}
    return environment


@functools.cache
def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
