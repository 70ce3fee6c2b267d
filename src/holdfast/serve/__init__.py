"""An index behind an address: an image in, its neighbours out."""

from holdfast.serve.app import build_app
from holdfast.serve.gallery import GalleryImages
from holdfast.serve.limits import Limits
from holdfast.serve.server import serve
from holdfast.serve.service import Service

__all__ = ["GalleryImages", "Limits", "Service", "build_app", "serve"]
