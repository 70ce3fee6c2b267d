"""What a server computes: images to vectors, neighbours and marks."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from holdfast import attacks
from holdfast.attacks import Budget
from holdfast.attacks.references import References
from holdfast.data import BadImage
from holdfast.data.augment import centre_crop
from holdfast.data.ragged import RaggedImages
from holdfast.data.resampling import Pixels
from holdfast.data.sources import decode, size_of
from holdfast.errors import ModelError, SearchError
from holdfast.models import Embedder
from holdfast.search import Answer, Filter, Searcher
from holdfast.search.embedding import fingerprints_of, vectors_and_moves
from holdfast.search.flat import Vectors
from holdfast.search.index import usable

SENT = "the image"
"""What an image that was sent is called."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
"""Formats that strangers may send, where they can be read here; none that starts another program."""

STEPS = 10
"""Of an attack that somebody watches."""

ANY = Filter()
"""Every image of an index."""

LONGER = 16
"""How many times as long as its shorter side an image may be."""


@functools.cache
def _readable() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@dataclasses.dataclass(frozen=True)
class SearchRequest:
    """One image that was sent.

    Args:
        pixels: at the canvas of the model's view.
        k: neighbours that are wanted; 0 for none, only the vector.
        where: which images of the index may be among them.
    """

    pixels: Pixels
    k: int
    where: Filter = ANY


@dataclasses.dataclass(frozen=True)
class SearchReply:
    """What came of it.

    Args:
        vector: of the image.
        answer: its neighbours; None where none were wanted.
    """

    vector: Vectors
    answer: Answer | None


@dataclasses.dataclass(frozen=True)
class AttackedImage:
    """An image after an attack on it.

    Args:
        png: the image, as the model sees it.
        found: what came of it.
        moved: how far its vector went.
    """

    png: bytes
    found: SearchReply
    moved: float


class Service:
    """A model and an index that it is asked about.

    Args:
        searcher: of the index.
        model: the one that made it, on its device.
    """

    def __init__(self, searcher: Searcher, model: Embedder) -> None:
        self.searcher, self.model = searcher, model.eval()
        self.attackable = _has_gradients(self.model)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.searcher.index.dim

    def prepare(self) -> None:
        """Do at the start what would else make the first requests wait."""
        self.searcher.index.prepare()
        side = self.model.view.canvas
        self.compute([SearchRequest(np.zeros((side, side, 3), np.uint8), 1)])

    def read(self, content: bytes, most: int) -> Pixels:
        """Pixels of an image file, at the canvas of the model's view; `BadImage` where it is none.

        Args:
            content: of the file.
            most: pixels that it may have.
        """
        width, height = size_of(lambda: io.BytesIO(content), SENT, _readable())
        if width * height > most:
            raise BadImage(
                SENT, f"{width} × {height} pixels are too many; send a copy of at most {most / 1e6:g} million"
            )
        if max(width, height) > LONGER * min(width, height):
            raise BadImage(SENT, f"at {width} × {height} it is a line rather than an image")
        return decode(lambda: io.BytesIO(content), SENT, self.model.view)

    def compute(self, asked: list[SearchRequest]) -> Sequence[SearchReply | ModelError | SearchError]:
        """What came of each image, or why nothing did."""
        vectors, moves = self._looked([one.pixels for one in asked])
        found: list[SearchReply | ModelError | SearchError] = [
            SearchReply(vector, None) if fine else ModelError("the model gives this image a vector that is not finite")
            for vector, fine in zip(vectors, usable(vectors), strict=True)
        ]
        alike: dict[Filter, list[int]] = {}
        for row, one in enumerate(asked):
            if one.k and isinstance(found[row], SearchReply):
                alike.setdefault(one.where, []).append(row)
        for where, rows in alike.items():
            fingerprints = fingerprints_of([asked[row].pixels for row in rows])
            k = max(asked[row].k for row in rows)
            moved = None if moves is None else moves[rows]
            try:
                answers = self.searcher.answers([SENT] * len(rows), vectors[rows], moved, fingerprints, k, where)
            except SearchError as error:  # other filters may be answered
                for row in rows:
                    found[row] = error
                continue
            for row, answer in zip(rows, answers, strict=True):
                cut = dataclasses.replace(answer, matches=answer.matches[: asked[row].k])
                found[row] = SearchReply(vectors[row], cut)
        return found

    def attack(self, pixels: Pixels, eps: float, k: int, where: Filter = ANY) -> AttackedImage:
        """Change an image so that its vector goes far, and see what is found for it then.

        Args:
            pixels: at the canvas of the model's view.
            eps: the most that a pixel may change.
            k: neighbours that are wanted.
            where: which images of the index may be among them.
        """
        model = self.model
        images = centre_crop(RaggedImages.sent([pixels], model.mean.device), model.view)
        with torch.no_grad():
            clean = model(images).float()
        first = torch.arange(1, device=clean.device)
        goal = attacks.build("shift").bind(References(clean, None, normalize=model.normalize), first)
        changed = attacks.pgd(model, images, goal, Budget(eps=eps, steps=STEPS), normalize=model.normalize).images
        # Eight bits per pixel, as somebody would send it.
        bytes_ = (changed[0] * 255).round().clamp(0, 255).byte().permute(1, 2, 0).cpu().numpy()
        (found,) = self.compute([SearchRequest(bytes_, k, where)])
        if not isinstance(found, SearchReply):
            raise found
        out = io.BytesIO()
        Image.fromarray(bytes_).save(out, "png")
        return AttackedImage(out.getvalue(), found, float(np.linalg.norm(found.vector - clean.cpu().numpy()[0])))

    @torch.inference_mode()
    def _looked(self, pixels: list[Pixels]) -> tuple[Vectors, Vectors | None]:
        """Vectors of images, and how far small changes move them, where the index marks such that move far."""
        index, model = self.searcher.index, self.model
        images = centre_crop(RaggedImages.sent(pixels, model.mean.device), model.view)
        if self.searcher.detector is None:
            return model(images).float().cpu().numpy(), None
        vectors, moves = vectors_and_moves(model, images, index.seed, index.copies)
        return vectors.cpu().numpy(), moves.cpu().numpy()


def _has_gradients(model: Embedder) -> bool:
    """Whether an attack can go by the model's gradient; an exported graph has none."""
    images = torch.full((1, 3, model.size, model.size), 0.5, device=model.mean.device, requires_grad=True)
    try:
        torch.autograd.grad(model(images).float().sum(), images)
    except RuntimeError:
        return False
    return True
