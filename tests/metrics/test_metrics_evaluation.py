from __future__ import annotations

import json

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from holdfast import metrics
from holdfast.errors import DataError
from holdfast.metrics import EmbeddedSet, Metric, Values
from holdfast.metrics.base import registry

GEOMETRY = {
    *("pi_intra", "pi_inter", "pi_ratio", "distance_positive", "distance_negative", "distance_all"),
    *("energy_0", "energy_1", "gaussian_energy", "effective_rank", "collapsed"),
}
HARDNESS = {f"hardness/{name}" for name in ("random", "semihard", "softhard", "distance", "hardest")}
RANKING = {"R@1", "R@2", "R@4", "R@8", "mAP", "mAP@R", "mAP@C"}


def sample(count: int = 120, classes: int = 6) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, 8, generator=generator)
    return normalize(centres[labels] + torch.randn(count, 8, generator=generator), dim=1), labels


def test_every_family_is_listed_and_built_by_name() -> None:
    assert {"clustering", "geometry", "hardness", "retrieval"} <= set(metrics.names())
    vectors, labels = sample()
    built = metrics.build("retrieval", ks=[1, 3])
    assert built(EmbeddedSet.of(vectors, labels)) == metrics.retrieval(vectors, labels, (1, 3))


def test_everything_in_one_call_for_both_labellings() -> None:
    vectors, labels = sample()
    found = metrics.evaluate(vectors, labels, coarse=labels % 2, seed=5)
    fine = RANKING | GEOMETRY | HARDNESS | {"NMI", "NMI+"}
    assert set(found.values) == fine | {f"coarse/{key}" for key in fine}
    assert found.reasons == {}
    expected = {
        **metrics.retrieval(vectors, labels),
        **metrics.clustering(vectors, labels, seed=5),
        **metrics.geometry(vectors, labels, seed=5),
        **metrics.hardness(vectors, labels, seed=5),
    }
    assert {key: found.values[key] for key in fine} == expected
    assert found.values["coarse/R@1"] == metrics.retrieval(vectors, labels % 2)["R@1"]
    json.dumps(found.values)


def test_settings_reach_the_metrics_that_have_them() -> None:
    vectors, labels = sample()
    found = metrics.evaluate(vectors, labels, coarse=labels % 2, ks=(1, 10), clusters=4, factor=2, seed=1).values
    assert "R@10" in found
    assert "R@2" not in found
    clustering = metrics.clustering(vectors, labels, clusters=4, factor=2, seed=1)
    assert {key: found[key] for key in clustering} == clustering
    assert found["coarse/NMI"] == metrics.clustering(vectors, labels % 2, seed=1)["NMI"]


def test_gallery_and_groups() -> None:
    vectors, labels = sample()
    cameras = torch.arange(len(labels)) % 5
    found = metrics.evaluate(
        vectors[:40],
        labels[:40],
        coarse=labels[:40] % 2,
        gallery=vectors[40:],
        gallery_labels=labels[40:],
        gallery_coarse=labels[40:] % 2,
        groups=cameras[:40],
        gallery_groups=cameras[40:],
    ).values
    ranking = metrics.retrieval(
        vectors[:40],
        labels[:40],
        gallery=vectors[40:],
        gallery_labels=labels[40:],
        groups=cameras[:40],
        gallery_groups=cameras[40:],
    )
    assert {key: found[key] for key in ranking} == ranking
    whole = metrics.clustering(vectors, labels)
    assert {key: found[key] for key in whole} == whole
    assert found["coarse/pi_intra"] == pytest.approx(metrics.geometry(vectors, labels % 2)["pi_intra"])


def test_what_is_undefined_has_a_reason_and_no_number() -> None:
    found = metrics.evaluate(torch.eye(4), torch.arange(4))
    empty = {key for key, value in found.values.items() if value is None}
    assert set(found.reasons) == empty
    assert empty >= RANKING | HARDNESS | {"NMI+", "pi_intra", "pi_ratio", "distance_positive"}
    assert found.values["distance_all"] == pytest.approx(2**0.5)


def test_one_image_is_measured_without_a_crash() -> None:
    found = metrics.evaluate(torch.eye(1, 3), torch.zeros(1, dtype=torch.int64))
    assert {key for key, value in found.values.items() if value is not None} == {"effective_rank"}


def test_a_new_metric_joins_by_registering(monkeypatch: pytest.MonkeyPatch) -> None:
    class Count(Metric):
        def __init__(self, seed: int = 0) -> None:
            self.seed = seed

        def __call__(self, data: EmbeddedSet) -> Values:
            values = Values()
            values["images"] = float(len(data.labels) + self.seed)
            return values

    registry.names()
    monkeypatch.setitem(registry._members, "count", Count)
    vectors, labels = sample()
    assert metrics.evaluate(vectors, labels, seed=1000).values["images"] == 1120


def test_coarse_labels_of_the_gallery_are_needed() -> None:
    vectors, labels = sample()
    with pytest.raises(DataError, match="gallery_coarse"):
        metrics.evaluate(vectors, labels, coarse=labels, gallery=vectors, gallery_labels=labels)


def test_arrays_and_lists_will_do() -> None:
    vectors, labels = sample(40)
    expected = metrics.evaluate(vectors, labels, coarse=labels % 2)
    array, classes = vectors.numpy(), labels.numpy()
    fixed = array.copy()
    fixed.flags.writeable = False
    assert metrics.evaluate(fixed, classes, coarse=(labels % 2).tolist()) == expected
    given = (vectors.tolist(), labels.tolist())
    assert metrics.retrieval(*given)["R@1"] == expected.values["R@1"]
    assert metrics.clustering(array, classes)["NMI"] == expected.values["NMI"]
    assert metrics.geometry(array[::-1], classes[::-1])["pi_ratio"] == pytest.approx(expected.values["pi_ratio"])
    with pytest.raises(DataError, match="rows of one length"):
        metrics.retrieval([[1.0, 2.0], [3.0]], [0, 1])
    with pytest.raises(DataError, match="labels must be a tensor"):
        metrics.retrieval(array[:2], ["cat", "dog"])
