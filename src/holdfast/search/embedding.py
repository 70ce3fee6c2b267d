"""What an index needs of a model and of images: vectors, digests, and how far small changes move a vector."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast import console, seeds
from holdfast.data import ImageStore
from holdfast.data.resampling import Pixels
from holdfast.data.workers import default_workers
from holdfast.errors import ModelError
from holdfast.evaluation import embed
from holdfast.mining.draw import sample
from holdfast.models import Embedder
from holdfast.models.weights import raw_bytes
from holdfast.processes import current_processes
from holdfast.search.flat import Rows, Vectors
from holdfast.search.index import CHANGED_COPIES, Fingerprints, ModelFacts, usable

NOISE = 4 / 255
"""Deviation of the noise: under what a person sees, half of the usual attack's reach."""
SHIFTS = ((0, 1), (1, 0), (2, 1), (1, 2))
"""Up, left, down and right, of an image with a margin all around."""
PROBES = 4
"""Images by which models are told apart."""
SAME = 1e-2
"""Distance up to which two vectors of a probe are one model's: above what other hardware, half precision or another
runtime changes, far below what other weights do."""


def fingerprint_images(store: ImageStore, rows: Rows, batch: int) -> Fingerprints:
    """A digest of each of some images of a store; several processes take a shard each."""
    processes = current_processes()
    found, mine = [fingerprints_of([])], torch.from_numpy(rows[processes.shard(len(rows))])
    for start in range(0, len(mine), batch):
        found.append(fingerprints_of(store.get(mine[start : start + batch]).arrays()))
    return _gathered(found, len(rows))


def _gathered(digests: list[Fingerprints], count: int) -> Fingerprints:
    """Those of all processes' shards, together so many."""
    return current_processes().gather(torch.from_numpy(np.concatenate(digests)), ((count, 1),)).numpy()


def fingerprints_of(images: Sequence[Pixels]) -> Fingerprints:
    """A digest of each of some images at a model's canvas."""
    if len(images) < 2:
        digests = list(map(_digest, images))
    else:
        with ThreadPoolExecutor(default_workers()) as threads:  # hashing leaves the interpreter to others
            digests = list(threads.map(_digest, images))
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16).copy()


def _digest(image: Pixels) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).digest()


def embed_images(model: Embedder, store: ImageStore, rows: Rows, batch: int = 256) -> tuple[Vectors, Fingerprints]:
    """Vectors of some images, each of them usable, and their digests; every image is decoded once.

    Args:
        model: on the store's device.
        store: images at the model's view.
        rows: which of them.
        batch: images per pass.
    """
    digests = [fingerprints_of([])]
    chosen = torch.from_numpy(rows)
    vectors = embed(
        model, store, batch, rows=chosen, seen=lambda images: digests.append(fingerprints_of(images.arrays()))
    )
    _refuse_unusable(vectors.numpy(), store, rows)
    return vectors.numpy(), _gathered(digests, len(rows))


@torch.no_grad()
def measure_moves(
    model: Embedder,
    store: ImageStore,
    rows: Rows,
    vectors: Vectors,
    batch: int = 256,
    seed: int = 0,
    copies: int = CHANGED_COPIES,
) -> Vectors:
    """How far a little noise and a small shift move images' vectors, on average, of shape (n, 2).

    Each image costs a pass for every changed copy. Several processes take a shard each, and all of them get everything.

    Args:
        model: in eval mode, on the store's device.
        store: images at the model's view.
        rows: which of them.
        vectors: of these.
        batch: images per pass.
        seed: of the noise, the same for all images, so that no verdict depends on the rest of the batch.
        copies: changed copies of each image, those of the index.
    """
    processes = current_processes()
    parts, shard = [torch.empty(0, 2)], processes.shard(len(rows))
    mine, clean = torch.from_numpy(rows[shard]), torch.from_numpy(vectors[shard])
    with console.bar(copies * len(mine), unit="pass", what="changed copies") as bar:
        for start in range(0, len(mine), batch):
            images = store.inputs(mine[start : start + batch])
            parts.append(moves_of(model, images, clean[start : start + batch].to(images.device), seed, copies).cpu())
            bar.update(copies * len(images))
    found = processes.gather(torch.cat(parts), ((len(rows), 1),)).numpy()
    _refuse_unusable(found, store, rows)
    return found


@torch.no_grad()
def vectors_and_moves(model: Embedder, images: Tensor, seed: int, copies: int) -> tuple[Tensor, Tensor]:
    """Vectors of a few images and how far small changes move them, (n, 2), in one pass; as `measure_moves`."""
    noisy, shifted = changed_copies(images, seed, copies)
    vectors, *changed = model(torch.cat([images, *noisy, *shifted])).float().chunk(1 + copies)
    return vectors, _apart(vectors, changed[: len(noisy)], changed[len(noisy) :])


@torch.no_grad()
def moves_of(model: Embedder, images: Tensor, vectors: Tensor, seed: int, copies: int) -> Tensor:
    """How far a little noise and a small shift move the vectors of some images, of shape (n, 2); as `measure_moves`."""
    noisy, shifted = changed_copies(images, seed, copies)
    return _apart(vectors, [model(copy).float() for copy in noisy], [model(copy).float() for copy in shifted])


def _apart(vectors: Tensor, *kinds: Sequence[Tensor]) -> Tensor:
    """How far the vectors of changed copies are from those of the images, on average over each kind of copy."""
    return torch.stack([torch.stack([(one - vectors).norm(dim=1) for one in kind]).mean(0) for kind in kinds], 1)


def _refuse_unusable(values: Vectors, store: ImageStore, rows: Rows) -> None:
    bad = np.flatnonzero(~usable(values))
    if len(bad):
        name = store.table.ids[rows[bad[0]]]
        raise ModelError(f"the model gives '{name}' a vector that is not finite or far too long; check its weights")


def changed_copies(images: Tensor, seed: int, copies: int = CHANGED_COPIES) -> tuple[list[Tensor], list[Tensor]]:
    """Noisy copies, a third of all, and copies shifted to one side by a pixel (larger images by two or three)."""
    noisy_copies = copies // 3
    shape, generator = (noisy_copies, *images.shape[1:]), seeds.generator(seed, "tampering")
    noise = NOISE * sample(torch.randn, shape, device=images.device, generator=generator)
    noisy = [(images + one).clamp(0, 1) for one in noise]
    step, height, width = max(1, round(images.shape[-1] / 112)), *images.shape[-2:]
    padded = F.pad(images, (step,) * 4, mode="replicate")
    shifted = [
        padded[..., step * top :, step * left :][..., :height, :width] for top, left in SHIFTS[: copies - noisy_copies]
    ]
    return noisy, shifted


@torch.no_grad()
def model_facts(model: Embedder, reference: str) -> ModelFacts:
    """What identifies a model."""
    digest = hashlib.blake2b(digest_size=16)
    state = model.state_dict()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(raw_bytes(state[name]))
    generator = seeds.generator(0, "probe")
    probe = sample(torch.rand, (PROBES, 3, 8, 8), device=model.mean.device, generator=generator)
    shown = F.interpolate(probe, size=(model.size, model.size), mode="bilinear")
    vectors = model(shown).float().cpu().numpy()
    return ModelFacts(reference, digest.hexdigest() if state else "", model.view, vectors)


def same_model(own: Vectors, probe: Vectors) -> bool:
    """Whether two probes are of one model."""
    if own.shape != probe.shape:
        return False
    longest = max(np.linalg.norm(own, axis=1).max(), 1)
    return bool(np.linalg.norm(own - probe, axis=1).max() <= SAME * longest)  # not where any is NaN


def refuse_other_model(model: Embedder, facts: ModelFacts) -> None:
    """Refuse a model whose vectors cannot be compared with those of an index."""
    own = model_facts(model, "")
    advice = "give the one that made the index, or build an index with this one"
    if not same_model(own.probe, facts.probe):
        raise ModelError(f"this is not the model that made the index; {advice}")
    if own.view != facts.view:
        raise ModelError(f"this model sees images otherwise ({own.view}) than the index's ({facts.view}); {advice}")
