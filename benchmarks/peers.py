"""The usual way of crafting adversaries for embeddings, written from a description of it, to compare with.

Weight gradients are computed with the pixel gradients and thrown away; queries are looked at one by one in Python, and
the rank of each is read by the host at every step, as is the loss; float32 with the device's default matrix precision,
no compilation. The arithmetic is the same as ours: what differs is how it is run. On one H200 a public implementation
of HM took 0.33 s for a training step (η 8, ResNet-18) and, per 112 images, 0.85 s for TMA, ES and GTM, 2.7-3.0 s for
CA, QA and GTT and 3.7 s for LTM; benchmarks/gpu.py prints the same figures for what is written here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Loss = Callable[[Tensor], Tensor]
"""Embeddings of the moved images to the scalar that is minimised."""


def craft(model: nn.Module, images: Tensor, loss: Loss, eps: float, step: float, steps: int) -> Tensor:
    """Signed gradient descent; every backward pass also fills the gradients of the weights."""
    moved = images.clone()
    for _ in range(steps):
        moved = moved.detach().requires_grad_()
        model.zero_grad()
        value = loss(model(moved))
        value.backward()
        value.item()
        assert moved.grad is not None
        moved = moved - step * moved.grad.sign()
        moved = torch.min(torch.max(moved, images - eps), images + eps).clamp(0, 1)
    return moved.detach()


def mine_softhard(z: Tensor, labels: Tensor) -> list[tuple[int, int, int]]:
    """One triplet per consecutive pair, found by looking at each anchor in turn."""
    distance = torch.cdist(z, z).cpu()
    names = labels.cpu()
    triplets = []
    for anchor in range(0, len(z), 2):
        positives = [i for i in range(len(z)) if names[i] == names[anchor] and i != anchor]
        negatives = [i for i in range(len(z)) if names[i] != names[anchor]]
        nearest = min(float(distance[anchor, i]) for i in negatives)
        farthest = max(float(distance[anchor, i]) for i in positives)
        hard_positives = [i for i in positives if distance[anchor, i] > nearest] or positives
        hard_negatives = [i for i in negatives if distance[anchor, i] < farthest] or negatives
        chosen = [options[int(torch.randint(len(options), ()))] for options in (hard_positives, hard_negatives)]
        triplets.append((anchor, chosen[0], chosen[1]))
    return triplets


def hardness(z: Tensor) -> Tensor:
    """Of triplets laid out one after the other."""
    anchor, positive, negative = z.view(-1, 3, z.shape[1]).unbind(1)
    return F.pairwise_distance(anchor, positive) - F.pairwise_distance(anchor, negative)


def hm_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, steps: int) -> None:
    """Hardness manipulation with a constant destination."""
    model.eval()
    with torch.no_grad():
        triplets = mine_softhard(model(images), labels)
    slots = images[[row for triplet in triplets for row in triplet]]

    def wanted(z: Tensor) -> Tensor:
        return F.relu(2.0 - hardness(z)).square().mean()

    moved = craft(model, slots, wanted, 8 / 255, 1 / 255, steps)
    _update(model, optimizer, lambda: F.relu(hardness(model(moved)) + 0.2).mean())


def act_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, steps: int) -> None:
    """Positives and negatives moved onto each other."""
    model.eval()
    with torch.no_grad():
        triplets = mine_softhard(model(images), labels)
    pairs = images[[row for _, positive, negative in triplets for row in (positive, negative)]]

    def apart(z: Tensor) -> Tensor:
        near, far = z.view(-1, 2, z.shape[1]).unbind(1)
        return F.pairwise_distance(near, far).sum()

    moved = craft(model, pairs, apart, 8 / 255, 1 / 255, steps)
    anchors = images[[anchor for anchor, _, _ in triplets]]
    shape = images.shape[1:]
    slots = torch.cat((anchors[:, None], moved.view(-1, 2, *shape)), 1).view(-1, *shape)
    _update(model, optimizer, lambda: F.relu(hardness(model(slots)) + 0.2).mean())


def adml_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, steps: int, loss: nn.Module
) -> None:
    """Images pushed away from their class, a tenth of the loss on them."""
    model.eval()
    same = (labels[:, None] == labels[None, :]) & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)

    def aligned(z: Tensor) -> Tensor:
        return -torch.stack([(z[i] - z[same[i]]).square().sum(1).mean() for i in range(len(z))]).sum()

    moved = craft(model, images, aligned, 0.0314, 0.007, steps)
    _update(model, optimizer, lambda: loss(model(images), labels) + 0.1 * loss(model(moved), labels))


def mdprop_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, eps: float, loss: nn.Module
) -> None:
    """Two kinds of targeted images, each through BatchNorm layers of its own: `model(images, distribution=)`."""
    model.eval()
    with torch.no_grad():
        clean = model(images)
    names = labels.cpu()
    costs = []
    for distribution, count in (("stax", 1), ("mtax", 5)):
        targets = []
        for row in range(len(images)):
            others = [i for i in range(len(images)) if names[i] != names[row]]
            targets.append([others[int(torch.randint(len(others), ()))] for _ in range(count)])
        aim = clean[torch.tensor(targets, device=clean.device)]

        def near(z: Tensor, aim: Tensor = aim) -> Tensor:
            return (z[:, None] - aim).norm(dim=2).mean(1).sum()

        def through(x: Tensor, name: str = distribution) -> Tensor:
            return model(x, distribution=name)  # type: ignore[no-any-return]

        wrapped = _Through(model, through)
        costs.append((distribution, craft(wrapped, images, near, eps, eps, 1)))
    _update(
        model,
        optimizer,
        lambda: loss(model(images), labels) + sum(loss(model(x, distribution=name), labels) for name, x in costs),
    )


class _Through(nn.Module):
    def __init__(self, model: nn.Module, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, images: Tensor) -> Tensor:
        return self.call(images)


def _update(model: nn.Module, optimizer: torch.optim.Optimizer, cost: Callable[[], Tensor]) -> None:
    model.train()
    optimizer.zero_grad()
    loss = cost()
    loss.backward()
    optimizer.step()
    loss.item()


def ranking(z: Tensor, gallery: Tensor, target: Tensor, raise_rank: bool) -> Tensor:
    """QA: the mean hinge over the gallery, query by query."""
    sign = 1 if raise_rank else -1
    total, ranks = z.new_zeros(()), []
    for query, aim in zip(z, target.tolist(), strict=True):
        apart = (query[None] - gallery).norm(dim=1)
        total = total + F.relu(sign * (apart[aim] - apart)).mean()
        ranks.append((apart < apart[aim]).sum().item())
    return total


def candidate(z: Tensor, gallery: Tensor, target: Tensor, raise_rank: bool) -> Tensor:
    """CA: the same with the moved image as candidate of a fixed query."""
    sign = 1 if raise_rank else -1
    total, ranks = z.new_zeros(()), []
    for moved, aim in zip(z, target.tolist(), strict=True):
        query = gallery[aim]
        apart = (query[None] - gallery).norm(dim=1)
        own = (moved - query).norm()
        total = total + F.relu(sign * (own - apart)).mean()
        ranks.append((apart < own).sum().item())
    return total


def learning_to_misrank(z: Tensor, gallery: Tensor, labels: Tensor, gallery_labels: Tensor) -> Tensor:
    """LTM: farthest of another class against nearest of the own, query by query."""
    total = z.new_zeros(())
    for query, label in zip(z, labels.tolist(), strict=True):
        apart = (query[None] - gallery).norm(dim=1)
        same = gallery_labels == label
        total = total + F.relu(apart[~same].max() - apart[same].min())
    return total


def ers_attacks(
    model: nn.Module, images: Tensor, labels: Tensor, gallery: Tensor, gallery_labels: Tensor, steps: int = 32
) -> dict[str, float]:
    """The nine attacks behind ERS on one batch; seconds of each."""
    model.eval()
    with torch.no_grad():
        clean = model(images)
    target = torch.randint(len(gallery), (len(images),), device=images.device)
    aim = gallery[target]
    goals: dict[str, Loss] = {
        "ca+": lambda z: candidate(z, gallery, target, True),
        "ca-": lambda z: candidate(z, gallery, target, False),
        "qa+": lambda z: ranking(z, gallery, target, True),
        "qa-": lambda z: ranking(z, gallery, target, False),
        "tma": lambda z: (1 - (z * aim).sum(1)).sum(),
        "es": lambda z: -(z - clean + 1e-7).norm(dim=1).sum(),
        "ltm": lambda z: learning_to_misrank(z, gallery, labels, gallery_labels),
        "gtm": lambda z: (z - aim).norm(dim=1).sum(),
        "gtt": lambda z: ranking(z, gallery, target, False),
    }
    seconds = {}
    for name, loss in goals.items():
        start = time.perf_counter()
        craft(model, images, loss, 8 / 255, 3 / 255, steps)
        seconds[name] = time.perf_counter() - start  # the host has read every loss, so it has waited
    return seconds
