"""The plateau that a series ends in: where it opens, at which value, and whether it is one.

The tail is taken to be stationary; its centre and scale are robust; the smoothed series is scanned backward for the last
sample outside a band around the centre, and the plateau opens at the sample after. Then come the doubts.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dltb.metrics.estimators import (
    MEDIAN_ERROR,
    median_absolute_deviation,
    polynomial,
    relative_noise,
    running_median,
    slow_share,
    spread_levels,
    statistical_inefficiency,
    theil_sen,
    winsorize,
    without_spikes,
    zigzag,
)

SHORTEST_PLATEAU = 10  # samples
SHORTEST_SHARE = 0.08  # of the series
FLOOR = 0.01  # of the series' range (1st to 99th percentile): less is not movement
WINDOW_SHARE = 16  # the smoothing window is this part of the series
SURE = 3.5  # standard errors of a smoothed sample: out of the band by chance once in a few thousand
TREND_SURE = 3.0  # standard errors of a slope
INDEPENDENT = 20  # samples that a plateau must be worth
SLOW = 0.28  # share of the variance that may be slow movement
FIT_SURE = 9.0  # twice the log-likelihood ratio of two fits


class Series:
    """A series as the checks see it: few values spread, spikes removed, smoothed, and with a scale of what matters."""

    def __init__(self, raw: np.ndarray) -> None:
        self.raw = raw
        spread = spread_levels(raw)
        self.x = without_spikes(raw) if spread is raw else spread  # a rare hop is no spike
        self.n = len(raw)
        self.width = int(np.clip(self.n // WINDOW_SHARE, 7, 101)) | 1
        self.smooth = running_median(self.x, self.width)
        spread = float(np.ptp(np.percentile(self.x, (1, 99))))
        self.floor = max(FLOOR * spread, 1e-9 * float(np.abs(self.x).max()), 1e-12)
        self.shortest = max(SHORTEST_PLATEAU, int(SHORTEST_SHARE * self.n))

    def relative_noise(self, since: int) -> np.ndarray:
        """How much louder the noise is at each sample than in the plateau that opens at `since`."""
        return relative_noise(self.x, min(max(4 * self.width, 31), self.n // 2), since)

    @cached_property
    def core(self) -> int:
        """Where the stretch starts that ends the series and is worth most independent samples (Chodera 2016)."""
        lengths = np.unique(np.geomspace(self.shortest, self.n, 20).astype(int))
        worth = [size / statistical_inefficiency(winsorize(self.x[-size:])) for size in lengths]
        return self.n - int(lengths[int(np.argmax(worth))])


@dataclass(frozen=True)
class Stretch:
    """What the end of a series, from some sample on, is like."""

    sd: float  # robust, at least the floor
    trending: bool
    wandering: bool

    @property
    def stationary(self) -> bool:
        return not (self.trending or self.wandering)


@dataclass(frozen=True)
class Plateau:
    """A stretch that ends the series and holds still."""

    opening: int
    value: float
    band: float
    stretch: Stretch


def look(series: Series, since: int) -> Stretch:
    """Trend and slow excursions of the series from `since` on, its louder parts scaled to the noise of its end."""
    x = series.x[since:]
    n, centre = len(x), np.median(x)
    loud = relative_noise(x, min(max(n // 4, 31), n // 2), n // 2)
    even = winsorize(centre + (x - centre) / loud)
    sd = max(median_absolute_deviation(even), series.floor)
    g = statistical_inefficiency(even)
    slope = theil_sen(even)
    slow = n / g < min(INDEPENDENT, n / 2.2) or slow_share(even) > SLOW + 3 / n
    trending = abs(slope.z) > TREND_SURE and abs(slope.per_sample) * n > sd
    return Stretch(sd, trending, bool(slow and np.std(even) > series.floor))


def scan(series: Series, since: int, widen: float) -> Plateau:
    """Centre and band from `since` on, and the sample after the last smoothed one that leaves the band.

    The band is as wide as the smoothed noise needs, between one and three standard deviations.
    """
    tail = series.x[since:]
    centre, sd = float(np.median(tail)), median_absolute_deviation(tail)
    smooth_sd = sd * MEDIAN_ERROR / np.sqrt(series.width)
    if len(tail) >= 4 * series.width:
        smooth_sd = median_absolute_deviation(series.smooth[since:])
    sure = SURE * widen * smooth_sd * (1 + len(tail) ** -0.5)
    band = max(float(np.clip(sure, sd, 3 * sd)), series.floor)
    outside = np.flatnonzero(np.abs(series.smooth - centre) > band)
    opening = int(outside[-1]) + 1 if len(outside) else 0
    return Plateau(opening, centre, band, look(series, min(opening, series.n - series.shortest)))


def find_plateau(series: Series) -> Plateau | None:
    """The plateau, if any holds still. A band of another width is a second chance.

    Wider again where the series had been at the plateau's value before: what took it away may have been chance.
    """
    tries = [locate(series, widen) for widen in (1, 0.7, 1.4)]
    found, wider = next(filter(None, tries), None), tries[-1]
    if found and wider and wider.opening < found.opening and left_again(series, found):
        return wider
    return found


def locate(series: Series, widen: float) -> Plateau | None:
    """Scan from the core, then again from what was found, as long as that holds still."""
    found = trim(series, scan(series, series.core, widen))
    if not acceptable(series, found):
        return None
    for _ in range(3):
        again = scan(series, found.opening, widen)
        if again.opening == found.opening or not acceptable(series, again):
            break
        found = again
    return found


def acceptable(series: Series, found: Plateau) -> bool:
    return found.stretch.stationary and series.n - found.opening >= series.shortest


def trim(series: Series, found: Plateau) -> Plateau:
    """Look again without the first sixth if that could be the transient's end."""
    later = found.opening + (series.n - found.opening) // 6
    if found.stretch.stationary or found.opening <= series.width or series.n - later < series.shortest:
        return found
    return Plateau(found.opening, found.value, found.band, look(series, later))


def arrival(series: Series, found: Plateau) -> int:
    """Where the smoothed series first crosses the plateau's value; the opening if it never did before."""
    above = series.smooth[: found.opening] > found.value
    crossed = np.flatnonzero(above != above[0]) if len(above) else above
    return int(crossed[0]) if len(crossed) else found.opening


def left_again(series: Series, found: Plateau) -> bool:
    """Whether the series had been at this value before, and the calm since is short beside the time it was away."""
    return series.n - found.opening < 2 * (found.opening - arrival(series, found))


def too_calm_to_tell(series: Series, found: Plateau) -> bool:
    """Whether the plateau may be one more pause of a series that comes and goes.

    Its calm must outlast the ones between the turns before it: four times; one and a half times after a single turn; half
    for a damped oscillation, whose swings get smaller one by one.
    """
    opening, calm = found.opening, series.n - found.opening
    path = series.smooth[: opening + 1]
    noise = found.stretch.sd * MEDIAN_ERROR / np.sqrt(series.width)
    if calm >= 4 * series.width:
        noise = max(noise, median_absolute_deviation(series.smooth[opening:]))
    least = max(2 * series.floor, SHORTEST_SHARE * float(np.ptp(series.smooth)))
    # The range of a few dozen independent values is about 5 of their standard deviations.
    turns = zigzag(path, np.maximum(6.5 * noise * series.relative_noise(opening), least)) if opening else []
    if not turns:
        return left_again(series, found)
    swings = np.abs(np.diff([path[0], *path[turns], found.value]))
    damped = bool(np.all(swings[1:] < 0.6 * swings[:-1]))
    pause = np.median(np.diff([0, *turns, opening]))
    needed = pause * (0.5 if damped else 4 if len(turns) > 1 else 1.5)
    return bool(calm < needed) or (left_again(series, found) and not damped)


def trend_goes_on(series: Series, found: Plateau) -> bool:
    """Whether one straight line from before the opening to the end explains as much as a line that ends in a plateau.

    Then the plateau is too short to tell from a piece of that line (likelihood ratios of least-squares fits).
    """
    opening, n = found.opening, series.n
    length = n - opening
    g = statistical_inefficiency(series.x[opening + length // 2 :])
    end = series.x[opening + length // 3 :]
    end_line = polynomial(end, 1)
    end_slope = (end_line[-1] - end_line[0]) / (len(end) - 1)
    end_error = np.std(end - end_line) * np.sqrt(12 * g / len(end) ** 3)
    for start in sorted({max(0, opening - back * length) for back in (1, 2, 4, 8)}):
        if opening - start < 5:
            continue
        x = series.x[start:]
        line = polynomial(x, 1)
        slope = (line[-1] - line[0]) / (len(x) - 1)
        if (
            abs(slope) * len(x) < max(1.5 * found.stretch.sd, 3 * series.floor)
            or abs(slope - end_slope) > 3 * end_error
        ):
            continue
        if line_suffices(x, opening - start, line, g):
            return True
    return False


def line_suffices(x: np.ndarray, opening: int, line: np.ndarray, g: float) -> bool:
    """Whether a line is needed, a bend is not, and a plateau from `opening` on is no better."""
    before, after = x[:opening], x[opening:]
    flat = np.sum((x - x.mean()) ** 2)
    straight = np.sum((x - line) ** 2)
    bent = np.sum((x - polynomial(x, 2)) ** 2)
    plateau = np.sum((before - polynomial(before, 1)) ** 2) + np.sum((after - after.mean()) ** 2)
    if min(bent, plateau) <= 0:
        return False
    worth = len(x) / g
    return bool(
        worth * np.log(flat / straight) > FIT_SURE + 3
        and worth * np.log(straight / bent) < FIT_SURE
        and worth * np.log(straight / plateau) < FIT_SURE
    )
