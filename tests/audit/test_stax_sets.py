"""The stax protocol on models that bring auxiliary BatchNorm sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast import attacks, audit, seeds
from holdfast.attacks import Budget, References, pgd
from holdfast.audit.sampling import balanced_rows
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import ModelError
from holdfast.models import Embedder, load_model
from holdfast.models.bank import BANK_FILE, SetStart
from holdfast.view import View

LIMIT = 24


@pytest.fixture
def table(table: ImageTable) -> ImageTable:
    """A dozen characters: what is asked here is which set a figure went through, not how good it is."""
    return table.subset(np.isin(table.labels, np.unique(table.labels)[:12]))


@pytest.fixture
def banked(model: Embedder) -> Embedder:
    """The audited model with two sets that see images rather differently."""
    for name in ("stax", "mtax"):
        model.bank.add(
            model.backbone, SetStart(name, noise=0.5), torch.Generator().manual_seed(len(name) + ord(name[0]))
        )
    return model.eval()


def screwed_in(model: Embedder, name: str) -> Embedder:
    """The network with a set in place of its own, for good."""
    made = Embedder("conv-tiny", dim=model.dim, size=model.size, canvas=model.size)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("bank.")}
    made.load_state_dict({**state, **{f"backbone.{k}": v for k, v in model.bank.tensors(name).items()}})
    return made.eval()


def test_figures_through_a_set_are_those_of_the_network_with_that_set(
    banked: Embedder, table: ImageTable, tmp_path: Path
) -> None:
    banked.save_pretrained(tmp_path / "package")
    document = audit.run(str(tmp_path / "package"), table, protocol="stax", limit=LIMIT, seed=2).document
    test = table.split("test")
    labels = torch.tensor(test.labels)
    rows = balanced_rows(labels, LIMIT, 2)
    images = ImageStore(test, View(banked.size), "cpu").inputs(torch.arange(len(test)))
    budget = Budget(eps=0.005, step=0.00025, steps=20, start="uniform", start_radius=0.00025)
    for name in ("stax", "mtax"):
        network = screwed_in(banked, name)
        with torch.no_grad():
            vectors = network(images)
        goal = attacks.build("single-target").bind(
            References(vectors, labels), rows, seeds.generator(2, "targets", "stax")
        )
        moved = pgd(network, images[rows], goal, budget, generator=seeds.generator(2, "start", "stax", 0)).vectors
        for queries, key in ((vectors[rows], f"set/{name}/R@1"), (moved, f"set/{name}/stax/R@1")):
            similar = queries @ vectors.T
            similar[torch.arange(LIMIT), rows] = -2
            hits = (labels[similar.argmax(1)] == labels[rows]).double().mean()
            assert document["metrics"][key] == pytest.approx(100 * float(hits)), key
            low, high = document["intervals"][key]
            assert low <= document["metrics"][key] <= high
    assert document["metrics"]["set/stax/R@1"] != document["metrics"]["R@1"]


def test_what_a_model_scores_does_not_depend_on_its_sets(banked: Embedder, table: ImageTable, tmp_path: Path) -> None:
    banked.save_pretrained(tmp_path / "package")
    with_sets = audit.run(str(tmp_path / "package"), table, protocol="stax", limit=LIMIT).document
    (tmp_path / "package" / BANK_FILE).unlink()
    without = audit.run(str(tmp_path / "package"), table, protocol="stax", limit=LIMIT).document
    extra = {f"set/{s}/{k}" for s in ("stax", "mtax") for k in ("R@1", "R@4", "stax/R@1", "stax/R@4")}
    assert with_sets["metrics"].keys() - without["metrics"].keys() == extra
    assert {k: v for k, v in with_sets["metrics"].items() if k not in extra} == without["metrics"]
    assert not any(key.startswith("set/") for key in without["seconds"])


def test_one_kind_of_input_alone_has_the_same_figures(banked: Embedder, table: ImageTable) -> None:
    whole, part = (
        audit.run(banked, table, protocol={"name": "stax", **settings}, limit=LIMIT).document["metrics"]
        for settings in ({}, {"only": ["stax"]})
    )
    assert part == {key: whole[key] for key in part}
    assert {key.partition("/")[0] for key in part if "/" in key} == {"stax"}


def test_in_replaced_mode_an_audit_depends_on_the_sets(banked: Embedder, table: ImageTable, tmp_path: Path) -> None:
    arguments = {"protocol": {"name": "stax", "mode": "replaced"}, "limit": LIMIT, "out": tmp_path}
    first = audit.run(banked, table, **arguments).document  # type: ignore[arg-type]
    with torch.no_grad():
        banked.bank.sets["stax"][0].weight.mul_(-1)  # type: ignore[index, union-attr, operator]
    other = audit.run(banked, table, **arguments).document  # type: ignore[arg-type]
    assert other["identity"] != first["identity"]
    changed = {key for key, value in first["metrics"].items() if other["metrics"][key] != value}
    assert changed
    assert all(key.startswith("set/stax/") for key in changed)


def test_other_protocols_leave_sets_alone(banked: Embedder, table: ImageTable, tmp_path: Path) -> None:
    with_sets = audit.run(banked, table, protocol="adml", limit=16, out=tmp_path / "with").document
    for name in banked.bank.names():
        del banked.bank.sets[name]
    without = audit.run(banked, table, protocol="adml", limit=16, out=tmp_path / "without").document
    assert with_sets["metrics"] == without["metrics"]
    assert with_sets["identity"] == without["identity"]


def test_sets_are_read_only_where_they_are_asked_for(banked: Embedder, tmp_path: Path) -> None:
    banked.save_pretrained(tmp_path / "package")
    assert len(load_model(str(tmp_path / "package")).bank) == 0
    found = load_model(str(tmp_path / "package"), sets=True)
    assert sorted(found.bank.names()) == ["mtax", "stax"]
    images = torch.rand(4, 3, banked.size, banked.size)
    for name in ("clean", "stax", "mtax"):
        assert torch.equal(found(images, distribution=name), banked(images, distribution=name))


def test_a_damaged_file_of_sets_is_one_line(banked: Embedder, table: ImageTable, tmp_path: Path) -> None:
    banked.save_pretrained(tmp_path / "package")
    (tmp_path / "package" / BANK_FILE).write_bytes(b"junk")
    with pytest.raises(ModelError, match="does not fit its model") as caught:
        audit.run(str(tmp_path / "package"), table, protocol="stax", limit=LIMIT)
    assert "\n" not in str(caught.value)
    audit.run(str(tmp_path / "package"), table, protocol="ers", limit=4)
