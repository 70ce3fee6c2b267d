"""Embedders: pixels to unit vectors."""

from holdfast.models.build import ModelConfig
from holdfast.models.embedder import Embedder
from holdfast.models.export import Parity, export_onnx
from holdfast.models.int8 import Quantised, export_int8
from holdfast.models.load import MODEL_HELP, as_embedder, load_model
from holdfast.models.run_card import write_card

__all__ = [
    "MODEL_HELP",
    "Embedder",
    "ModelConfig",
    "Parity",
    "Quantised",
    "as_embedder",
    "export_int8",
    "export_onnx",
    "load_model",
    "write_card",
]
