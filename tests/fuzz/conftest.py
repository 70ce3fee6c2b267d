"""Helpers of the fuzz targets that lie beside other tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "report"))
