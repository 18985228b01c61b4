"""The table of a comparison as a reader sees it: one line a metric, zone and run, then how far runs and tails came apart."""

from collections.abc import Mapping, Sequence

from dltb.metrics.bootstrap import Interval
from dltb.metrics.compare import (
    CHURN,
    DETAIL,
    FLICKER,
    LUMA,
    MAD,
    SATURATION,
    SOURCE,
    TEMPORAL_FLIP,
    WARPING,
    Curves,
    Key,
    Row,
    difference,
)
from dltb.metrics.compare_plot import letters_of, shown_pairs
from dltb.metrics.tables import aligned
from dltb.metrics.zones import EXCESS, FRAME, INSIDE, OUTSIDE

# In the table's order.
METRICS = (MAD, DETAIL, SATURATION, CHURN, FLICKER, WARPING, TEMPORAL_FLIP, LUMA)
ZONES = (INSIDE, OUTSIDE, EXCESS, FRAME)


def comparison_text(rows: Sequence[Row], curves: Curves, runs: Sequence[str], *, confidence: float) -> str:
    """The names of the runs, the table, aligned, and the ends of the curves."""
    letters = letters_of(runs)
    first, found = runs[0], {row.key: row.interval for row in rows}
    cells = [["metric", "zone", "run", f"mean [{100 * confidence:g} % interval]", f"minus {letters[first]}", "frames"]]
    for metric, zone in sorted({(row.key.metric, row.key.zone) for row in rows}, key=_in_order):
        told = (metric, zone)
        for run, letter in {SOURCE: SOURCE, **letters}.items():
            interval = found.get(Key(run, zone, metric))
            if interval is not None:
                minus = _cell(found.get(Key(difference(run, first), zone, metric)))
                cells.append([*told, letter, _cell(interval), minus, str(interval.samples)])
                told = ("", "")
    names = [f"{letter}: {run}" for run, letter in letters.items()]
    return "\n".join([*names, *aligned(cells), *_curve_lines(curves, runs, letters)])


def _in_order(pair: tuple[str, str]) -> tuple[int, int, str]:
    """Where a (metric, zone) stands in the table."""
    metric, zone = pair
    place = METRICS.index(metric) if metric in METRICS else len(METRICS)
    return place, ZONES.index(zone) if zone in ZONES else len(ZONES), zone


def _cell(interval: Interval | None) -> str:
    """`31.00 [29.80, 32.30]`, the mean alone where it has no interval, nothing where there is none."""
    if interval is None:
        return ""
    mean, *ends = (f"{round(x, 2) + 0:.2f}" for x in (interval.mean, interval.low, interval.high) if x is not None)
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _curve_lines(curves: Curves, runs: Sequence[str], letters: Mapping[str, str]) -> list[str]:
    """The ends of the curves; of many runs' pairs, those that the figure shows."""
    lines, pairs = [], shown_pairs(runs)
    for curve, values in curves.items():
        if len(curve.runs) == 2 and curve.runs not in pairs:
            continue
        first, last = min(values), max(values)
        ends = [f"{values[number]:.2f} at {number}" for number in dict.fromkeys((first, last))]
        lines.append(f"{curve.name(letters)}: {', '.join(ends)}")
    return lines
