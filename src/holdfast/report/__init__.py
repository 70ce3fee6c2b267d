"""Pages of runs: a model measured once, files in, one self-contained HTML file out.

Only `collect` needs torch, and imports it when called.
"""

from __future__ import annotations

from holdfast.report.collect import collect, is_current
from holdfast.report.compare_page import compare
from holdfast.report.page import write

__all__ = ["collect", "compare", "is_current", "write"]
