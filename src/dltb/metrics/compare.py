"""Statistics of runs of one clip whose frames decorrelate: what holds on average, not frame by frame.

A run is compared with its source, in zones, and with the other runs; runs that see the same source frames give paired
differences, whose intervals are narrower than those of the runs. Knows nothing of run directories.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from dltb.metrics import tables
from dltb.metrics.bootstrap import Interval, mean_interval
from dltb.metrics.look import detail_energy, saturation
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.temporal import flicker, temporal_flip, warping_error
from dltb.metrics.zones import EXCESS, FRAME, OUTSIDE, Zones, find_zones, luma, pixel_error, zone_means

SOURCE = "source"  # the name of the row that is the ground truth
MAD, DETAIL, SATURATION, CHURN = "mad", "detail", "saturation", "delta_prev"
FLICKER, WARPING, TEMPORAL_FLIP = "flicker", "warping_error", "temporal_flip"
MASKED, OUT_OF_FRAME, LUMA = "masked_percent", "out_of_frame_percent", "luma"
ROW_COLUMNS = ("run", "zone", "metric", "mean", "low", "high", "frames")
CURVE_COLUMNS = ("curve", "frame", "value")

NO_LETTERS: Mapping[str, str] = MappingProxyType({})
Values = dict[int, float]  # by frame number; a frame in which there is nothing to measure is absent


@dataclass(frozen=True)
class Step:
    """Frames of equal number, uint8 [H, W, 3]."""

    number: int
    previous: np.ndarray | None  # the source frame just before; None at the first
    source: np.ndarray
    frames: Sequence[np.ndarray]  # one a run


@dataclass(frozen=True)
class Key:
    """What a series is about."""

    run: str
    zone: str
    metric: str


@dataclass(frozen=True)
class Curve:
    """What a curve is about: the MAD of two runs, the MAD of two tails of a run, or the luma of one tail."""

    runs: tuple[str, ...]
    tails: tuple[str, ...] = ()

    def name(self, letters: Mapping[str, str] = NO_LETTERS) -> str:
        """As the table of curves has it; `letters` are short names of runs."""
        runs = " | ".join(letters.get(run, run) for run in self.runs)
        kind = {0: "decorrelation", 1: "luma of tail", 2: "tails"}[len(self.tails)]
        return f"{' '.join(filter(None, (kind, ' | '.join(self.tails))))}: {runs}"


Series = dict[Key, Values]
Curves = dict[Curve, Values]


@dataclass(frozen=True)
class Row:
    """The mean of a series, with its interval."""

    key: Key
    interval: Interval


def measure(steps: Iterable[Step], runs: Sequence[str]) -> tuple[Series, Curves]:
    """Every series of the runs and of the source, and the decorrelation of every pair; holds two steps at a time."""
    series: Series = defaultdict(dict)
    curves: Curves = defaultdict(dict)
    before: dict[str, np.ndarray] = {}
    last = 0
    for step in steps:
        zones = None if step.previous is None else find_zones(step.previous, step.source)
        pictures = {SOURCE: step.source, **dict(zip(runs, step.frames, strict=True))}
        for key, value in _step_values(pictures, step.source, zones):
            series[key][step.number] = value
        for name, frame in pictures.items() if before else ():
            series[Key(name, FRAME, CHURN)][step.number] = mean_absolute_difference(frame, before[name])
        for key, value in _steadiness(pictures, before, step, zones) if step.number == last + 1 else ():
            series[key][step.number] = value
        for a, b in itertools.combinations(runs, 2):
            curves[Curve((a, b))][step.number] = mean_absolute_difference(pictures[a], pictures[b])
        before, last = pictures, step.number
    return dict(series), dict(curves)


def _step_values(
    pictures: Mapping[str, np.ndarray], source: np.ndarray, zones: Zones | None
) -> Iterator[tuple[Key, float]]:
    for name, frame in pictures.items():
        maps = {DETAIL: detail_energy(frame), SATURATION: saturation(frame)}
        if name != SOURCE:
            maps = {MAD: pixel_error(frame, source), **maps}
        for metric, values in maps.items():
            for zone, mean in zone_means(values, zones):
                yield Key(name, zone, metric), mean
    if zones is not None:
        yield Key(SOURCE, FRAME, MASKED), 100 * zones.share
        yield Key(SOURCE, FRAME, OUT_OF_FRAME), 100 * zones.out_of_frame


def _steadiness(
    pictures: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray], step: Step, zones: Zones | None
) -> Iterator[tuple[Key, float]]:
    """What moves in each picture that does not move in the source; of consecutive frames only."""
    if step.previous is None or zones is None or zones.flow is None:
        return
    for name, frame in pictures.items():
        pair = frame, before[name]
        yield Key(name, FRAME, FLICKER), flicker(*pair, step.source, step.previous)
        for metric, error in ((WARPING, warping_error), (TEMPORAL_FLIP, temporal_flip)):
            value = error(*pair, zones.flow, zones.mask)
            if value is not None:
                yield Key(name, OUTSIDE, metric), value


def measure_tails(steps: Iterable[tuple[int, Mapping[str, np.ndarray]]], run: str) -> tuple[Series, Curves]:
    """Churn and luma of each tail of a run, and how far its tails, which start from one state, come apart."""
    series: Series = defaultdict(dict)
    curves: Curves = defaultdict(dict)
    before: Mapping[str, np.ndarray] = {}
    for number, frames in steps:
        for mode, frame in frames.items():
            series[Key(run, tail_zone(mode), LUMA)][number] = luma(frame)
            curves[Curve((run,), (mode,))][number] = luma(frame)
            if before:
                series[Key(run, tail_zone(mode), CHURN)][number] = mean_absolute_difference(frame, before[mode])
        for a, b in itertools.combinations(frames, 2):
            curves[Curve((run,), (a, b))][number] = mean_absolute_difference(frames[a], frames[b])
        before = frames
    return dict(series), dict(curves)


def difference(run: str, base: str) -> str:
    """The name of the paired difference of two runs."""
    return f"{run} - {base}"


def tail_zone(mode: str) -> str:
    """A tail's name in the column of zones."""
    return f"tail {mode}"


def paired_differences(series: Series, runs: Sequence[str]) -> Series:
    """For every run after the first, its difference to the first over the frames that both have."""
    paired: Series = {}
    for key, values in series.items():
        base = series.get(Key(runs[0], key.zone, key.metric), {})
        shared = [number for number in values if number in base]
        if key.run in runs[1:] and shared:
            name = difference(key.run, runs[0])
            paired[Key(name, key.zone, key.metric)] = {number: values[number] - base[number] for number in shared}
    return paired


def summarize(series: Series, runs: Sequence[str], *, confidence: float = 0.95, resamples: int = 1000) -> list[Row]:
    """One row a series, then one a paired difference."""

    def row(key: Key, values: Values, lowest: float) -> Row:
        x = np.array(list(values.values()))
        return Row(key, mean_interval(x, lowest=lowest, confidence=confidence, resamples=resamples))

    measured = [row(key, values, -np.inf if key.zone == EXCESS else 0) for key, values in series.items()]
    return measured + [row(key, values, -np.inf) for key, values in paired_differences(series, runs).items()]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the long table; low and high are empty where there are too few frames."""
    cells = ((row.key.run, row.key.zone, row.key.metric, *_cells(row.interval)) for row in rows)
    tables.write_rows(path, ROW_COLUMNS, cells)


def _cells(interval: Interval) -> tuple[str, ...]:
    numbers = (interval.mean, interval.low, interval.high)
    return (*("" if value is None else f"{value:.6f}" for value in numbers), str(interval.samples))


def write_curves(path: Path, curves: Curves) -> None:
    """Write the curves, one under the other."""
    cells = ((curve.name(), str(n), f"{value:.6f}") for curve, values in curves.items() for n, value in values.items())
    tables.write_rows(path, CURVE_COLUMNS, cells)
