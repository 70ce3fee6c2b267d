"""What may leave this machine: pages travel, so they name no private folder, and their commands can be pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from holdfast.run_folder import RunFiles

IN_TEXT = re.compile(r"(?<![\w./…<])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"`,;:()<>]+[/\\])+(?=[^\s/\\])")
"""The folders of an absolute path within a sentence, up to its last part; `8/255` and web addresses are none."""
WINDOWS = re.compile(r"[A-Za-z]:[/\\]|\\\\")


def command(*words: object) -> str:
    """A command line that a shell takes apart into just these words."""
    return " ".join(shlex.quote(str(word)) for word in words)


def public_path(value: object, before: str = "") -> str:
    """A path without the folders it lies in, where they are private: absolute, of a home, or outside (`..`).

    Args:
        value: of a recipe or an audit; what is no path stays as it is.
        before: is put before the last part where folders were left out.
    """
    text = str(value)
    if WINDOWS.match(text):
        return before + PureWindowsPath(text).name
    path = PurePosixPath(text)
    if path.is_absolute() or text.startswith("~") or ".." in path.parts:
        return before + path.name
    name, colon, rest = text.partition(":")
    if colon and name.isidentifier() and not rest.startswith("//"):
        return f"{name}:{public_path(rest, before)}"
    name, at, rest = text.partition("@")  # weights of a model: `resnet50@FILE`
    return f"{name}@{public_path(rest, before)}" if at else text


def public_text(text: object) -> str:
    """A sentence with `…/` in place of the folders of absolute paths."""
    return IN_TEXT.sub("…/", str(text))


def public_values(part: Any) -> Any:
    """A block of a recipe with every path in it as `…/last`."""
    if isinstance(part, dict):
        return {key: public_values(value) for key, value in part.items()}
    if isinstance(part, list):
        return [public_values(value) for value in part]
    return public_path(part, "…/") if isinstance(part, str) else part


def spec(data: Any) -> str:
    """A dataset as `--data` takes it, its path cut to what may be shown; `DATA` where that is not known."""
    if isinstance(data, str) and data:
        return public_path(data)
    if not isinstance(data, dict) or not data.get("name"):
        return "DATA"
    place = data.get("root") or data.get("file")
    return f"{data['name']}:{public_path(place)}" if place else public_path(data["name"])


def model_command(verb: str, files: RunFiles, private: bool = False) -> str:
    """What audits or evaluates the model of a folder: `holdfast VERB FOLDER --data DATA`, or, where it lies elsewhere,
    `holdfast VERB MODEL --data DATA --out FOLDER`.

    Args:
        verb: `audit` or `evaluate`.
        files: the folder.
        private: name the folders that paths lie in, for who typed them.
    """
    folder, data = (files.folder, files.data_spec) if private else (files.shown_folder, spec(files.data))
    audited = files.main_audit
    if files.recipe or not audited:
        return command("holdfast", verb, folder, "--data", data)
    model = audited.get("model", "MODEL")
    words = [model if private else public_path(model), "--data", data]
    words += ["--size", audited["size"]] if audited.get("size") else []
    words += ["--out", folder if verb == "audit" else f"{folder}/evaluation.json"]
    return command("holdfast", verb, *words)


def report_command(files: RunFiles, *options: str) -> str:
    """What makes the page of a folder."""
    return command("holdfast", "report", files.shown_folder, *options)
