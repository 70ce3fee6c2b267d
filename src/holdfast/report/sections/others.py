"""Audits of other protocols and modes, in one table."""

from __future__ import annotations

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Absent, Section, Source
from holdfast.report.sections.recipe import block

ATTACKS = {
    "triplet": "triplet attack: the wrong picture nearer than the right one",
    "alignment": "alignment attack: away from pictures of the own class",
    "uniformity": "uniformity attack: to where many others are",
    "stax": "imitates one other class",
    "mtax": "imitates several other classes",
    "stax-large": "imitates one other class, larger change",
    "mtax-large": "imitates several other classes, larger change",
}


def others(source: Source) -> Section:
    """R@1 that each attack of each other audit leaves."""
    rows = []
    for name, audit in source.files.audits.items():
        metrics, intervals = block(audit, "metrics"), block(audit, "intervals")
        for key, value in metrics.items():
            attack = _attack_of(str(key))
            if attack is not None:
                rows.append(
                    {
                        "file": name,
                        "protocol": f"{audit.get('protocol')}, {audit.get('mode')}",
                        "attack": ATTACKS.get(attack, attack),
                        "value": fmt.with_interval(value, intervals.get(key)),
                    }
                )
    if not rows:
        raise Absent("no other audit; `adml`, `stax` and `thorough` ask other questions")
    count = len(source.files.audits)
    return Section(f"{count} further {'audit asks' if count == 1 else 'audits ask'} other questions", {"rows": rows})


def _attack_of(key: str) -> str | None:
    """The attack a figure belongs to, if it is an R@1: `alignment/R@1`, `eps=1/255 R@1`, or the clean one."""
    if key == "R@1":
        return "no attack"
    if key.endswith("/R@1"):
        return key.removesuffix("/R@1")
    return f"worst of many attacks at {key.removesuffix(' R@1').removeprefix('eps=')}" if key.endswith(" R@1") else None
