"""holdfast trains, attacks and audits image embeddings."""

from holdfast.version import __version__

__all__ = ["__version__"]
