"""Tables of images with labels and splits, and everything between them and a batch on the device."""

from holdfast.config import builder
from holdfast.data.augment import Augment, centre_crop
from holdfast.data.batches import SAMPLERS, Batches, ClassBatches, PairBatches, Sampler
from holdfast.data.check import Problem, check
from holdfast.data.decode import BadImage
from holdfast.data.ragged import RaggedImages
from holdfast.data.readers.base import Reader, from_csv, from_folder, load, parse, register, registry
from holdfast.data.store import ImageStore
from holdfast.data.table import ImageTable

build, names = builder(registry), registry.names

__all__ = [
    "SAMPLERS",
    "Augment",
    "BadImage",
    "Batches",
    "ClassBatches",
    "ImageStore",
    "ImageTable",
    "PairBatches",
    "Problem",
    "RaggedImages",
    "Reader",
    "Sampler",
    "build",
    "centre_crop",
    "check",
    "from_csv",
    "from_folder",
    "load",
    "names",
    "parse",
    "register",
    "registry",
]
