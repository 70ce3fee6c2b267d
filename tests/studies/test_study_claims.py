"""Verdicts follow from results, and only from results."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast_studies import base
from holdfast_studies.claims import All, Beyond, Claim, Judged, Near, Ordered, joint
from holdfast_studies.declared import declared
from holdfast_studies.results import T95, Outcome, Results, SeedInterval, interval

NUMBER = st.floats(-100, 100)
SAMPLES = st.lists(NUMBER, min_size=1, max_size=12)
OPPOSITE = {"holds": "does not hold", "does not hold": "holds", "undecided": "undecided"}


def results(**arms: list[float]) -> Results:
    return Results(
        outcomes={
            arm: [Outcome(seed=seed, figures={"R@1": value}) for seed, value in enumerate(values)]
            for arm, values in arms.items()
        }
    )


ORDERED = Ordered(text="a above b", arms=("a", "b"))
NEAR = Near(text="a near b", arms=("a", "b"), within=2.0, noise=0.5)
ABOVE = Beyond(text="a is high", arm="a", figure="R@1", above=50.0)
BELOW = Beyond(text="a is low", arm="a", figure="R@1", below=50.0)
CASES: list[tuple[Claim, Results, Results]] = [
    (ORDERED, results(a=[60, 61, 62], b=[50, 51, 52]), results(a=[40, 41, 42], b=[50, 51, 52])),
    (ORDERED, results(a=[60], b=[50]), results(a=[60], b=[70])),
    (
        Ordered(text="a below b", arms=("a", "b"), smaller=True),
        results(a=[1, 2, 3], b=[5, 6, 7.1]),
        results(a=[9, 9, 9], b=[5, 6, 7.1]),
    ),
    (
        Ordered(text="by 5", arms=("a", "b"), least=5.0),
        results(a=[60, 60], b=[50, 50]),
        results(a=[53, 53], b=[50, 50]),
    ),
    (
        Ordered(text="printed", arms=("a", "b"), printed=(10.0, 0.0)),
        results(a=[51, 51.2, 51.1], b=[50, 50, 50]),
        results(a=[49, 51.5, 50], b=[50, 50, 50]),
    ),
    (
        Ordered(text="chain", arms=("a", "b", "c")),
        results(a=[9, 9], b=[5, 5], c=[1, 1]),
        results(a=[9, 9], b=[5, 5], c=[7, 7]),
    ),
    (NEAR, results(a=[50.1, 50.2], b=[50, 50]), results(a=[59.1, 59.2], b=[50, 50])),
    (NEAR, results(a=[50.1, 50.2], b=[50, 50]), results(a=[41.1, 41.2], b=[50, 50])),
    (ABOVE, results(a=[60, 61]), results(a=[40, 41])),
    (BELOW, results(a=[40, 41]), results(a=[60, 61])),
    (All(text="both", parts=(ABOVE, ORDERED)), results(a=[60, 61], b=[1, 2]), results(a=[60, 61], b=[80, 81.5])),
    (
        Judged(text="own rule", rule=lambda r: ("holds" if (r.mean("a", "R@1") or 0) > 1 else "does not hold", "")),
        results(a=[2]),
        results(a=[0]),
    ),
]


@pytest.mark.parametrize(("claim", "good", "bad"), CASES, ids=[f"{n}-{c[0].text}" for n, c in enumerate(CASES)])
def test_changing_a_result_flips_the_verdict(claim: Claim, good: Results, bad: Results) -> None:
    assert claim.verdict(good).status == "holds"
    assert claim.verdict(bad).status == "does not hold"
    assert claim.verdict(good).evidence != claim.verdict(bad).evidence or isinstance(claim, Judged)


@pytest.mark.parametrize("claim", [ORDERED, NEAR, ABOVE, BELOW, All(text="both", parts=(ABOVE, NEAR))])
def test_what_was_not_run_decides_nothing(claim: Claim) -> None:
    verdict = claim.verdict(results(a=[], b=[]))
    assert verdict.status == "undecided"
    assert "not run" in verdict.evidence


def test_what_waits_for_runs_is_told_from_what_stays_open() -> None:
    chain = Ordered(text="chain", arms=("a", "b", "c"))
    assert chain.verdict(results(a=[9, 9.1], b=[5, 5], c=[])).words == "not all run"
    assert chain.verdict(results(a=[1, 1.1], b=[5, 5], c=[])).words == "does not hold"
    assert chain.verdict(results(a=[5.1], b=[5], c=[1])).words == "undecided (one seed)"
    assert chain.verdict(results(a=[9, 9.1], b=[5, 5], c=[1, 1])).words == "holds"


def test_one_seed_must_clear_the_noise_and_says_so() -> None:
    assert ORDERED.verdict(results(a=[50.9], b=[50])).status == "undecided"
    verdict = ORDERED.verdict(results(a=[51.1], b=[50]))
    assert verdict.status == "holds"
    assert "1 seed)" in verdict.evidence


def test_a_refutation_is_marked_by_what_refutes_it_not_by_its_other_links() -> None:
    chain = Ordered(text="chain", arms=("a", "b", "c"))
    assert not chain.verdict(results(a=[1, 1.1, 1], b=[5, 5, 5], c=[3])).one_seed
    assert chain.verdict(results(a=[1], b=[5, 5, 5], c=[3, 3, 3])).one_seed
    assert chain.verdict(results(a=[9, 9, 9.1], b=[5, 5, 5], c=[3])).one_seed
    both = All(text="both", parts=(ORDERED, BELOW))
    assert not both.verdict(results(a=[70, 71, 70], b=[1])).one_seed
    assert both.verdict(results(a=[70], b=[1, 2, 1])).one_seed


def test_level_arms_refute_an_order_only_where_half_of_what_is_printed_is_out_of_reach() -> None:
    level = results(a=[49, 51.5, 50], b=[50, 50, 50])  # +0.17 ± 2.1
    assert ORDERED.verdict(level).status == "undecided"
    near = Ordered(text="a above b", arms=("a", "b"), printed=(4.0, 0.0))
    far = Ordered(text="a above b", arms=("a", "b"), printed=(5.0, 0.0))
    assert near.verdict(level).status == "undecided"
    assert far.verdict(level).words == "does not hold (level)"
    assert "published +5, half of it out of reach" in far.verdict(level).evidence
    assert far.verdict(results(a=[40, 41, 42], b=[50, 50, 50])).words == "does not hold"
    small = Ordered(text="a below b", arms=("b", "a"), printed=(0.0, 5.0), smaller=True)
    assert small.verdict(level).words == "does not hold (level)"
    both = All(text="both", parts=(far, Ordered(text="c above b", arms=("c", "b"))))
    assert both.verdict(Results(outcomes=level.outcomes | results(c=[1, 2, 1]).outcomes)).words == "does not hold"


@pytest.mark.parametrize("printed", [(1.0,), (2.0, 2.0), (2.0, 5.0), (5.0, 2.0, 1.0)])
def test_a_printed_figure_stands_for_each_arm_in_the_order_of_the_claim(printed: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="printed"):
        Ordered(text="a above b", arms=("a", "b"), printed=printed)


def test_only_seeds_that_both_arms_have_are_compared() -> None:
    wide = results(a=[60, 61, 0], b=[50, 51])
    assert "2 seeds" in ORDERED.verdict(wide).evidence
    assert ORDERED.verdict(wide).status == "holds"


def stopping(arm: str, *seeds: int) -> Results:
    """Three seeds in which a lies far above b; some trainings of one arm stopped early."""
    found = results(a=[60, 61, 62], b=[50, 51, 52])
    for seed in seeds:
        found.outcomes[arm][seed] = Outcome(seed=seed, figures={"collapsed": 1.0}, stopped="the model has collapsed")
    return found


@pytest.mark.parametrize("claim", [ORDERED, ABOVE, Near(text="", arms=("b", "a"), within=20.0)])
@pytest.mark.parametrize("seeds", [(2,), (1, 2), (0, 1, 2)])
def test_a_favoured_arm_that_stopped_in_a_seed_cannot_win_on_the_others(claim: Claim, seeds: tuple[int, ...]) -> None:
    assert claim.verdict(stopping("a")).status == "holds"
    verdict = claim.verdict(stopping("a", *seeds))
    assert verdict.status == "undecided"
    assert all(f"a stopped in seed {seed}" in verdict.evidence for seed in seeds)
    assert "not run" not in verdict.evidence


def test_an_arm_that_stopped_can_still_lose_and_a_rival_that_stopped_is_named() -> None:
    worse = Ordered(text="b above a", arms=("b", "a"))
    assert worse.verdict(stopping("b", 2)).status == "does not hold"
    rival = ORDERED.verdict(stopping("b", 2))
    assert rival.status == "holds"
    assert "2 seeds), b stopped in seed 2" in rival.evidence
    below = Ordered(text="a's figure is the smaller one", arms=("b", "a"), smaller=True)
    assert below.verdict(stopping("a", 2)).status == "holds"
    assert below.verdict(stopping("b", 2)).status == "undecided"


def test_what_a_stopped_training_has_is_compared() -> None:
    fell = Beyond(text="a collapses", arm="a", figure="collapsed", above=0.5)
    assert fell.verdict(stopping("a", 0, 1)).status == "holds"


@pytest.mark.parametrize("claim", [ORDERED, NEAR, ABOVE, All(text="", parts=(ABOVE, ORDERED))])
def test_verdicts_on_one_seed_are_known(claim: Claim) -> None:
    assert claim.verdict(results(a=[50.5], b=[50.0])).one_seed
    assert not claim.verdict(results(a=[50.5, 50.6], b=[50.0, 50.0])).one_seed
    assert not claim.verdict(results(a=[], b=[])).one_seed


def test_undefined_figures_are_left_out() -> None:
    broken = Results(outcomes={"a": [Outcome(seed=0, figures={"R@1": math.nan}), Outcome(seed=1, figures={})], "b": []})
    assert broken.values("a", "R@1") == []
    assert ABOVE.verdict(broken).status == "undecided"


def test_a_bound_on_both_sides_or_none_is_refused() -> None:
    with pytest.raises(ValueError, match="above or below"):
        Beyond(text="?", arm="a", figure="R@1")
    with pytest.raises(ValueError, match="above or below"):
        Beyond(text="?", arm="a", figure="R@1", above=1.0, below=2.0)


@pytest.mark.parametrize("within", [0.5, 1.0])
def test_a_tolerance_that_one_seed_could_never_show_is_refused(within: float) -> None:
    with pytest.raises(ValueError, match="more than the noise"):
        Near(text="?", arms=("a", "b"), within=within, noise=1.0)


@given(NUMBER, NUMBER, st.floats(0, 10))
def test_two_seeds_have_the_noise_of_two_or_cover_both(one: float, other: float, noise: float) -> None:
    alone, both = interval([one], noise), interval([one, other], noise)
    assert alone is not None
    assert both is not None
    assert both.half >= noise / math.sqrt(2)
    tiny = 1e-9 * (1 + abs(one) + abs(other))
    assert both.mean - both.half <= min(one, other) + tiny
    assert max(one, other) - tiny <= both.mean + both.half
    if abs(one - other) <= noise:
        assert both.half <= alone.half, "a second seed that agrees never decides less"


@given(SAMPLES.filter(lambda v: len(v) > 2))
def test_intervals_equal_those_of_student(values: list[float]) -> None:
    found = interval(values, noise=0.0)
    assert found is not None
    freedom = min(len(values) - 1, len(T95) + 1)
    half = stats.t.ppf(0.95, freedom) * statistics.stdev(values) / math.sqrt(len(values))
    assert found.half == pytest.approx(half, rel=3e-3, abs=1e-12)
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-9)


@given(SAMPLES, SAMPLES)
def test_an_order_and_its_reverse_contradict_each_other(a: list[float], b: list[float]) -> None:
    found = results(a=a, b=b)
    forth = ORDERED.verdict(found).status
    back = Ordered(text="b above a", arms=("b", "a")).verdict(found).status
    falling = Ordered(text="b below a", arms=("b", "a"), smaller=True).verdict(found).status
    assert back == OPPOSITE[forth]
    assert falling == forth


@given(SAMPLES, NUMBER)
def test_above_and_below_contradict_each_other(values: list[float], bound: float) -> None:
    found = results(a=values)
    above = Beyond(text="", arm="a", figure="R@1", above=bound).verdict(found).status
    below = Beyond(text="", arm="a", figure="R@1", below=bound).verdict(found).status
    assert below == OPPOSITE[above]


@given(NUMBER, st.floats(0, 50), st.floats(0, 50), NUMBER)
def test_a_wider_interval_never_decides_more(mean: float, half: float, more: float, least: float) -> None:
    narrow = SeedInterval(mean=mean, half=half, seeds=2).status(least)
    wide = SeedInterval(mean=mean, half=half + more, seeds=2).status(least)
    assert wide in ("undecided", narrow)


@given(SAMPLES, SAMPLES)
def test_nearness_has_no_direction(a: list[float], b: list[float]) -> None:
    found = results(a=a, b=b)
    assert NEAR.verdict(found).status == Near(text="", arms=("b", "a"), within=2.0, noise=0.5).verdict(found).status


@given(st.lists(st.sampled_from(["holds", "does not hold", "undecided"])))
def test_a_joint_verdict_is_that_of_its_worst_part(statuses: list) -> None:
    ranks = ["does not hold", "undecided", "holds"]
    worst = ranks[min((ranks.index(status) for status in statuses), default=1)]
    assert joint(statuses) == worst


def printed(blocks: list[dict[str, Any]]) -> set[float]:
    """Figures of a paper that claims of its YAML file rest on."""
    of_parts = [printed(block["parts"]) for block in blocks if "parts" in block]
    return {value for block in blocks for value in block.get("printed", ())}.union(*of_parts)


@pytest.mark.parametrize("study", ["A2", "A5", "E1", "E2", "E3", "E7", "H3", "H4", "M1", "M4"])
def test_printed_figures_are_those_that_the_page_shows(study: str) -> None:
    figures, shown = printed(declared(study, "paper")["claims"]), base.get(study).published
    assert figures
    assert all(f"{value:.3f}" in shown or f"{value:.1f}" in shown for value in figures)
