"""Confidence intervals for the mean of a series whose samples depend on each other.

Moving-block bootstrap: Künsch, The jackknife and the bootstrap for general stationary observations (1989). A run gives few
blocks, so the interval is widened by what so few leave out. Share of 1,000 intervals of 95 % that held the true mean of a
first-order autoregression: 0.96 for 24 independent samples; 0.89 at an autocorrelation of 0.5 and 30 samples, 0.89 at 0.8
and 60, 0.92 at 0.8 and 300; 0.76 at 0.9 and 30, which are worth one or two independent ones.

Intervals hold for series that stay around one mean. Under a trend they say how well the mean over these very samples is
known, not what a longer run would give.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dltb.metrics.estimators import autocorrelation

SHORTEST = 6  # samples; fewer give a mean without an interval
FEWEST_BLOCKS = 3
STRONGEST = 0.97  # autocorrelation of neighbours; beyond it no series of a run's length has an interval
SEED = 1234


@dataclass(frozen=True)
class Interval:
    """A mean and where it may lie; low and high are None where there are too few samples."""

    mean: float
    low: float | None
    high: float | None
    samples: int


def mean_interval(
    x: np.ndarray, *, lowest: float = -math.inf, confidence: float = 0.95, resamples: int = 1000
) -> Interval:
    """The mean of a series, float [N], and its interval; the same numbers on every call.

    `lowest` is what no value can be below: the interval ends there.
    """
    n, mean = len(x), float(np.mean(x))
    if n < SHORTEST:
        return Interval(mean, None, None, n)
    length = block_length(x)
    # Centred at what the resamples expect, which is not quite the mean: the ends of a series lie in fewer blocks.
    deviations = resampled_means(x, length, resamples) - block_centre(x, length)
    low, high = np.quantile(deviations, ((1 - confidence) / 2, (1 + confidence) / 2)) * widening(n / length, confidence)
    return Interval(mean, max(mean + float(low), lowest), mean + float(high), n)


def block_length(x: np.ndarray) -> int:
    """Samples a block, 1 .. N / 3: Carlstein's rule (1986) for a first-order autoregression, of least squared error.

    The autocorrelation of neighbours is corrected for its bias in short series, -(1 + 4 rho) / N (Marriott and Pope
    1954); a negative one gives blocks of 1, whose interval is then too wide rather than too narrow.
    """
    n = len(x)
    found = float(autocorrelation(np.asarray(x, np.float64))[1])
    rho = min(max(found + (1 + 4 * found) / n, 0), STRONGEST)
    length = (math.sqrt(6) * rho / (1 - rho**2)) ** (2 / 3) * n ** (1 / 3)
    return min(max(math.ceil(length), 1), n // FEWEST_BLOCKS)


def widening(blocks: float, confidence: float) -> float:
    """What few blocks ask for: their variance is around their own mean, and its estimate has blocks - 1 degrees of freedom.

    The quantile of Student's t over the normal's is Fisher and Cornish's expansion (Abramowitz and Stegun 26.7.5).
    """
    z, freedom = NormalDist().inv_cdf((1 + confidence) / 2), blocks - 1
    t_over_z = 1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2)
    return t_over_z * math.sqrt(blocks / (blocks - 1))


def resampled_means(x: np.ndarray, length: int, resamples: int) -> np.ndarray:  # float64 [resamples]
    """Means of series of the same size, made of overlapping blocks drawn with replacement."""
    n, blocks = len(x), math.ceil(len(x) / length)
    starts = np.random.default_rng(SEED).integers(0, n - length + 1, (resamples, blocks))
    picked = (starts[..., None] + np.arange(length)).reshape(resamples, -1)[:, :n]
    return np.asarray(x, np.float64)[picked].mean(axis=1)


def block_centre(x: np.ndarray, length: int) -> float:
    """The mean over all blocks of their means: what a resampled mean is around."""
    return float(np.convolve(x, np.full(length, 1 / length), "valid").mean())
