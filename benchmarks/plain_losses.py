"""Losses in plain lines, as one would write them from the paper: what `benchmarks/losses.py` holds ours against."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus


def masks(y: Tensor) -> tuple[Tensor, Tensor]:
    same = y[:, None] == y
    return same & ~torch.eye(len(y), dtype=torch.bool), ~same


def triplets(y: Tensor) -> Tensor:
    pos, neg = masks(y)
    return pos[:, :, None] & neg[:, None, :]


def squared(z: Tensor) -> Tensor:
    return (z.square().sum(1)[:, None] + z.square().sum(1) - 2 * z @ z.T).clamp_min(0)


def contrastive(z: Tensor, y: Tensor) -> Tensor:
    d, (pos, neg) = squared(z), masks(y)
    pull, push = d[pos], (1 - d[neg]).relu()
    return pull.sum() / (pull > 0).sum().clamp_min(1) + push.sum() / (push > 0).sum().clamp_min(1)


def triplet(z: Tensor, y: Tensor) -> Tensor:
    d = torch.cdist(z, z)
    return (d[:, :, None] - d[:, None, :] + 0.2).relu()[triplets(y)].mean()


def triplet_nonzero(z: Tensor, y: Tensor) -> Tensor:
    d = torch.cdist(z, z)
    hinge = (d[:, :, None] - d[:, None, :] + 0.2).relu()[triplets(y)]
    return hinge.sum() / (hinge > 0).sum().clamp_min(1)


def linear(z: Tensor, y: Tensor) -> Tensor:
    d = squared(z)
    return (d[:, :, None] - d[:, None, :])[triplets(y)].mean()


def triplet_cosine(z: Tensor, y: Tensor) -> Tensor:
    s = z @ z.T
    return softplus(s[:, None, :] - s[:, :, None])[triplets(y)].mean()


def sct(z: Tensor, y: Tensor) -> Tensor:
    s = z @ z.T
    pos, neg = s[:, :, None], s[:, None, :]
    return torch.where(neg > pos, neg, softplus(neg - pos))[triplets(y)].mean()


def margin(z: Tensor, y: Tensor) -> Tensor:
    d = torch.cdist(z, z)
    hinges = ((d - 1.2 + 0.2).relu()[:, :, None] + (1.2 - d + 0.2).relu()[:, None, :])[triplets(y)]
    return hinges.sum() / (hinges > 0).sum().clamp_min(1)


def soft(values: Tensor, mask: Tensor) -> Tensor:
    return values.masked_fill(~mask, -torch.inf).logsumexp(1)


def multi_similarity(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T, masks(y)
    return (softplus(soft(-2 * (s - 0.5), pos)) / 2 + softplus(soft(40 * (s - 0.5), neg)) / 40).mean()


def multi_similarity_mined(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T, masks(y)
    top = s.detach().masked_fill(~neg, -torch.inf).amax(1, keepdim=True)
    low = s.detach().masked_fill(~pos, torch.inf).amin(1, keepdim=True)
    pull, push = soft(-2 * (s - 0.5), pos & (s - 0.1 < top)), soft(40 * (s - 0.5), neg & (s + 0.1 > low))
    return (softplus(pull.clamp_min(-1e9)) / 2 + softplus(push.clamp_min(-1e9)) / 40).mean()


def binomial_deviance(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T, masks(y)
    pull = (softplus(-2 * (s - 0.5)) / 2 * pos).sum(1) / pos.sum(1)
    push = (softplus(10 * (s - 0.5)) / 10 * neg).sum(1) / neg.sum(1)
    return (pull + push).mean()


def lifted_structure(z: Tensor, y: Tensor) -> Tensor:
    d, (pos, neg) = torch.cdist(z, z), masks(y)
    push = soft(1 - d, neg)
    return ((d + torch.logaddexp(push[:, None], push)).relu()[pos].square() / 2).mean()


def circle(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T, masks(y)
    pull = -80 * (1.4 - s.detach()).relu() * (s - 0.6)
    push = 80 * (s.detach() + 0.4).relu() * (s - 0.4)
    return softplus(soft(pull, pos) + soft(push, neg)).mean()


def n_pair(z: Tensor, y: Tensor) -> Tensor:
    order = y.argsort(stable=True)
    first = torch.cat([y.new_ones(1, dtype=torch.bool), y[order][1:] != y[order][:-1]]).nonzero().squeeze(1)
    return cross_entropy(z[order[first]] @ z[order[first + 1]].T, torch.arange(len(first)))


def info_nce(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T / 0.07, masks(y)
    return softplus(soft(s, neg)[:, None] - s)[pos].mean()


def sup_con(z: Tensor, y: Tensor) -> Tensor:
    s, (pos, neg) = z @ z.T / 0.1, masks(y)
    return (soft(s, pos | neg) - (s * pos).sum(1) / pos.sum(1)).mean()
