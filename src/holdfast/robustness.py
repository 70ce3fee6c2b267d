"""What audits found of robustness, and whether it can be trusted: read from files, without torch and without trust."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from holdfast.run_files import block, blocks, finite

Audit = TypeVar("Audit", bound=Mapping[str, Any])
ROBUST = "robust R@1"
ENTERS, LEAVES = "gallery enters@", "gallery leaves@"
"""What figures of one changed gallery image begin with, percent of (query, candidate) pairs; how many are first ends
them, ten but in small galleries."""
NATURAL = "natural R@1"


@dataclasses.dataclass(frozen=True)
class Robustness:
    """R@1 of the same queries without an attack and under the worst of many.

    Args:
        clean: percent that find their class as they are.
        robust: percent that do so whatever the attack.
        ends: the 95 % interval of `robust`, if there is one.
        eps: the most that an attack may change, in pixel units.
        norm: how that is measured, `linf` or `l2`.
        queries: how many were attacked.
        doubts: why the audit is not to be trusted, in words; empty where nothing says so.
    """

    clean: float
    robust: float
    ends: tuple[float, float] | None
    eps: float
    norm: str
    queries: int
    doubts: tuple[str, ...] = ()

    @property
    def doubted(self) -> bool:
        """Whether the true figure may be lower; below none there is nothing."""
        return bool(self.doubts) and self.robust > 0

    @property
    def change(self) -> str:
        """What an attacker may do: `every pixel may change by up to 8/255`."""
        if self.norm == "linf":
            return f"every pixel may change by up to {255 * self.eps:.3g}/255"
        return f"the pixels together may change by up to {self.eps:.3g} ({self.norm})"

    def __str__(self) -> str:
        ends = f" ({_plain(self.ends[0])} to {_plain(self.ends[1])})" if self.ends else ""
        found = f"of 100 searches {_plain(self.clean)} find their class; {_plain(self.robust)}{ends} still do when"
        return f"{found} {self.change}"


def robustness(audit: Mapping[str, Any]) -> Robustness | None:
    """Robust R@1 of an audit; None of one that did not measure it, such as those of schema 1."""
    metrics, told, ends = block(audit, "metrics"), block(audit, "robust"), block(audit, "intervals").get(ROBUST)
    clean, robust, eps = finite(metrics.get("R@1")), finite(metrics.get(ROBUST)), finite(told.get("eps"))
    queries, norm = finite(told.get("queries")), told.get("norm")
    if clean is None or robust is None or eps is None or queries is None or norm not in ("linf", "l2"):
        return None
    known = [end for end in map(finite, ends) if end is not None] if isinstance(ends, list) else []
    interval = (known[0], known[1]) if len(known) == 2 else None
    return Robustness(clean, robust, interval, eps, str(norm), int(queries), doubts(audit))


def worst_case(audits: Iterable[Audit]) -> tuple[Audit, Robustness] | None:
    """The first of these audits that measured robust R@1, with what it found."""
    found = ((audit, robustness(audit)) for audit in audits)
    return next(((audit, known) for audit, known in found if known is not None), None)


def of_ensemble(key: str) -> bool:
    """Whether a figure is one of those that every protocol reports alike."""
    return key == ROBUST or key.startswith((ENTERS, LEAVES))


def doubts(audit: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the figures of an audit are not to be trusted: what each of its errors says."""
    told = (flag for flag in blocks(audit, "flags") if flag.get("level") == "error")
    return tuple(f"{flag.get('name')}: {flag.get('why')}" for flag in told)


def excerpt(audits: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What an index keeps of the audits of its model, as a small audit; empty where none measured robust R@1."""
    listed = list(audits)
    found = worst_case(listed)
    if found is None:
        return {}
    audit, worst = found
    everyday = next((v for other in listed if (v := finite(block(other, "metrics").get(NATURAL))) is not None), None)
    return {
        "metrics": {"R@1": worst.clean, ROBUST: worst.robust} | ({} if everyday is None else {NATURAL: everyday}),
        "intervals": {ROBUST: list(worst.ends)} if worst.ends else {},
        "robust": {"eps": worst.eps, "norm": worst.norm, "queries": worst.queries},
        "flags": [flag for flag in blocks(audit, "flags") if flag.get("level") == "error"],
    }


def what_no_mark_means(kept: Mapping[str, Any], checked: bool = True) -> str:
    """How far an attacker gets with a query that bears no mark, by the audit of the model; empty where none is known.

    Args:
        kept: what `excerpt` gave; it may be a stranger's.
        checked: whether queries could bear marks at all.
    """
    worst, everyday = robustness(kept), finite(block(kept, "metrics").get(NATURAL))
    if worst is None:
        return ""
    doubt = f" (not to be trusted: {'; '.join(worst.doubts)})" if worst.doubted else ""
    damage = "" if everyday is None else f", and {_plain(everyday)} after everyday damage"
    changed = "a query without a mark may still be changed" if checked else "a query may have been changed"
    return f"{changed}; by the model's audit, {worst}{doubt}{damage}"


def _plain(value: float) -> str:
    """`84` or `3.5`."""
    return f"{value:.1f}".removesuffix(".0")
