"""Tables of images with labels and splits, and everything between them and a batch on the device."""

from holdfast.config import builder
from holdfast.data.augment import Augment, CentreCrop, RandomCrop, RandomResizedCrop, centre_crop
from holdfast.data.batches import SAMPLERS, Batches, ClassBatches, PairBatches, Sampler
from holdfast.data.check import Problem, check
from holdfast.data.decode import BadImage
from holdfast.data.ragged import RaggedImages
from holdfast.data.readers import (
    Cars,
    CsvFile,
    Cub,
    Digits,
    Glyphs,
    ImageFolder,
    Images,
    InShop,
    Mnist,
    Omniglot,
    OnlineProducts,
)
from holdfast.data.readers.base import (
    Reader,
    TreeReader,
    from_csv,
    from_folder,
    load,
    parse,
    register,
    registry,
    spellings,
)
from holdfast.data.sources import ArraySource, FileSource, ImageSource, TreeSource
from holdfast.data.store import ImageStore
from holdfast.data.table import ImageTable

build, names = builder(registry), registry.names

__all__ = ["SAMPLERS", "ArraySource", "Augment", "BadImage", "Batches", "Cars", "CentreCrop", "ClassBatches"]
__all__ += ["CsvFile", "Cub", "Digits", "FileSource", "Glyphs", "ImageFolder", "ImageSource", "ImageStore"]
__all__ += ["ImageTable", "Images", "InShop", "Mnist", "Omniglot", "OnlineProducts", "PairBatches", "Problem"]
__all__ += ["RaggedImages", "RandomCrop", "RandomResizedCrop", "Reader", "Sampler", "TreeReader", "TreeSource"]
__all__ += ["centre_crop", "check", "from_csv", "from_folder", "load", "names", "parse", "register", "registry"]
__all__ += ["build", "spellings"]
