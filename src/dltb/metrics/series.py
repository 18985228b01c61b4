"""Did a series of numbers settle, when, and at what value; and if not, what does it do instead.

`judge` is the whole of it. Knows no files; doc/algorithm/stabilization.md explains the method and its limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dltb.metrics.estimators import (
    MEDIAN_ERROR,
    difference_noise,
    polynomial,
    slow_share,
    spread_levels,
    statistical_inefficiency,
    theil_sen,
    winsorize,
)
from dltb.metrics.oscillation import Oscillation, find_oscillation
from dltb.metrics.plateau import INDEPENDENT, Series, find_plateau, too_calm_to_tell, trend_goes_on

VERDICTS = ("stable", "still rising", "still falling", "drifting", "oscillating", "wandering", "too short", "invalid")
SHORTEST = 20  # samples
LARGEST = 1e307  # beyond it the difference of two numbers may be none
FAST_START = 6.0  # a drift is this many times slower than the start
SLOW_REST = 0.28  # share of what a trend leaves that may be slow
SLOW_DRIFT = 0.45  # the same for the straight line of a drift, which a transient's end may bend


@dataclass(frozen=True)
class Verdict:
    """What a series does at its end. `index`, `value` and `band` are None unless it is stable."""

    verdict: str  # one of VERDICTS
    reason: str  # for a reader
    index: int | None = None  # the first settled sample, counted from 0 over all values given
    value: float | None = None  # the plateau's median
    band: float | None = None  # half its width: the smoothed series stays within value +- band
    period: float | None = None  # samples, of an oscillation


def judge(values: Sequence[float | None], *, to_previous: bool = False) -> Verdict:
    """Judge one series. None is an empty cell: skipped at the start, invalid elsewhere, as are NaN and infinities.

    ``to_previous`` says that each value is measured against the sample before: a 0 in front is a definition then, and is
    skipped too.
    """
    first = next((i for i, value in enumerate(values) if value is not None), len(values))
    x = np.array([np.nan if value is None else value for value in values[first:]], float)
    bad = np.flatnonzero(~(np.abs(x) <= LARGEST)) + first
    if len(bad):
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        return Verdict(
            "invalid", f"no finite number, or one beyond {LARGEST:g}, at sample {', '.join(map(str, bad[:5]))}{more}"
        )
    if to_previous and len(x) and x[0] == 0:
        first, x = first + 1, x[1:]
    if len(x) < SHORTEST:
        return Verdict("too short", f"{len(x)} samples; at least {SHORTEST} are needed")
    return settle(x, first)


def settle(x: np.ndarray, first: int) -> Verdict:
    """The verdict on finite values; `first` is the index of x[0] among all."""
    scale = float(np.abs(x).max()) or 1.0  # keeps squares of very large and very small numbers finite
    series = Series(x / scale)
    if x.min() == x.max():
        return Verdict("stable", f"constant over {len(x)} samples", first, float(x[0]), series.floor * scale)
    # A square wave is made of what looks like spikes; a sinusoid is seen better without them.
    oscillation = find_oscillation(series.raw, series.floor) or find_oscillation(series.x, series.floor)
    if oscillation:
        return oscillating(oscillation, scale)
    found = find_plateau(series)
    if found is None or trend_goes_on(series, found):
        return unsettled(series, scale)
    if too_calm_to_tell(series, found):
        calm = series.n - found.opening
        return Verdict("wandering", f"calm for the last {calm} samples, but it was so before, and left again")
    return stable(spread_levels(x)[found.opening :], first + found.opening, found.band * scale)


def stable(plateau: np.ndarray, index: int, band: float) -> Verdict:
    value = float(np.median(plateau))
    reason = (
        f"within {value:.4g} +- {band:.2g} since sample {index}, {len(plateau)} samples without a trend or a period"
    )
    return Verdict("stable", reason, index, value, band)


def oscillating(found: Oscillation, scale: float) -> Verdict:
    amplitude, noise = found.amplitude * scale, found.noise * scale
    reason = f"a period of {found.period:.3g} samples, amplitude {amplitude:.2g}, noise {noise:.2g}"
    return Verdict("oscillating", reason, period=float(found.period))


def unsettled(series: Series, scale: float) -> Verdict:
    """Wandering, drifting or still on its way, from the last two thirds."""
    end = series.x[series.n // 3 :]
    path = series.smooth[series.n // 3 :]
    up, down = swings(path if np.ptp(path) > 0 else end)  # the last few samples leave no trace in the smoothed path
    noise = max(difference_noise(series.x), series.floor) * MEDIAN_ERROR / np.sqrt(series.width)
    slope = theil_sen(end).per_sample
    steady = fast_start(series, slope, noise) and keeps_slope(series, slope)
    if wanders(end, up, down, noise) or (steady and min(up, down) > 2 * noise and is_slow(end, 1, SLOW_DRIFT)):
        moves = f"up by {up * scale:.2g} and down by {down * scale:.2g}"
        return Verdict("wandering", f"slow excursions {moves} in the last two thirds, without a trend or a period")
    if steady:
        return Verdict("drifting", f"a fast start, then a steady slope of {slope * scale:+.2g} a sample")
    rising = up > down
    moves = f"{'up' if rising else 'down'} by {max(up, down) * scale:.2g} in the last two thirds"
    return Verdict(
        f"still {'rising' if rising else 'falling'}", f"{moves}, and no plateau that is long enough to believe"
    )


def swings(path: np.ndarray) -> tuple[float, float]:
    """The largest rise and the largest fall of a path between any two samples."""
    up = np.max(path - np.minimum.accumulate(path))
    down = np.max(np.maximum.accumulate(path) - path)
    return float(up), float(down)


def wanders(x: np.ndarray, up: float, down: float, noise: float) -> bool:
    """Whether movement against the main direction is large; or not small, and what a smooth trend leaves is slow."""
    most, least = max(up, down), min(up, down)
    return least > 0.4 * most + 2 * noise or (least > 0.12 * most + 2 * noise and is_slow(x, 3, SLOW_REST))


def is_slow(x: np.ndarray, degree: int, share: float) -> bool:
    """Whether slow movement makes up more than `share` of what a polynomial leaves, or little of it is independent."""
    rest = winsorize(x - polynomial(x, degree))
    independent = len(rest) / statistical_inefficiency(rest)
    return slow_share(rest) > share + 3 / len(rest) or (degree > 1 and independent < INDEPENDENT)


def fast_start(series: Series, slope: float, noise: float) -> bool:
    """Whether the first tenth moves several times faster than the later slope."""
    tenth = series.n // 10
    moved = max(0.0, abs(series.smooth[tenth] - series.x[0]) - 2 * noise)
    return bool(moved > FAST_START * abs(slope) * tenth)


def keeps_slope(series: Series, slope: float) -> bool:
    """Whether the last third goes on in the same direction at half of that slope or more: a transient would slow down."""
    return bool(theil_sen(series.x[2 * series.n // 3 :]).per_sample * np.sign(slope) > 0.5 * abs(slope))
