"""Tables of images with labels and splits, and everything between them and a batch on the device."""

from holdfast.config import builder
from holdfast.data.augment import Augment, CentreCrop, RandomCrop, RandomResizedCrop, WindowAugment, centre_crop
from holdfast.data.batches import SAMPLERS, Batches, ClassBalancedBatchSampler, ClassBatches, PairBatches, Sampler
from holdfast.data.check import Problem, check
from holdfast.data.content import content_digest
from holdfast.data.ragged import RaggedImages
from holdfast.data.readers.base import Reader, TreeReader, from_csv, from_folder, load, parse, registry, spellings
from holdfast.data.readers.cars import Cars
from holdfast.data.readers.csv_file import CsvFile
from holdfast.data.readers.cub import Cub
from holdfast.data.readers.digits import Digits, Mnist
from holdfast.data.readers.folder import ImageFolder, Images
from holdfast.data.readers.glyphs import Glyphs
from holdfast.data.readers.inshop import InShop
from holdfast.data.readers.omniglot import Omniglot
from holdfast.data.readers.sop import OnlineProducts
from holdfast.data.sources import ArraySource, BadImage, FileSource, ImageSource
from holdfast.data.store import ImageStore
from holdfast.data.table import ImageTable
from holdfast.data.tree import TreeSource

build, names, register = builder(registry), registry.names, registry.register

__all__ = ["SAMPLERS", "ArraySource", "Augment", "BadImage", "Batches", "Cars", "CentreCrop", "ClassBatches"]
__all__ += [
    "ClassBalancedBatchSampler",
    "CsvFile",
    "Cub",
    "Digits",
    "FileSource",
    "Glyphs",
    "ImageFolder",
    "ImageSource",
    "ImageStore",
]
__all__ += ["ImageTable", "Images", "InShop", "Mnist", "Omniglot", "OnlineProducts", "PairBatches", "Problem"]
__all__ += ["RaggedImages", "RandomCrop", "RandomResizedCrop", "Reader", "Sampler", "TreeReader", "TreeSource"]
__all__ += ["centre_crop", "check", "from_csv", "from_folder", "load", "names", "parse", "register", "registry"]
__all__ += ["WindowAugment", "build", "content_digest", "spellings"]
