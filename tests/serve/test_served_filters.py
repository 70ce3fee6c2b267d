"""Searches of a part of an index, and of one that lies in Milvus."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from served import COUNT, ask, png, served

from holdfast.errors import SearchError
from holdfast.search import Filter, MemoryIndex, Searcher, SearchResult, create_index, read_index
from holdfast.search.flat import Vectors
from holdfast.serve import GalleryImages, Service
from index_cases import picture_table, pictures, small_model


def test_a_search_of_a_class_marks_as_one_of_all(service: Service) -> None:
    images = [png(picture) for picture in pictures(6, seed=5)]
    with served(service) as port:
        for image in images:
            whole = ask(port, "/search?k=100", image).json
            for wanted in (["class 1"], ["class 1", "class 3"], ["nothing of mine"]):
                part = ask(port, "/search?k=9" + "".join(f"&label={quote(name)}" for name in wanted), image).json
                assert part["matches"] == [m for m in whole["matches"] if m["label"] in wanted][:9]
                assert {**part, "matches": []} == {**whole, "matches": []}
            assert ask(port, "/search?group=none", image).json["matches"] == []
        attacked = ask(port, "/attack?k=3&label=class%202", images[0]).json
        assert {match["label"] for match in attacked["matches"]} == {"class 2"}


def test_requests_of_several_filters_are_computed_together(service: Service) -> None:
    from holdfast.serve.service import SearchReply, SearchRequest

    filters = [Filter(), Filter(("class 1",)), Filter(("class 2",)), Filter(), Filter(("class 1",))]
    asked = [SearchRequest(picture, 2 + row, filters[row]) for row, picture in enumerate(pictures(5, seed=6))]
    for one, found in zip(asked, service.compute(asked), strict=True):
        (alone,) = service.compute([one])
        assert isinstance(found, SearchReply)
        assert isinstance(alone, SearchReply)
        assert found.answer is not None
        assert [m.id for m in found.answer.matches] == [m.id for m in alone.answer.matches]  # type: ignore[union-attr]
        assert len(found.answer.matches) == one.k


def test_a_filter_that_cannot_be_answered_spoils_no_other(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.serve.service import SearchReply, SearchRequest

    real, odd = MemoryIndex._nearest, Filter(("odd",))

    def nearest(index: MemoryIndex, queries: Vectors, k: int, where: Filter) -> SearchResult:
        if where == odd:
            raise SearchError("too odd")
        return real(index, queries, k, where)

    monkeypatch.setattr(MemoryIndex, "_nearest", nearest)
    one, other, third = service.compute(
        [
            SearchRequest(picture, 3, where)
            for picture, where in zip(pictures(3), (Filter(), odd, Filter()), strict=True)
        ]
    )
    assert isinstance(one, SearchReply)
    assert isinstance(other, SearchError)
    assert isinstance(third, SearchReply)
    with pytest.raises(SearchError, match="too odd"):
        service.attack(pictures(1)[0], 8 / 255, 3, odd)


def test_an_index_in_milvus_is_served_like_another(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("milvus_lite", reason="pip install 'holdfast[milvus]'")
    from holdfast.search.collection import Collection

    table, place = picture_table(pictures(COUNT)), str(tmp_path / "secret-place.db")
    create_index(tmp_path / "far.index", small_model(), table, kind="milvus", milvus=place, thresholds=((0.01, 0.3),))
    searcher = Searcher(read_index(tmp_path / "far.index", milvus=place), false_alarms=0.02)
    far, image = Service(searcher, small_model()), png(pictures(1, seed=5)[0])
    gallery = GalleryImages(table, service.model.view)
    with served({"far": far, "near": service}, gallery=gallery) as port:
        found, expected = (ask(port, f"/search?k=5&index={name}", image).json for name in ("far", "near"))
        assert [match["id"] for match in found["matches"]] == [match["id"] for match in expected["matches"]]
        assert (found["tampered"], found["threshold"]) == (expected["tampered"], expected["threshold"])
        assert {about["kind"] for about in ask(port, "/health").json["indexes"]} == {"milvus", "flat"}
        assert len(ask(port, "/samples").json["samples"]) == 12

        odd = ask(port, "/search?index=far&label=%01", image)
        assert (odd.status, odd.json["matches"]) == (200, [])

        def gone(*_: object) -> None:
            raise SearchError(f"Milvus at {place} says: gone")

        monkeypatch.setattr(Collection, "nearest", gone)
        reply = ask(port, "/search?index=far", image)
        assert (reply.status, reply.json) == (503, {"error": "the index cannot be reached; try again later"})
        assert ask(port, "/search?index=near", image).status == 200
        monkeypatch.undo()
        assert ask(port, "/search?index=far", image).status == 200
    assert "says: gone" in caplog.text
