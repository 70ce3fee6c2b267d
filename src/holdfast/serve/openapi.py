"""The interface of a server, described for programs (OpenAPI) and for people."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from holdfast.serve.limits import MB, Limits
from holdfast.serve.service import Service
from holdfast.version import __version__

NUMBER, TEXT, TRUTH = {"type": "number"}, {"type": "string"}, {"type": "boolean"}


def description(service: Service, limits: Limits) -> dict[str, Any]:
    """The interface as an OpenAPI 3.1 document."""
    k = {
        "name": "k",
        "in": "query",
        "description": "neighbours, nearest first",
        "schema": {"type": "integer", "minimum": 1, "maximum": limits.matches, "default": 10},
    }
    image = {
        "required": True,
        "description": f"an image file, at most {limits.body / MB:g} MB",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
    match = _object(id=TEXT, label=TEXT, distance=NUMBER, same=_or_none(TRUTH))
    answer = _object(
        matches=_list(match),
        tampered=_or_none(TRUTH),
        why=_list(TEXT),
        threshold=_or_none(NUMBER),
        unchecked=_or_none(TEXT),
    )
    vector = _object(
        vector={**_list(NUMBER), "minItems": service.dim, "maxItems": service.dim}, dim={"type": "integer"}
    )
    paths = {
        "/search": {"post": _operation("Find the nearest images of an image", answer, image, [k])},
        "/embed": {"post": _operation("Embed an image", vector, image)},
        "/health": {"get": _operation("Whether the server answers, and with a token about what", _object(status=TEXT))},
        "/metrics": {"get": _operation("Counters for Prometheus", TEXT, media="text/plain")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast serve", "version": __version__, "description": "Search an index of images."},
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


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_none(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}
