"""The pairs of classes that are most often taken for each other."""

from __future__ import annotations

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.recipe import block


def confusions(source: Source) -> Section:
    """Each pair with a picture of both."""
    if source.files.exhibits.get("confusions") == [] and "confusions" not in block(source.files.exhibits, "missing"):
        return Section("No query found a wrong class first", {"pairs": [], "words": True})
    listed = []
    for pair in source.exhibit("confusions"):
        pictures = [source.pictures.tag(picture) for picture in pair.get("pictures") or ()]
        listed.append(
            {
                "a": pair["a"],
                "b": pair["b"],
                "times": fmt.count(pair["times"]),
                "share": fmt.percent(pair.get("share")),
                "pictures": pictures if len(pictures) == 2 and all(pictures) else [],
            }
        )
    first = listed[0]
    title = f"Most often confused: {fmt.short(first['a'], 24)} is taken for {fmt.short(first['b'], 24)}"
    return Section(title, {"pairs": listed, "words": not any(pair["pictures"] for pair in listed)})
