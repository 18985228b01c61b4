"""Intervals for means of dependent samples, against series whose mean is known."""

import numpy as np
import pytest

from dltb.metrics.bootstrap import block_centre, block_length, mean_interval, resampled_means


def autoregression(phi: float, size: int, random: np.random.Generator) -> np.ndarray:
    """A first-order autoregression around 0, past its start."""
    noise, x = random.normal(size=size + 200), np.zeros(size + 200)
    for i in range(1, len(x)):
        x[i] = phi * x[i - 1] + noise[i]
    return x[200:]


def coverage(phi: float, size: int, tries: int = 300) -> float:
    """The share of 95 % intervals that hold the true mean."""
    random = np.random.default_rng(7)
    intervals = [mean_interval(autoregression(phi, size, random), resamples=300) for _ in range(tries)]
    return float(np.mean([interval.low <= 0 <= interval.high for interval in intervals]))


@pytest.mark.parametrize(
    ("phi", "size", "least"), [(0, 24, 0.91), (0.5, 30, 0.85), (0.8, 60, 0.85), (0.8, 300, 0.87), (0.9, 30, 0.7)]
)
def test_coverage(phi: float, size: int, least: float) -> None:
    """Catches blocks that are too short and intervals that few blocks make too narrow: the bars are what is measured.

    At 0.9 and 30 frames, which hold one or two independent samples, no interval from the data alone covers 95 %.
    """
    assert least <= coverage(phi, size) <= 0.99


def test_samples_that_are_taken_for_independent_would_cover_far_less() -> None:
    """Catches a bootstrap whose blocks change nothing."""
    random = np.random.default_rng(7)
    hits = []
    for _ in range(200):
        x = autoregression(0.8, 60, random)
        low, high = np.quantile(resampled_means(x, 1, 300), (0.025, 0.975))
        hits.append(low <= 0 <= high)
    assert np.mean(hits) < 0.6


def test_blocks_grow_with_the_correlation() -> None:
    """Catches a rule that ignores the series, and blocks of which less than three fit."""
    random = np.random.default_rng(7)
    lengths = [np.mean([block_length(autoregression(phi, 120, random)) for _ in range(30)]) for phi in (0, 0.5, 0.9)]
    assert lengths[0] < 3 < lengths[1] < 12 < lengths[2]
    assert block_length(np.arange(120.0)) == 40


def test_resamples_are_made_of_blocks() -> None:
    """Catches samples drawn one by one, blocks past the end, and a centre that is not what resamples are around."""
    x = np.array([0.0, 1, 10, 100, 1000, 10_000])
    blocks = {0.0 + 1, 1 + 10.0, 10 + 100.0, 100 + 1000.0, 1000 + 10_000.0}
    sums = resampled_means(x, 2, 500) * 6
    possible = {a + b + c for a in blocks for b in blocks for c in blocks}
    assert {round(total) for total in sums} <= possible
    assert block_centre(x, 2) == pytest.approx(sum(blocks) / 5 / 2)
    assert resampled_means(x, 2, 20_000).mean() == pytest.approx(block_centre(x, 2), rel=0.02)


def test_the_same_series_gives_the_same_numbers(small_picture: np.ndarray) -> None:
    """Catches a seed that moves: a table made twice would differ."""
    x = small_picture[:, 0, 0].astype(float)
    assert mean_interval(x) == mean_interval(x.copy())


def test_wider_for_more_confidence() -> None:
    """Catches a confidence that does not reach the quantiles."""
    x = np.random.default_rng(7).normal(size=40)
    widths = [(r := mean_interval(x, confidence=c)).high - r.low for c in (0.5, 0.8, 0.95, 0.99)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1] / 2


def test_ends() -> None:
    """Catches an interval of too few samples, a constant series that has a width or divides by 0, and a negative share."""
    assert mean_interval(np.arange(5.0)) == type(mean_interval(np.zeros(1)))(2.0, None, None, 5)
    constant = mean_interval(np.full(9, 3.0))
    assert (constant.mean, constant.low, constant.high) == (3, 3, 3)
    rare = np.array([0.0, 0, 0, 8, 0, 0, 0, 0, 1])
    assert mean_interval(rare).low < 0
    assert mean_interval(rare, lowest=0).low == 0
