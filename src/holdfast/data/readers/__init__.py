"""Readers of datasets, one file each."""

from holdfast.data.readers.cars import Cars
from holdfast.data.readers.csv_file import CsvFile
from holdfast.data.readers.cub import Cub
from holdfast.data.readers.digits import Digits, Mnist
from holdfast.data.readers.folder import ImageFolder
from holdfast.data.readers.glyphs import Glyphs
from holdfast.data.readers.images import Images
from holdfast.data.readers.inshop import InShop
from holdfast.data.readers.omniglot import Omniglot
from holdfast.data.readers.sop import OnlineProducts

__all__ = ["Cars", "CsvFile", "Cub", "Digits", "Glyphs", "ImageFolder", "Images", "InShop", "Mnist", "Omniglot"]
__all__ += ["OnlineProducts"]
