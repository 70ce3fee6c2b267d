"""What a server counts, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
IMAGES = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Counters of one server.

    Args:
        images: in each index.
        waiting: tells how many requests are inside.
    """

    def __init__(self, images: Mapping[str, int], waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        made: dict[str, Any] = {"namespace": "holdfast", "registry": self._registry}
        self.requests = Counter("requests", "Requests that were answered", ["path", "status"], **made)
        self.seconds = Histogram("request_seconds", "From the request to its answer", ["path"], buckets=SECONDS, **made)
        self.batches = Histogram("batch_images", "Images that were computed together", buckets=IMAGES, **made)
        self.tampered = Counter("tampered_queries", "Queries that looked tampered with", **made)
        sizes = Gauge("index_images", "Images in an index", ["index"], **made)
        for name, count in images.items():
            sizes.labels(name).set(count)
        Gauge("requests_inside", "Requests that are decoded, wait or are computed", **made).set_function(waiting)

    def text(self) -> bytes:
        """All of them, in Prometheus's text format."""
        return generate_latest(self._registry)
