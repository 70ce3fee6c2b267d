"""Embedders: pixels to unit vectors."""

from holdfast.models.build import ModelConfig
from holdfast.models.embedder import Embedder
from holdfast.models.load import MODEL_HELP, as_embedder, load_model

__all__ = ["MODEL_HELP", "Embedder", "ModelConfig", "as_embedder", "load_model"]
