"""What a stranger's files may say before any of it is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from holdfast.errors import ModelError, shown
from holdfast.models.batchnorm import BatchNormPolicy
from holdfast.models.preprocessing import colours
from holdfast.models.weights import Layout
from holdfast.view import Fit, Interpolation

LARGEST = {"dim": 65_536, "size": 4_096, "canvas": 8_192}
"""More than any model has; a larger number in a file would only fill the memory."""

_WORDS = {
    "layout": get_args(Layout),
    "batchnorm": get_args(BatchNormPolicy),
    "fit": get_args(Fit),
    "interpolation": get_args(Interpolation),
}


def check_settings(settings: dict[str, Any], where: str) -> None:
    """Refuse settings of a packaged model that no model could have been saved with.

    Args:
        settings: the arguments of `Embedder`, as a config.json gives them.
        where: the package, for the message.
    """
    for key, value in settings.items():
        if key in LARGEST:
            good = value is None or (type(value) is int and 1 <= value <= LARGEST[key])
        elif key in _WORDS:
            good = value in _WORDS[key]
        elif key in ("mean", "std"):
            good = colours(value, key)
        else:
            good = isinstance(value, bool) if key == "normalize" else isinstance(value, str) and len(value) <= 200
        if not good:
            raise ModelError(f"config.json of {where} is damaged: {key} cannot be {shown(value)}")


def check_graph(file: Path) -> None:
    """Refuse an ONNX file that keeps tensors outside its own folder, whatever the runtime would make of it."""
    import onnx

    try:
        proto = onnx.load(file, load_external_data=False)
    except Exception as error:  # protobuf has several exception types; each means that the file is no graph
        raise ModelError(f"cannot read {file}: {' '.join(str(error).split())[:160]}") from error
    folder = file.resolve().parent
    for place in _outside_tensors(proto):
        if not (folder / place).resolve().is_relative_to(folder):
            raise ModelError(f"{file} reads its tensors from {shown(place)}, outside its folder; it is refused")


def _outside_tensors(proto: Any) -> Iterator[str]:
    """Locations of all tensors that are kept in other files, in subgraphs and functions too."""
    waiting = [proto]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            yield from (entry.value for entry in message.external_data if entry.key == "location")
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
