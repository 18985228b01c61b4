"""Robust statistics of a short, noisy series, each under the name that the field knows it by. numpy only."""

from typing import NamedTuple

import numpy as np

MAD_TO_SD = 1.4826  # of a normal distribution
MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, normal noise
PAIRS_FROM = 150  # Theil-Sen looks at pairs of at most this many block means
LOUDEST = 5.0  # times the noise of the plateau; a larger ratio is movement
FEW_LEVELS = 6  # different values, between which a series is said to hop
HOPS, HOP_SHARE = 6, 0.05  # changes, and changes a sample, that make hops of steps
SPIKE = 6  # robust standard deviations from the median around
SPIKE_WINDOW = 7  # samples: a spike is at most three of them


def median_absolute_deviation(x: np.ndarray) -> float:
    """The MAD, scaled to the standard deviation of normal noise (Hampel 1974)."""
    return MAD_TO_SD * float(np.median(np.abs(x - np.median(x))))


def spread_levels(x: np.ndarray) -> np.ndarray:
    """A series that hops between a few values, each spread evenly over the interval up to its neighbours.

    The median of such a series hops too, and its MAD may be 0: a coin's median is 0 or 1, never what it tends to. Medians
    of the spread values are those of grouped data. A series of other values, or one that steps now and then, is handed
    back as it is; so are the samples before the second half that have values of their own.
    """
    end = x[len(x) // 2 :]
    levels = np.unique(end)
    if not (1 < len(levels) <= FEW_LEVELS and np.count_nonzero(np.diff(end)) >= max(HOPS, HOP_SHARE * len(end))):
        return x
    middles = (levels[1:] + levels[:-1]) / 2
    edges = np.concatenate(([2 * levels[0] - middles[0]], middles, [2 * levels[-1] - middles[-1]]))
    place = np.minimum(np.searchsorted(levels, x), len(levels) - 1)
    even = edges[place] + (edges[place + 1] - edges[place]) * np.random.default_rng(0).random(len(x))
    return np.where(levels[place] == x, even, x)


def running_median(x: np.ndarray, width: int) -> np.ndarray:
    """Median over `width` (odd) samples around each (Tukey 1977): keeps steps, drops spikes shorter than half of it.

    Near an end it is the first or last full window's median, repeated.
    """
    if len(x) < width:
        return np.full(len(x), np.median(x))
    middle = np.median(np.lib.stride_tricks.sliding_window_view(x, width), axis=1)
    return np.pad(middle, width // 2, mode="edge")


def without_spikes(x: np.ndarray) -> np.ndarray:
    """Spikes of up to three samples replaced by the median around them (Hampel filter).

    The first three samples stay: what looks like a spike there may be a fast start. So does everything in a series where
    more than a tenth stands out, which is its nature then.
    """
    centre = running_median(x, SPIKE_WINDOW)
    away = np.abs(x - centre)
    usual = np.maximum(running_median(away, min(41, (len(x) // 2) | 1)), np.median(away) / 2)
    spike = away > SPIKE * MAD_TO_SD * usual
    spike[:3] = False
    return np.where(spike, centre, x) if usual.min() > 0 and spike.mean() < 0.1 else x


def winsorize(x: np.ndarray) -> np.ndarray:
    """Values beyond four robust standard deviations moved there, so that no tail rules a sum of squares."""
    centre, sd = np.median(x), median_absolute_deviation(x)
    return np.clip(x, centre - 4 * sd, centre + 4 * sd) if sd > 0 else x


def difference_noise(x: np.ndarray) -> float:
    """The noise's standard deviation from neighbouring samples alone, so that slow movement does not count.

    After von Neumann (1941), with a median in place of the mean square. Autocorrelated noise comes out too small.
    """
    return MAD_TO_SD * float(np.median(np.abs(np.diff(x)))) / np.sqrt(2)


def relative_noise(x: np.ndarray, block: int, since: int) -> np.ndarray:
    """How much louder the noise is around each sample than from `since` on: 1 to 5, from medians over blocks.

    Judged by second differences, which no slope enters.
    """
    rough = np.abs(np.diff(x, 2))
    rough = np.concatenate((rough[:1], rough, rough[-1:]))
    here = np.median(rough[since:])
    if here <= 0:
        return np.ones(len(x))
    starts = np.arange(0, max(len(x) - block, 0) + 1, max(block // 4, 1))
    local = [np.median(rough[start : start + block]) for start in starts]
    return np.clip(np.interp(np.arange(len(x)), starts + block / 2, local) / here, 1, LOUDEST)


def autocorrelation(x: np.ndarray) -> np.ndarray:
    """Normalised autocorrelation at lags 0, 1, ..., len(x) - 1, by FFT, divided by len(x) at every lag (biased)."""
    centred = x - x.mean()
    spectrum = np.fft.rfft(centred, 2 * len(x))
    covariance = np.fft.irfft(spectrum * np.conj(spectrum))[: len(x)]
    return covariance / covariance[0] if covariance[0] > 0 else np.eye(1, len(x))[0]


def statistical_inefficiency(x: np.ndarray) -> float:
    """g = 1 + 2 tau: how many samples carry the information of one independent sample; at least 1.

    The integrated autocorrelation time tau is summed over the initial positive sequence (Geyer 1992).
    """
    rho = autocorrelation(x)
    odd, even = rho[1::2], rho[2::2]
    pairs = odd[: len(even)] + even
    negative = np.flatnonzero(pairs <= 0)
    return max(1.0, 1 + 2 * float(pairs[: negative[0] if len(negative) else len(pairs)].sum()))


def slow_share(x: np.ndarray) -> float:
    """The share of the variance in the slowest cosines: up to four cycles, less in a short series. 0..1.

    The low end of a discrete cosine transform (type II), which unlike a Fourier series needs no equal ends.
    """
    n = len(x)
    centred = x - x.mean()
    total = float(centred @ centred)
    orders = np.arange(1, min(8, max(2, n // 8)) + 1)
    cosines = np.cos(np.pi * np.outer(orders, np.arange(n) + 0.5) / n)
    return float(np.sum((cosines @ centred) ** 2)) * 2 / n / total if total > 0 else 0.0


class Slope(NamedTuple):
    """A robust straight line through a series."""

    per_sample: float
    z: float  # Mann-Kendall: standard errors from no trend


def block_means(x: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """At most `most` means of equal blocks, and the block's size; samples that fill no block are left out at the start."""
    size = -(-len(x) // most)
    return x[len(x) % size :].reshape(-1, size).mean(axis=1), size


def theil_sen(x: np.ndarray) -> Slope:
    """The median slope over pairs (Theil 1950, Sen 1968) with the Mann-Kendall test of its sign.

    The test is corrected for autocorrelation of what the line leaves (Hamed and Rao 1998, with g in place of their sum).
    """
    y, size = block_means(x, PAIRS_FROM)
    m = len(y)
    i, j = np.triu_indices(m, 1)
    rises = y[j] - y[i]
    slope = float(np.median(rises / (j - i)))
    sd = np.sqrt(m * (m - 1) * (2 * m + 5) / 18 * statistical_inefficiency(y - slope * np.arange(m)))
    return Slope(slope / size, float(np.sign(rises).sum() / sd))


def polynomial(x: np.ndarray, degree: int) -> np.ndarray:
    """The least-squares polynomial through equally spaced samples, at those samples."""
    t = np.linspace(-1, 1, len(x))
    return np.polyval(np.polyfit(t, x, degree), t)


def zigzag(path: np.ndarray, size: np.ndarray) -> list[int]:
    """Where a path turns back by more than `size` (one number a sample): the extremes between its legs."""
    turns: list[int] = []
    rising = None
    top = bottom = 0
    for i, value in enumerate(path):
        top = i if value > path[top] else top
        bottom = i if value < path[bottom] else bottom
        if rising is not False and path[top] - value > size[i]:
            turns += [top] if rising else []
            rising, bottom = False, i
        elif rising is not True and value - path[bottom] > size[i]:
            turns += [bottom] if rising is False else []
            rising, top = True, i
    return turns
