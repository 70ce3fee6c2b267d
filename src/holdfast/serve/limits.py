"""What a server takes of one request, and of all together."""

from __future__ import annotations

import dataclasses

MB = 2**20


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds that keep a server alive whatever is sent to it.

    Args:
        body: bytes of one image as it is sent.
        pixels: of one image, decoded.
        bodies: bytes of all images that are arriving or waiting.
        waiting: requests that are decoded, wait or are computed; more are refused at once.
        batch: images that are computed together.
        matches: the most neighbours that a request may ask for.
        eps: the strongest attack that it may ask for, in 255ths.
        reading: seconds for a request to arrive.
        seconds: from then on to the answer.
        connections: open at the same time.
    """

    body: int = 16 * MB
    pixels: int = 50_000_000
    bodies: int = 256 * MB
    waiting: int = 64
    batch: int = 32
    matches: int = 100
    eps: float = 32.0
    reading: float = 10.0
    seconds: float = 30.0
    connections: int = 1000
