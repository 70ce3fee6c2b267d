"""A bar from 0 to 100 with its interval."""

from __future__ import annotations

from markupsafe import Markup

from holdfast.report.formatting import with_interval


def meter(value: float, interval: tuple[float, float] | None, what: str, kind: str = "meter") -> Markup:
    """A value on a rail.

    Args:
        value: from 0 to 100; beyond, drawn at the end.
        interval: of the value, drawn across the bar.
        what: is measured, for those who cannot see it.
        kind: CSS class: `meter` in a tile, `bar` in a list.
    """
    marks = Markup('<rect class="rail" width="100%" height="100%" rx="4"/>')
    marks += Markup('<rect class="fill" width="{:.2f}%" height="100%" rx="4"/>').format(_clip(value))
    if interval is not None and kind == "bar":
        low, high = (_clip(end) for end in interval)
        marks += Markup('<line class="whisker" x1="{:.2f}%" x2="{:.2f}%" y1="50%" y2="50%"/>').format(low, high)
        for end in (low, high):
            marks += Markup('<line class="whisker" x1="{0:.2f}%" x2="{0:.2f}%" y1="22%" y2="78%"/>').format(end)
    title = f"{what}: {with_interval(value, interval)} of 100"
    return Markup('<svg class="{}" role="img"><title>{}</title>{}</svg>').format(kind, title, marks)


def _clip(value: float) -> float:
    return min(100.0, max(0.0, value))
