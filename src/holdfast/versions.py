"""What produced a result."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from holdfast.version import __version__

_PACKAGES = ("torch", "timm", "accelerate", "pytorch-metric-learning", "numpy")


def versions() -> dict[str, str]:
    """Versions of holdfast, Python and the packages results depend on."""
    found = {"holdfast": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
