"""Indexes in Milvus: embedded in a file, and of a server."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.errors import SearchError
from holdfast.search import Filter, Index, Searcher, add_images, create_index, read_index, read_manifest
from holdfast.search.collection import Collection, check_place, name_for
from holdfast.search.milvus import MilvusIndex
from index_cases import images_of, picture_table, pictures, small_model, unit_vectors
from meeting import free_port

pytest.importorskip("milvus_lite", reason="pip install 'holdfast[milvus]'")


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "milvus.db")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model().save_pretrained(tmp_path / "net")
    return tmp_path / "net"


def made(folder: Path, place: str, count: int = 30, **options: Any) -> Index:
    table = picture_table(pictures(count))
    return create_index(folder, small_model(), table, kind="milvus", milvus=place, **options)[0]


def collection_of(index: Index) -> Collection:
    assert isinstance(index, MilvusIndex)
    return index.collection


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Milvus that answers at an address."""
    port = free_port()
    words = ["-c", "from milvus_lite.cmdline import main; main()", "server", "--port", str(port), "--data-dir"]
    running = subprocess.Popen(
        [sys.executable, *words, str(tmp_path_factory.mktemp("milvus"))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    running.kill()
    running.wait()


def reached(address: str) -> str:
    """The address, once somebody answers there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            len(Collection(address, "nothing", 8))
        except SearchError as error:
            if "does not exist" in str(error) or "not found" in str(error):
                return address
            time.sleep(0.2)
    raise AssertionError("no Milvus answers")


@pytest.mark.parametrize("where", ["file", "address"])
def test_answers_are_those_of_a_flat_index(
    where: str, place: str, address: str, model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = place if where == "file" else reached(address)
    rows = [(file, file.parent.name, f"camera {n % 3}") for n, file in enumerate(sorted(photos.rglob("*.png")))]
    table = tmp_path / "photos.csv"
    table.write_text("path,label,group\n" + "".join(f"{file},{label},{group}\n" for file, label, group in rows))
    verification = tmp_path / "verification.json"
    verification.write_text(json.dumps({"thresholds": [{"far": 0.01, "threshold": 0.01}]}))
    flat, far = tmp_path / "flat.index", tmp_path / f"{where}.index"
    for folder, more in ((flat, ()), (far, ("--kind", "milvus", "--milvus", at))):
        assert run("index", model, "--data", f"csv:{table}", "--out", folder, *more) == 0
        milvus = more[2:]
        assert run("index", folder, "--add", f"images:{photos / 'class-1'}", "--prefix", "new/", *milvus) == 0
    asked = ["--data", f"folder:{photos}", "-k", 4, "--json", "--false-alarms", 0.05, "--verification", verification]
    for filters in ([], ["--label", "class-1", "class-2"], ["--group", "camera 1", "--label", "class-3"]):
        capsys.readouterr()
        answers = []
        for folder, more in ((flat, ()), (far, ("--milvus", at))):
            assert run("search", folder, *asked, *filters, *more) == 0
            answers.append(json.loads(capsys.readouterr().out)["answers"])
        assert {match["same"] for answer in answers[0] for match in answer["matches"]} == {True, False}
        for found, expected in zip(*answers, strict=True):
            assert found.pop("matches") == [
                {**match, "distance": pytest.approx(match["distance"], abs=1e-5)} for match in expected.pop("matches")
            ]
            assert found == expected


def test_a_folder_alone_leads_nowhere(
    place: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "far.index", place)
    query = photos / "class-0" / "0.png"
    for words in (["search", "--query", query], ["serve"], ["index", "--add", f"images:{photos}"]):
        assert run(words[0], tmp_path / "far.index", *words[1:]) == 2
        said = capsys.readouterr().err
        assert "last at milvus.db; if you trust it: --milvus milvus.db" in said
        assert str(tmp_path) not in said
    assert str(tmp_path) not in (tmp_path / "far.index" / "manifest.json").read_text()


def test_adding_is_block_by_block_and_skips_what_is_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MilvusIndex, "block", 7)
    first = made(tmp_path / "far.index", place, 25, calibrate=10)
    pixels = pictures(40)
    pixels[3] = 255 - pixels[3]
    index, added = add_images(tmp_path / "far.index", picture_table(pixels), milvus=place)
    assert (added.added, added.replaced, added.unchanged) == (15, 1, 24)
    assert (len(index), len(first), len(index.clean)) == (40, 40, 26)
    again = read_index(tmp_path / "far.index", milvus=place)
    np.testing.assert_array_equal(again.clean, index.clean)
    assert read_manifest(tmp_path / "far.index")["images"] == 40
    _, nothing = add_images(tmp_path / "far.index", picture_table(pixels), milvus=place)
    assert (nothing.added, nothing.replaced, nothing.unchanged) == (0, 0, 40)


FILL = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from holdfast.search.collection import Collection
from holdfast.search.milvus import MilvusIndex
from test_milvus import made
MilvusIndex.block = 8
put = Collection.put
def dying(self, vectors, images):
    put(self, vectors, images)
    if "picture-20" in images.ids:
        os.kill(os.getpid(), signal.SIGKILL)
Collection.put = dying
made(Path({folder!r}), {place!r}, calibrate=20)
"""


def test_a_killed_filling_goes_on_where_it_stopped(place: str, tmp_path: Path) -> None:
    folder, tests = tmp_path / "far.index", str(Path(__file__).parent)
    script = FILL.format(tests=tests, folder=str(folder), place=place)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    killed = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    begun = read_index(folder, milvus=place)
    assert (len(begun), begun.unfinished) == (24, 20)
    with pytest.raises(SearchError, match="not whole yet; go on with `holdfast index FOLDER --add DATA`"):
        Searcher(begun)
    whole, added = add_images(folder, picture_table(pictures(30)), milvus=place)
    assert (added.added, added.unchanged) == (6, 24)
    assert (len(whole), whole.unfinished, len(whole.clean)) == (30, None, 20)
    Searcher(read_index(folder, milvus=place))
    expected = made(tmp_path / "other.index", place, calibrate=20)
    np.testing.assert_allclose(whole.clean, expected.clean, atol=1e-5)


def test_words_come_back_as_they_went(place: str, tmp_path: Path) -> None:
    odd = ["a'b", 'a"b', "back\\slash", "ünï©ode 漢", "new\nline", "tab\t", "\r\x7f", "%$&{}[]", " "]
    images = dataclasses.replace(images_of(len(odd)), ids=odd, labels=odd[::-1], groups=odd)
    index = made(tmp_path / "far.index", place)
    index.extended(unit_vectors(len(odd), 8), images)
    assert index.known(odd) == {name: images[row] for row, name in enumerate(odd)}
    for word in odd:
        found = index.search(unit_vectors(1, 8, 3), 50, where=Filter(labels=(word,)))
        assert {found.images.labels[row] for row in found.rows[0] if row >= 0} == {word}
    for word in ("caf\udce9", "a\x01b", "\b", "\0"):
        with pytest.raises(SearchError, match="cannot hold the name or label"):
            index.extended(unit_vectors(1, 8), dataclasses.replace(images_of(1), ids=[word]))
        assert index.known([word]) == {}
        nothing = index.search(unit_vectors(2, 8, 3), 5, where=Filter(labels=(word,), groups=("a'b",)))
        assert (nothing.rows < 0).all()


def test_what_milvus_says_is_not_trusted(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = made(tmp_path / "far.index", place)
    call, query = Collection._call, unit_vectors(1, 8)

    def answering(change: Any) -> None:
        def changed(self: Collection, name: str, **arguments: Any) -> Any:
            rows = call(self, name, **arguments)
            return [[change({**hit, "entity": dict(hit["entity"])}) for hit in hits] for hits in rows]

        monkeypatch.setattr(Collection, "_call", changed)

    for field, value in (
        ("vector", [1.0]),
        ("vector", ["x"] * 8),
        ("vector", [float("nan")] * 8),
        ("vector", None),
        ("fingerprint", "zz"),
        ("fingerprint", None),
        ("label", 3),
    ):
        answering(lambda hit, field=field, value=value: hit | {"entity": hit["entity"] | {field: value}})
        with pytest.raises(SearchError, match="did not put there"):
            index.search(query, 3)
    answering(lambda hit: hit | {"id": None})
    with pytest.raises(SearchError, match="did not put there"):
        index.search(query, 3)


def test_what_is_wrong_is_said_in_one_line(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "far.index"
    index = made(folder, place)
    collection = collection_of(index)
    with pytest.raises(SearchError, match="is there already; add"):
        made(folder, place)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(SearchError, match=f"holds a collection {collection.name} already; give another --out"):
        made(tmp_path / "elsewhere" / "far.index", place)
    with pytest.raises(SearchError, match=r"there is no .*other\.db"):
        read_index(folder, milvus=str(tmp_path / "other.db"))
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(SearchError, match="at most 16,384 neighbours"):
        index.search(unit_vectors(1, 8), 20_000)
    Collection(place, "holdfast_other", 3).create()
    manifest = read_manifest(folder)
    for name, said in (("holdfast_other", "no vectors of 8 dims"), ("nothing", "holds no collection nothing")):
        wrong = {**manifest, "milvus": {**manifest["milvus"], "collection": name}}
        with pytest.raises(SearchError, match=said):
            read_index(folder, wrong, place)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "milvus": {"collection": "no; name"}}))
    with pytest.raises(SearchError, match="names no collection"):
        read_manifest(folder)
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(SearchError, match=r"pip install 'holdfast\[milvus\]'"):
        len(Collection(place, "any", 8))


@pytest.mark.parametrize(
    "wrong", ["milvus", "milvus.sqlite", "ftp://host", "http://", "http://user:word@host", "http://a b", "no/such/x.db"]
)
def test_a_place_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(SearchError):
        check_place(wrong)


def test_options_that_do_nothing_are_refused(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = ["index", model, "--data", f"folder:{photos}", "--out", tmp_path / "i"]
    assert run(*index, "--kind", "milvus") == 2
    assert "say where Milvus is" in capsys.readouterr().err
    assert run(*index, "--milvus", "m.db") == 2
    assert "--milvus has no effect on an index of kind flat" in capsys.readouterr().err
    assert run(*index) == 0
    assert run("search", tmp_path / "i", "--data", f"folder:{photos}", "--milvus", "m.db") == 2
    assert "the vectors are inside the index" in capsys.readouterr().err
    assert not (tmp_path / "m.db").exists()


def test_nobody_at_an_address_and_a_file_in_use(place: str, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"Milvus at http://127.0.0.1:\d+ says: .*; check --milvus and MILVUS_TOKEN"):
        len(Collection(f"http://127.0.0.1:{free_port()}", "any", 8))
    made(tmp_path / "far.index", place)
    script = f"from holdfast.search.collection import Collection; len(Collection({place!r}, 'any', 8))"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "if another process has it open, stop that one" in other.stderr.splitlines()[-1]


def test_a_server_gets_the_token_and_a_file_none(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pymilvus

    given = []
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda **settings: given.append(settings))
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    for at in ("https://milvus.example:19530", place):
        assert Collection(at, "any", 8)._client is None
    assert [settings.get("token") for settings in given] == ["root:secret", None]


def test_a_collection_is_named_after_its_folder() -> None:
    assert name_for(Path("my photos (2).index"), "0123456789") == "holdfast_my_photos_2_01234567"
    assert name_for(Path("写真"), "0123456789") == "holdfast__01234567"


def test_folders_whose_names_read_alike_have_collections_of_their_own(place: str, tmp_path: Path) -> None:
    names = {
        collection_of(made(tmp_path / name, place, 12, calibrate=0)).name for name in ("写真", "画像", "a b", "a-b")
    }
    assert len(names) == 4
