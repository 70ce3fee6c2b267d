"""What a run shows of itself: arrays and pictures under `artifacts/`, from which pages are made."""

from holdfast.exhibits.collect import collect
from holdfast.exhibits.current import is_current

__all__ = ["collect", "is_current"]
