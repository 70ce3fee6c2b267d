"""The interface of a server, described for programs (OpenAPI) and for people."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from holdfast.serve.limits import MB, Limits
from holdfast.serve.service import Service
from holdfast.version import __version__

NUMBER, TEXT, TRUTH = {"type": "number"}, {"type": "string"}, {"type": "boolean"}


def description(services: Mapping[str, Service], limits: Limits) -> dict[str, Any]:
    """The interface as an OpenAPI 3.1 document."""
    whole = {"type": "integer", "minimum": 1, "maximum": limits.matches, "default": 10}
    k = _parameter("k", f"neighbours, nearest first, at most {limits.matches}", whole)
    which = {"type": "string", "enum": list(services), "default": next(iter(services))}
    index = _parameter("index", "which index is asked", which)
    strength = {"type": "number", "exclusiveMinimum": 0, "maximum": limits.eps, "default": 8}
    eps = _parameter("eps", f"the most that a pixel may change, in 255ths, at most {limits.eps:g}", strength)
    label = _parameter("label", "only images of this class; may be given several times", _list(TEXT))
    group = _parameter("group", "only images of this group; may be given several times", _list(TEXT))
    where = [label, group, index]
    image = {
        "required": True,
        "description": f"an image file, at most {limits.body / MB:g} MB",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
    match = _object(id=TEXT, label=TEXT, distance=NUMBER, same=_or_none(TRUTH))
    answer = {
        "matches": _list(match),
        "tampered": _or_none(TRUTH),
        "why": _list(TEXT),
        "threshold": _or_none(NUMBER),
        "unchecked": _or_none(TEXT),
    }
    found, attacked = _object(**answer), _object(**answer, image=TEXT, moved=NUMBER)
    vector = _object(vector=_list(NUMBER), dim={"type": "integer"})
    name = _parameter("id", "the name that the index has for it", TEXT)
    paths = {
        "/search": {"post": _operation("Find the nearest images of an image", found, image, [k, *where])},
        "/attack": {
            "post": _operation("Attack an image, and find the nearest then", attacked, image, [eps, k, *where])
        },
        "/embed": {"post": _operation("Embed an image", vector, image, [index])},
        "/image": {"get": _operation("An image of the index, if the server has them", TEXT, None, [name], "image/png")},
        "/health": {"get": _operation("Whether the server answers, and with a token about what", _object(status=TEXT))},
        "/metrics": {"get": _operation("Counters for Prometheus", TEXT, media="text/plain")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast serve", "version": __version__, "description": "Search indexes of images."},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def page(document: dict[str, Any]) -> str:
    """The same as a page that needs nothing else."""
    import jinja2

    template = files("holdfast.serve").joinpath("docs.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(template).render(document=document)


def _operation(
    summary: str,
    schema: dict[str, Any],
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
    media: str = "application/json",
) -> dict[str, Any]:
    error = {"application/json": {"schema": _object(error=TEXT)}}
    refusals = {
        "400": "the body is no image that can be used, or k is no number",
        "401": "the token is missing or wrong",
        "408": "the image did not arrive in time",
        "413": "the image has too many bytes",
        "415": "a form was sent in place of an image",
        "503": "there is too much to do; try again",
    }
    codes = refusals if body else {"401": refusals["401"]}
    return {
        "summary": summary,
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": body} if body else {}),
        "responses": {
            "200": {"description": "the answer", "content": {media: {"schema": schema}}},
            **{code: {"description": why, "content": error} for code, why in codes.items()},
        },
    }


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_none(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}
