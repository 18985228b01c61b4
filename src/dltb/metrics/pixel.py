"""Pixel drift: how far a frame is from the one before it and from where the run began, as mean absolute difference.

It sees pixels, not content: a loop can chatter in pixels and look settled, or settle far from its source.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

CONVERGED_BELOW = 0.5  # mean delta_prev, 0..255
LAST_FRAMES = 10


@dataclass(frozen=True)
class Drift:
    """One frame's two distances, each 0..255."""

    delta_prev: float  # 0 for the first frame
    delta_original: float


@dataclass(frozen=True)
class DriftSummary:
    """Means over the last rows, and which row has the largest value of each distance."""

    last: int  # rows that the means cover
    delta_prev: float
    delta_original: float
    peak_prev: int
    peak_original: int
    converged: bool


def mean_absolute_difference(a: np.ndarray, b: np.ndarray) -> float:  # uint8, one shape -> 0..255
    """Mean over pixels and channels of abs(a - b), without the wrap-around of uint8."""
    return float(np.abs(a.astype(np.int16) - b).mean())


def drift(frames: Iterable[np.ndarray], reference: np.ndarray | None = None) -> Iterator[Drift]:
    """One Drift a frame, in order; without a reference the first frame is the original. Holds two frames at a time."""
    previous = None
    for frame in frames:
        reference = frame if reference is None else reference
        delta_prev = 0.0 if previous is None else mean_absolute_difference(frame, previous)
        yield Drift(delta_prev, mean_absolute_difference(frame, reference))
        previous = frame


def summarize(rows: list[Drift], last: int = LAST_FRAMES) -> DriftSummary:
    """Converged: the last frames' mean delta_prev is small. The first row's 0 is a definition, not a measurement."""
    moves = [row.delta_prev for row in rows]
    distances = [row.delta_original for row in rows]
    measured = moves[1:][-last:]
    delta_prev = float(np.mean(measured)) if measured else 0.0
    return DriftSummary(
        last=min(last, len(rows)),
        delta_prev=delta_prev,
        delta_original=float(np.mean(distances[-last:])),
        peak_prev=int(np.argmax(moves)),
        peak_original=int(np.argmax(distances)),
        converged=bool(measured) and delta_prev < CONVERGED_BELOW,
    )
