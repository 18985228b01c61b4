"""The stabilization detector on the labelled corpus, and on series whose answer is plain."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.stabilization import mser5, pymbar_finder
from dltb.metrics.series import SHORTEST, Verdict, judge
from tests.metrics.corpus import Example, examples

HELD_OUT_SEED = 31415


@pytest.fixture(scope="module")
def corpus() -> list[tuple[Example, Verdict]]:
    """Held-out series and their verdicts."""
    return [(example, judge(example.values)) for example in examples(HELD_OUT_SEED, 700, tuning=False)]


def noise(n: int, sd: float = 0.02, seed: int = 0) -> np.ndarray:
    return sd * np.random.default_rng(seed).standard_normal(n)


def settle_errors(corpus: list[tuple[Example, Verdict]], find: Callable[[np.ndarray], int | None]) -> list[float]:
    """Errors of the settle sample over the length, on stable series; a plateau that is not found is an error of 1."""
    errors = []
    for example, _ in corpus:
        if example.settle is not None:
            found = find(np.array(example.values))
            errors.append(1.0 if found is None else abs(found - example.settle) / len(example.values))
    return errors


def test_verdicts_on_the_held_out_corpus(corpus: list[tuple[Example, Verdict]]) -> None:
    """Catches any change that makes the detector worse than promised in its document."""
    right = [example.verdict == verdict.verdict for example, verdict in corpus]
    false = [verdict.verdict == "stable" for example, verdict in corpus if example.verdict != "stable"]
    assert np.mean(right) >= 0.95
    assert np.mean(false) <= 0.02


@pytest.mark.parametrize("label", ["stable", "still rising", "still falling", "drifting", "oscillating", "wandering"])
def test_every_verdict_is_found(corpus: list[tuple[Example, Verdict]], label: str) -> None:
    """Catches one verdict paid for with another."""
    right = [verdict.verdict == label for example, verdict in corpus if example.verdict == label]
    assert len(right) >= 30
    assert np.mean(right) >= 0.88


def test_settle_samples_on_the_held_out_corpus(corpus: list[tuple[Example, Verdict]]) -> None:
    """Catches plateaus that open early or late; and MSER-5 (White 1997) must not do better."""
    ours = settle_errors(corpus, lambda x: judge(x.tolist()).index)
    theirs = settle_errors(corpus, mser5)
    assert np.median(ours) <= 0.02
    assert np.median(ours) < np.median(theirs)
    assert np.percentile(ours, 75) < np.percentile(theirs, 75)


def test_better_than_pymbar(corpus: list[tuple[Example, Verdict]]) -> None:
    """Catches a settle sample that detect_equilibration (Chodera 2016) would have placed better."""
    find = pymbar_finder()
    if find is None:
        pytest.skip("pymbar is not installed")
    short = [pair for pair in corpus if len(pair[0].values) < 600]  # it takes a second for 2,000 samples
    assert np.median(settle_errors(short, lambda x: judge(x.tolist()).index)) < np.median(settle_errors(short, find))


def test_periods_are_right(corpus: list[tuple[Example, Verdict]]) -> None:
    """Catches a harmonic, or half the period, reported as the period."""
    ratios = [verdict.period / example.period for example, verdict in corpus if verdict.period and example.period]
    assert len(ratios) > 50
    assert np.mean([0.9 < ratio < 1.1 for ratio in ratios]) > 0.97


T = np.arange(200)
PLAIN = {
    "stable": 0.4 + 0.3 * np.exp(-T / 10) + noise(200),
    "still rising": T / 200 + noise(200),
    "still falling": -np.sqrt(T / 200) + noise(200),
    "drifting": 1 - np.exp(-T / 5) + 0.003 * T + noise(200),
    "oscillating": 0.2 * np.sin(T / 3) + noise(200),
    "wandering": np.cumsum(noise(200, 0.1, seed=3)) + noise(200),
}


@pytest.mark.parametrize("label", PLAIN)
def test_plain_examples(label: str) -> None:
    """Catches a verdict that only holds on the corpus, one without a reason, and a value that is no median."""
    found = judge(PLAIN[label].tolist())
    assert found.verdict == label
    assert found.reason
    assert (found.index is None) == (found.value is None) == (found.band is None) == (label != "stable")
    if found.index is not None:
        assert found.value == np.median(PLAIN[label][found.index :])


@pytest.mark.parametrize("label", PLAIN)
@pytest.mark.parametrize(("factor", "offset"), [(1e-3, 0.0), (250.0, 0.0), (1.0, 5.0), (-1.0, 0.0)])
def test_units_do_not_matter(label: str, factor: float, offset: float) -> None:
    """Catches an absolute threshold: the same series in other units has the same verdict."""
    plain, other = judge(PLAIN[label].tolist()), judge((factor * PLAIN[label] + offset).tolist())
    expected = {"still rising": "still falling", "still falling": "still rising"}.get(label, label)
    assert other.verdict == (expected if factor < 0 else label)
    assert other.index == plain.index
    if plain.value is not None:
        assert other.value == pytest.approx(factor * plain.value + offset)
        assert other.band == pytest.approx(abs(factor) * plain.band)


def test_a_step_opens_the_plateau_exactly() -> None:
    """Catches smoothing that blurs the opening: the last step counts, not the first."""
    x = np.repeat([3.0, 1.0, 2.0], [40, 30, 80]) + noise(150)
    found = judge(x.tolist())
    assert (found.verdict, found.index) == ("stable", 70)
    assert found.value == pytest.approx(2, abs=0.01)
    assert judge(np.repeat([1.0, 2.0], [60, 60]).tolist()).index == 60


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("where", [60, 120, 190])
def test_a_spike_does_not_unsettle(length: int, where: int) -> None:
    """Catches a plateau that opens after the last spike."""
    x = PLAIN["stable"].copy()
    x[where : where + length] += 1
    found = judge(x.tolist())
    assert found.verdict == "stable"
    assert found.index < 40


def test_louder_noise_before_the_plateau_is_not_movement() -> None:
    """Catches a plateau that opens where the noise gets quiet instead of where the mean settles."""
    x = np.exp(-np.arange(400) / 10) + noise(400) * np.linspace(4, 1, 400)
    found = judge(x.tolist())
    assert found.verdict == "stable"
    assert found.index < 60


def test_autocorrelated_noise_is_not_wandering() -> None:
    """Catches wandering seen in noise that only remembers a few samples."""
    white = noise(800)
    x = np.convolve(white, np.ones(4) / 2, "valid")
    assert judge(x.tolist()).verdict == "stable"


def test_an_oscillation_that_dies_out_is_a_transient() -> None:
    """Catches oscillating said of a series that has come to rest."""
    t = np.arange(300)
    found = judge((np.exp(-t / 25) * np.cos(t / 4) + noise(300)).tolist())
    assert found.verdict == "stable"
    assert 40 < found.index < 130
    stopped = np.where(t < 220, np.sin(t / 3), 0) + noise(300)
    assert judge(stopped.tolist()).verdict == "wandering"  # the calm is short; but oscillating it is no more


@pytest.mark.parametrize("value", [0.0, 3.0, -0.25, 1e-300])
def test_a_constant_has_a_band(value: float) -> None:
    """Catches a band of 0, and a division by a range of 0."""
    found = judge([value] * 40)
    assert (found.verdict, found.index, found.value) == ("stable", 0, value)
    assert found.band > 0


def test_without_noise_it_settles_within_a_hundredth_of_the_range() -> None:
    """Catches a scale of 0 under an exact tail, and a transient's slope taken for noise."""
    found = judge(np.exp(-np.arange(300) / 10).tolist())
    assert found.verdict == "stable"
    assert 44 <= found.index <= 52  # exp(-4.6) is 1 %


def test_the_start_that_measures_nothing_is_skipped() -> None:
    """Catches a leading empty cell or 0 being judged, and an index that does not count it."""
    x = [1.0] * 30
    assert judge([None, *x]).index == 1
    assert judge([None, None, *x]).index == 2
    assert judge([0.0, *x], to_previous=True).index == 1
    assert judge([None, 0.0, *x], to_previous=True).index == 2
    assert judge([0.0] * 31, to_previous=True).value == 0
    assert judge([0.0, *x]).band > judge([0.0, *x], to_previous=True).band


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -float("inf")])
def test_holes_are_invalid_and_named(bad: float | None) -> None:
    """Catches "stable at nan", and a hole that is closed silently."""
    x: list[float | None] = [1.0] * 40
    x[7] = x[30] = bad
    found = judge(x)
    assert found.verdict == "invalid"
    assert "7, 30" in found.reason
    assert found.value is None
    assert judge([float("nan"), *[1.0] * 30]).verdict == "invalid"


@pytest.mark.parametrize("count", [0, 1, 5, SHORTEST - 1])
def test_too_short_is_said(count: int) -> None:
    """Catches a guess from a handful of samples, and a crash on none."""
    assert judge([1.0] * count).verdict == "too short"
    assert judge([None, *[1.0] * count]).verdict == "too short"
    assert judge([1.0] * SHORTEST).verdict == "stable"


def test_extreme_numbers_and_short_series_raise_nothing() -> None:
    """Catches overflow, division by 0 and empty slices, which numpy reports as warnings."""
    rng = np.random.default_rng(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e-300, 1e-9, 1e300):
            assert judge((scale * PLAIN["stable"]).tolist()).verdict == "stable"
        for n in range(SHORTEST, 40):
            shapes = (rng.standard_normal(n), np.cumsum(rng.standard_normal(n)), np.round(rng.uniform(0, 2, n)))
            for x in (*shapes, np.exp(-np.arange(n)), np.arange(n) % 2.0, np.arange(n) == n - 1, np.arange(n) == 0):
                judge(x.astype(float).tolist())


HOPPING = {
    "coin": lambda rng, n: rng.integers(0, 2, n),
    "loaded coin": lambda rng, n: rng.random(n) < 0.3,
    "die of three": lambda rng, n: rng.integers(0, 3, n),
    "rounded noise": lambda rng, n: np.rint(0.7 * rng.standard_normal(n)),
    "after a ramp": lambda rng, n: np.clip(4 - 16 * np.arange(n) / n, 0, None) + rng.integers(0, 2, n),
}


@pytest.mark.parametrize("n", [60, 120, 500])
@pytest.mark.parametrize("name", HOPPING)
def test_a_series_of_few_values_is_judged_by_what_it_tends_to(name: str, n: int) -> None:
    """Catches chance hops between two values taken for wandering or a fall, since their median hops too."""
    rng = np.random.default_rng(n)
    series = [np.asarray(HOPPING[name](rng, n), float) for _ in range(20)]
    found = [judge(x.tolist()) for x in series]
    assert [one.verdict for one in found].count("stable") >= 16
    for x, one in zip(series, found, strict=True):
        if one.verdict == "stable":
            assert one.value == pytest.approx(x[one.index :].mean(), abs=0.45)  # a hopping median is 0.5 away


def test_few_values_that_move_are_no_plateau() -> None:
    """Catches hops that hide a step, a rise, or memory."""
    rng = np.random.default_rng(0)
    step = judge((rng.random(300) < np.repeat([0.05, 0.95], [120, 180])).astype(float).tolist())
    assert step.verdict == "stable"
    assert step.index == pytest.approx(120, abs=12)
    slow = np.cumsum(rng.random(500) < 0.03) % 2.0
    assert judge(slow.tolist()).verdict == "wandering"
    rising = np.rint(np.linspace(0, 5, 300) + rng.normal(0, 0.4, 300))
    assert judge(rising.tolist()).verdict == "still rising"
    assert judge((np.arange(200) % 2.0).tolist()).verdict == "oscillating"


@pytest.mark.parametrize("factor", [1e300, 1e306, -1e306])
def test_numbers_near_the_largest_are_judged(factor: float) -> None:
    """Catches a range, a difference or a reason that overflows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in PLAIN.values():
            found = judge((factor * x / np.abs(x).max()).tolist())
            assert "inf" not in found.reason
        assert judge([1.7e308, -1.7e308] * 20).verdict == "invalid"
        assert "beyond 1e+307" in judge([1.7e308] * 40).reason


def test_a_jump_at_the_very_end_is_not_a_plateau() -> None:
    """Catches the old level reported although the series has left it."""
    assert judge([1.0] * 110 + [2.0] * 8).verdict == "still rising"
    assert judge([1.0] * 110 + [2.0] * 20).index == 110
