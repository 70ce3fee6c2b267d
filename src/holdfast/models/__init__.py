"""Embedders: pixels to unit vectors."""

from holdfast.models.backbones import Backbone, MnistPlaneNet, SmallConvNet, build_backbone
from holdfast.models.bank import BatchNormBank, SetStart
from holdfast.models.card import write_card
from holdfast.models.embedder import BatchNormPolicy, Embedder, Through
from holdfast.models.export import Exported, export_int8, export_onnx
from holdfast.models.load import ModelConfig, as_embedder, load_model, spellings
from holdfast.models.preprocessing import Preprocessing

__all__ = ["Backbone", "BatchNormBank", "BatchNormPolicy", "Embedder", "Exported", "MnistPlaneNet", "ModelConfig"]
__all__ += ["Preprocessing", "SetStart", "SmallConvNet", "Through", "as_embedder", "build_backbone"]
__all__ += ["export_int8", "export_onnx", "load_model", "spellings", "write_card"]
