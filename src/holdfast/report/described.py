"""What the figures of a document mean: as it says itself, or, of before 0.2, as registered metrics and protocols do."""

from __future__ import annotations

import functools
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.metric_info import MetricInfo, stored
from holdfast.run_files import block, finite


def described(document: dict[str, Any]) -> dict[str, MetricInfo]:
    """The figures of an evaluation or an audit, in the order they are shown."""
    if known := stored(document):
        return known
    eps, protocol = finite(block(document, "budget").get("eps_pixel")), document.get("protocol")
    return _registered(protocol if isinstance(protocol, str) else None, eps if eps and eps > 0 else None)


@functools.cache
def _registered(protocol: str | None, eps: float | None) -> dict[str, MetricInfo]:
    from holdfast import audit, metrics  # need torch; documents that describe themselves do not

    try:
        return metrics.described() if protocol is None else audit.build(protocol, eps=eps).describe()
    except HoldfastError:
        return {}
