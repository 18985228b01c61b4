"""A leg's numbers over its last half, and how they stand against the reference curve."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.history.legs import INDEPENDENT, REFERENCE
from benchmarks.history.measuring import COLUMNS
from benchmarks.history.world import RENDERED

ROUND = 2 * RENDERED - 2  # passes of the clip, there and back


@dataclass(frozen=True)
class Result:
    """A leg over the last half of its passes."""

    leg: str
    excess: float  # levels: drift less that of independent frames
    warping_error: float
    slope: float  # levels per 1,000 passes, of the excess
    slope_error: float  # half of its 95 % interval
    flicker: float
    temporal_flip: float
    zone_drift: float
    detail: float
    kept_change: float
    seconds: float


def summarize(leg: str, table: dict[str, np.ndarray], alone: dict[str, np.ndarray]) -> Result:
    """Means over the last half, and the slope of the excess there.

    The excess is averaged over each round through the clip, there and back, first: forwards and backwards are not alike, and
    what is left hardly varies with the content. So few points have an honest interval; 1,000 passes have five in a half.
    """
    half = len(table["pass"]) // 2
    late = {name: values[half:] for name, values in table.items()}
    excess = (table["drift"] - alone["drift"])[half:]
    slope, error = slope_interval(excess, ROUND)
    means = {name: float(np.nanmean(late[name])) for name in COLUMNS[2:] if np.isfinite(late[name]).any()}
    known = {name: means.get(name, float("nan")) for name in Result.__dataclass_fields__ if name in COLUMNS}
    return Result(leg=leg, excess=float(excess.mean()), slope=slope, slope_error=error, **known)


def slope_interval(values: np.ndarray, period: int) -> tuple[float, float]:
    """Slope per 1,000 of a series and half of its 95 % interval (Student's t), by least squares over period means."""
    means = rounds(values, period)
    count = len(means)
    if count < 3:
        return float("nan"), float("nan")
    x = (np.arange(count) - (count - 1) / 2) * period / 1000
    slope = float((x * means).sum() / (x * x).sum())
    residual = means - means.mean() - slope * x
    t = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}.get(count - 2, 2.0)
    return slope, float(t * np.sqrt((residual**2).sum() / (count - 2) / (x * x).sum()))


def rounds(values: np.ndarray, period: int = ROUND) -> np.ndarray:
    """Means over whole periods; what is left at the end is dropped."""
    count = len(values) // period
    return values[: count * period].reshape(count, period).mean(axis=1)


def reference_curve(results: list[Result]) -> list[Result]:
    """The reference legs and independent frames, in the order of their blends."""
    return [r for r in results if r.leg.startswith("reference a=")] + [r for r in results if r.leg == INDEPENDENT]


def reference_at(results: list[Result], error: float) -> float | None:
    """Excess of the reference curve at a warping error; None where the curve does not reach.

    Where the curve folds back the least excess counts, so that a rectified loop is held against the best reference that is
    as steady.
    """
    curve, found = reference_curve(results), []
    for a, b in pairwise(curve):
        low, high = sorted((a.warping_error, b.warping_error))
        if low <= error <= high and high > low:
            share = (error - a.warping_error) / (b.warping_error - a.warping_error)
            found.append(a.excess + share * (b.excess - a.excess))
    return min(found) if found else None


def verdict(result: Result, results: list[Result]) -> str:
    """What the table says about a leg."""
    if result.leg in REFERENCE or result.leg == "reference dual-ref":
        return ""
    reference = [r for r in results if r.leg.startswith("reference a=")]
    if not reference:
        return f"no reference leg, {_trend(result)}"
    at = reference_at(results, result.warping_error)
    if at is None and result.warping_error > max(r.warping_error for r in results if r.leg in REFERENCE):
        return f"less steady than the whole curve, {_trend(result)}"
    # Steadier than the curve reaches: held against the least excess that it has anywhere.
    against = min(r.excess for r in reference) if at is None else at
    half = "under" if result.excess <= against / 2 else "OVER"
    return f"{'reference, anywhere' if at is None else 'reference'} {against:.2f}, {half} half, {_trend(result)}"


def _trend(result: Result) -> str:
    if np.isnan(result.slope):
        return "too short for a slope"
    return "flat" if abs(result.slope) <= result.slope_error else "MOVES"
