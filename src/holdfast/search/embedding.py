"""What an index needs of a model and of images: vectors, digests, and how far small changes move a vector."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import seeds
from holdfast.data import ImageStore
from holdfast.errors import ModelError
from holdfast.evaluation import embed
from holdfast.models import Embedder
from holdfast.processes import current_processes
from holdfast.search.index import Fingerprints, ModelFacts, usable

NOISE = 4 / 255
"""Deviation of the noise: under what a person sees, half of the usual attack's reach."""
NOISY_COPIES = 2
PROBES = 4
"""Images by which models are told apart."""
SAME = 1e-2
"""Distance up to which two vectors of a probe are one model's: above what other hardware, half precision or another
runtime changes, far below what other weights do."""


@dataclasses.dataclass(frozen=True)
class EmbeddedImages:
    """What a model makes of images.

    Args:
        vectors: one per image.
        moves: how far a little noise and a small shift of the image move each, on average; None where not asked for.
    """

    vectors: NDArray[np.float32]
    moves: NDArray[np.float32] | None = None


def fingerprint_images(store: ImageStore, batch: int) -> Fingerprints:
    """A digest of each image of a store; several processes take a shard each."""
    processes = current_processes()
    found = []
    mine = processes.shard(len(store))
    for start in range(mine.start, mine.stop, batch):
        images = store.get(torch.arange(start, min(start + batch, mine.stop))).arrays()
        found += [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
    own = np.frombuffer(b"".join(found), np.uint8).reshape(-1, 16).copy()
    return processes.gather(torch.from_numpy(own), ((len(store), 1),)).numpy()


class WithMoves(nn.Module):
    """Before each vector of a model, how far a little noise and a small shift of the image move it, on average.

    Args:
        model: in eval mode.
        seed: of the noise, the same for all images, so that no verdict depends on the rest of the batch.
    """

    def __init__(self, model: Embedder, seed: int) -> None:
        super().__init__()
        self.training = model.training
        self.model, self.seed, self.size, self.dim, self.mean = model, seed, model.size, model.dim + 2, model.mean

    def forward(self, images: Tensor) -> Tensor:
        """Images in [0, 1] to moves and vectors."""
        vectors = self.model(images).float()
        moves = [
            torch.stack([(self.model(copy).float() - vectors).norm(dim=1) for copy in copies]).mean(0)
            for copies in changed_copies(images, self.seed)
        ]
        return torch.cat([torch.stack(moves, 1), vectors], 1)


def embed_images(
    model: Embedder, store: ImageStore, rows: NDArray[np.int64], batch: int = 256, seed: int | None = None
) -> EmbeddedImages:
    """Vectors of some images and, if asked, how far small changes move them, which costs six more passes.

    Args:
        model: in eval mode, on the store's device.
        store: images at the model's view.
        rows: which of them.
        batch: images per pass.
        seed: of the noise of changed copies; none are looked at when left out.
    """
    shown = model if seed is None else WithMoves(model, seed)
    table = embed(shown, store, batch, rows=torch.from_numpy(rows)).numpy()
    bad = np.flatnonzero(~usable(table))
    if len(bad):
        name = store.table.ids[rows[bad[0]]]
        raise ModelError(f"the model gives '{name}' a vector that is not finite or far too long; check its weights")
    return EmbeddedImages(table) if seed is None else EmbeddedImages(np.ascontiguousarray(table[:, 2:]), table[:, :2])


def changed_copies(images: Tensor, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Noisy copies of images, and copies shifted by one pixel (on larger images two or three) to each side."""
    noise = torch.randn(NOISY_COPIES, *images.shape[1:], generator=seeds.generator(seed, "tampering")) * NOISE
    noisy = [(images + one).clamp(0, 1) for one in noise.to(images.device)]
    step, height, width = max(1, round(images.shape[-1] / 112)), *images.shape[-2:]
    padded = F.pad(images, (step,) * 4, mode="replicate")
    corners = ((0, step), (step, 0), (2 * step, step), (step, 2 * step))
    return noisy, [padded[..., top : top + height, left : left + width] for top, left in corners]


@torch.no_grad()
def model_facts(model: Embedder, reference: str) -> ModelFacts:
    """What identifies a model."""
    digest = hashlib.blake2b(digest_size=16)
    state = model.state_dict()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    probe = torch.rand(PROBES, 3, 8, 8, generator=seeds.generator(0, "probe")).to(model.mean.device)
    shown = F.interpolate(probe, size=(model.size, model.size), mode="bilinear")
    vectors = model(shown).float().cpu().numpy()
    return ModelFacts(reference, digest.hexdigest() if state else "", model.view, vectors)


def refuse_other_model(model: Embedder, facts: ModelFacts) -> None:
    """Refuse a model whose vectors cannot be compared with those of an index."""
    own = model_facts(model, "")
    advice = "give the one that made the index, or build an index with this one"
    longest = max(np.linalg.norm(own.probe, axis=1).max(), 1)
    other = own.probe.shape != facts.probe.shape
    if other or not np.linalg.norm(own.probe - facts.probe, axis=1).max() <= SAME * longest:  # NaN too
        raise ModelError(f"this is not the model that made the index; {advice}")
    if own.view != facts.view:
        raise ModelError(f"this model sees images otherwise ({own.view}) than the index's ({facts.view}); {advice}")
