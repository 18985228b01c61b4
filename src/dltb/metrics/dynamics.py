"""What a run does besides moving away: the colour and detail of its frames, cycles, and how a difference to another grows.

A distance says how much frames change; colour and detail say how. ``measure_run`` gives every tool the same numbers.
Knows neither files nor options; numpy alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dltb.metrics.distances import Distance, Metric, score
from dltb.metrics.look import Look, look
from dltb.metrics.pixel import CONVERGED_BELOW, mean_absolute_difference
from dltb.metrics.table import MetricSpec

LONGEST_PERIOD = 16  # rows
PERIODS_SEEN = 4  # rounds that a cycle must have made
SHORTEST_VIEW = 16  # rows, also for short periods: in fewer, an oscillation that dies out looks like a cycle
RETURN_SHARE = 0.2  # of the mean step: how far from its place a frame of a cycle may be, a round or more later
GRID = 128  # samples along the longer side of what cycles are looked for in
ROWS_FITTED = 5  # at least, for a growth rate
HALF_A_LEVEL = 0.5  # mean absolute difference, 0..255, below which rounding to 8 bits bends it
LEFT_OUT = np.log(4)  # of the log distance: what lies this close to the final level is no free growth any more
STRAIGHT = 0.8  # R^2 of the line through the log distances


@dataclass(frozen=True)
class Cycle:
    """What a run ends in when it neither rests nor wanders. Rows are those of the table, every Nth pass under a stride."""

    period: int  # rows, at least 2
    rows: int  # at the end of the run, over which it was seen
    step: float  # mean distance of a frame to the one before, 0..255
    miss: float  # the largest distance between frames that are whole periods apart, 0..255

    def __str__(self) -> str:
        return (
            f"CYCLE of period {self.period}: over the last {self.rows} frames each step is {self.step:.3g} levels on "
            f"average, and frames {self.period}, {2 * self.period}, ... apart differ by at most {self.miss:.3g}"
        )


def detect_cycle(frames: Sequence[np.ndarray], *, longest: int = LONGEST_PERIOD) -> Cycle | None:
    """The cycle that a run ends in, from its last frames, uint8 of one shape (4 x ``longest`` are looked at).

    The distance is the mean absolute difference of values, whatever metric the table has: a cycle is a property of what
    the loop carries. Let the step be the mean distance of a frame to the one before. The run ends in a cycle of period
    p > 1 when, over its last max(4 p, 16) frames,

    - the step is at least 0.5 levels, dltb-drift's threshold: below, the run rests, however it flickers, and
    - every two frames that are a multiple of p apart differ by at most a fifth of the step.

    The smallest such p counts. Not found, by this rule: a cycle that began less than that many frames ago, one longer
    than ``longest``, and one under noise that is new in every pass and larger than a fifth of the step. Found, though it
    may end some day: a swing between two states that loses less than 3 % of its size a pass.
    """
    return find_cycle(self_distances(frames[-PERIODS_SEEN * longest :]), longest=longest)


def self_distances(frames: Sequence[np.ndarray]) -> np.ndarray:  # N x uint8, one shape -> float64 [N, N], 0..255
    """The mean absolute difference of every two frames."""
    found = np.zeros((len(frames), len(frames)))
    for i, frame in enumerate(frames):
        for j in range(i):
            found[i, j] = found[j, i] = mean_absolute_difference(frame, frames[j])
    return found


def find_cycle(distances: np.ndarray, *, longest: int = LONGEST_PERIOD) -> Cycle | None:  # [N, N], in order of time
    """The rule of ``detect_cycle`` on a matrix of distances."""
    for period in range(2, longest + 1):
        rows = max(PERIODS_SEEN * period, SHORTEST_VIEW)
        if rows > len(distances):
            return None
        view = distances[-rows:, -rows:]
        step = float(np.diagonal(view, 1).mean())
        miss = max(float(np.diagonal(view, apart).max()) for apart in range(period, rows, period))
        if step >= CONVERGED_BELOW and miss <= RETURN_SHARE * step:
            return Cycle(period, rows, step, miss)
    return None


def thinned(frame: np.ndarray) -> np.ndarray:  # uint8 [H, W, 3] -> uint8 [<= GRID, <= GRID, 3]
    """Pixels on a regular grid: a sample with the same mean absolute difference, on which 64 frames stay small."""
    stride = -(-max(frame.shape[:2]) // GRID)
    return frame[::stride, ::stride].copy()


@dataclass(frozen=True)
class Growth:
    """How fast two runs part, or why that cannot be told."""

    rate: float | None  # per pass, of the natural logarithm of the distance
    first: int | None = None  # frame numbers between which it was fitted
    last: int | None = None
    r_squared: float | None = None
    reason: str = ""  # why there is no rate

    def __str__(self) -> str:
        if self.rate is None:
            return f"no growth rate: {self.reason}"
        doubling = f"{'doubles' if self.rate > 0 else 'halves'} every {np.log(2) / abs(self.rate):.3g} passes"
        where = f"frames {self.first} to {self.last}, R^2 {self.r_squared:.2f}"
        return f"growth rate {self.rate:+.4f} per pass ({where}): the distance {doubling}"


def growth_rate(
    numbers: Sequence[int],
    distances: Sequence[float | None],
    levels: Sequence[float | None],
) -> Growth:
    """Slope of the log distance of two runs over its initial exponential part, at frames ``numbers``.

    A finite-time Lyapunov exponent along one pair of runs: Wolf et al. 1985, doi:10.1016/0167-2789(85)90011-9; the fit
    of a line is that of Rosenstein et al. 1993, doi:10.1016/0167-2789(93)90009-P. One pair is one direction from one
    start, so several pairs scatter. The rate is that of the *distance*. The mean absolute difference (``pixel``) grows as
    the difference does; under noise on the example image FLIP grows as its power 0.74, 1 - SSIM as its power 1.8 while it
    is small, and so do their rates.

    ``levels`` is the mean absolute difference of the same frames, 0..255. Only frames from the first to the last with at
    least half a level count: below, a value is rounded away or rounded up to a whole level, and what is left grows at
    another rate (a difference of 0.05 levels that grows by 0.14 per pass seems to grow by 0.21).

    The final level is the median of the last quarter, or the last value of a difference that sinks below half a level.
    The initial part ends where the distance first comes within a factor of 4 of the median, from below or above: closer,
    growth is slowed by the size of what there is to differ in. There is no rate when the distance changes less than
    10-fold in all (two starts that differ as much as any two frames, or too short a run), when the part has fewer than 5
    frames, or when the line does not fit (R^2 < 0.8).
    """
    x, y, sinks = _measured_part(numbers, distances, levels)
    if not len(x):
        return Growth(None, reason=_too_close(levels))
    if len(x) < ROWS_FITTED:
        told = f"they differ by half a level or more in {len(x)} common frames"
        return Growth(None, reason=f"{told}; at least {ROWS_FITTED} are needed")
    final = float(y[-1] if sinks else np.median(y[-max(3, len(y) // 4) :]))
    change = final - y[0]
    if abs(change) < np.log(10):
        told = f"from {np.exp(y[0]):.3g} to {np.exp(final):.3g}"
        return Growth(None, reason=f"the distance goes {told}; an exponential part needs a change of 10-fold or more")
    reached = np.flatnonzero(np.sign(change) * (final - y) < (0 if sinks else LEFT_OUT))
    end = int(reached[0]) if len(reached) else len(y)
    return _fitted(x[:end], y[:end])


def _fitted(x: np.ndarray, y: np.ndarray) -> Growth:
    """The line through the log distances ``y`` of frames ``x``, if it is one."""
    if len(x) < ROWS_FITTED:
        return Growth(
            None, reason=f"only {len(x)} frames lie before the final level; at least {ROWS_FITTED} are needed"
        )
    slope, offset = np.polyfit(x, y, 1)
    r_squared = float(1 - np.var(y - slope * x - offset) / np.var(y))
    if r_squared < STRAIGHT:
        told = f"over frames {x[0]} to {x[-1]} the log distance is no straight line (R^2 {r_squared:.2f})"
        return Growth(None, reason=told)
    return Growth(float(slope), int(x[0]), int(x[-1]), r_squared)


def _too_close(levels: Sequence[float | None]) -> str:
    if any(levels):
        return f"the two runs never differ by {HALF_A_LEVEL:g} levels or more; below, rounding to 8 bits rules"
    return "the two runs are the same in every common frame"


def _measured_part(
    numbers: Sequence[int], distances: Sequence[float | None], levels: Sequence[float | None]
) -> tuple[np.ndarray, np.ndarray, bool]:  # frame numbers, log distances, whether the runs come closer than that again
    """The frames from the first to the last that differ by half a level, less those that are equal."""
    rows = zip(numbers, distances, levels, strict=True)
    known = [(number, value, level) for number, value, level in rows if value is not None and level is not None]
    apart = [i for i, (_, _, level) in enumerate(known) if level >= HALF_A_LEVEL]
    first, last = (apart[0], apart[-1] + 1) if apart else (0, 0)
    part = [(number, np.log(value)) for number, value, _ in known[first:last] if value > 0]
    x, y = np.array([n for n, _ in part], int), np.array([v for _, v in part])
    return x, y, last < len(known)


@dataclass(frozen=True)
class Measured:
    """Everything that is measured of a run, one entry a frame."""

    rows: list[Distance]
    looks: list[Look]
    cycle: Cycle | None


def measure_run(
    frames: Iterable[np.ndarray],  # uint8 [H, W, 3]
    reference: np.ndarray | None,
    metric: Metric,
    *,
    batch_size: int = 8,
    lag: int = 0,
    others: Iterable[np.ndarray | None] | None = None,
) -> Measured:
    """Distances (see ``score``), colour, detail and the final cycle, in one pass over the frames.

    Holds a batch, ``lag`` prepared frames and the last 64 frames on a coarse grid, however long the run is.
    """
    looks: list[Look] = []
    last: deque[np.ndarray] = deque(maxlen=PERIODS_SEEN * LONGEST_PERIOD)

    def seen() -> Iterator[np.ndarray]:
        for frame in frames:
            looks.append(look(frame))
            last.append(thinned(frame))
            yield frame

    rows = list(score(seen(), reference, metric, batch_size=batch_size, lag=lag, others=others))
    return Measured(rows, looks, detect_cycle(list(last)))


def table_columns(
    measured: Measured,
    spec: MetricSpec,
    *,
    lag: int = 0,
    input_to_ref: Sequence[float] | None = None,
    against: bool = False,
) -> dict[str, list[float | None]]:
    """The columns of distance_metrics.csv, in order: what readers of the table rely on first, then what was added."""
    rows = measured.rows
    columns: dict[str, list[float | None]] = {
        spec.column("to_ref"): [row.to_ref for row in rows],
        spec.column("to_prev"): [row.to_prev for row in rows],
    }
    if input_to_ref is not None:
        columns[spec.column("input_to_ref")] = list(input_to_ref)
    if lag:
        columns[spec.column("to_lag")] = [row.to_lag for row in rows]
    if against:
        columns[spec.column("to_other")] = [row.to_other for row in rows]
    return columns | {name: [getattr(seen, name) for seen in measured.looks] for name in Look._fields}
