"""The HTML pages: files of runs in, one self-contained file out."""

from __future__ import annotations

from holdfast.report.comparison import compare
from holdfast.report.page import write

__all__ = ["compare", "write"]
