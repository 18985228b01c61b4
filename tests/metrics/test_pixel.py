"""Pixel drift against answers by hand."""

import numpy as np
import pytest

from dltb.metrics.pixel import Drift, drift, mean_absolute_difference, summarize


def grey(level: int) -> np.ndarray:
    return np.full((4, 6, 3), level, np.uint8)


def test_difference_by_hand() -> None:
    """Catches uint8 wrap-around (3 - 5 = 254), a square instead of an absolute value, and a mean over pixels only."""
    assert mean_absolute_difference(grey(3), grey(5)) == 2
    assert mean_absolute_difference(grey(5), grey(3)) == 2
    assert mean_absolute_difference(grey(0), grey(255)) == 255
    one_channel = grey(0)
    one_channel[..., 0] = 30
    assert mean_absolute_difference(one_channel, grey(0)) == 10


def test_distance_to_itself_is_zero() -> None:
    """Catches an offset."""
    frame = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    assert mean_absolute_difference(frame, frame) == 0


def test_drift_against_a_reference() -> None:
    """Catches delta_prev of the first row being taken to the reference."""
    rows = list(drift([grey(10), grey(14), grey(11)], grey(12)))
    assert rows == [Drift(0, 2), Drift(4, 2), Drift(3, 1)]


def test_without_a_reference_the_first_frame_is_the_original() -> None:
    """Catches an original that moves along."""
    assert [row.delta_original for row in drift([grey(10), grey(14), grey(11)])] == [0, 4, 1]


def test_summary_covers_the_last_ten() -> None:
    """Catches means over everything, and the defined 0 of the first row pulling the mean down."""
    rows = [Drift(0, 9)] + [Drift(8, 50)] * 5 + [Drift(0.4, 20)] * 10
    found = summarize(rows)
    assert (found.last, found.delta_original, found.converged) == (10, 20, True)
    assert found.delta_prev == pytest.approx(0.4)
    assert (found.peak_prev, found.peak_original) == (1, 1)
    assert summarize([Drift(0, 0), Drift(0.6, 0)]).delta_prev == 0.6


def test_one_frame_has_not_converged() -> None:
    """Catches a verdict from a row that measured nothing."""
    assert not summarize([Drift(0, 3)]).converged
    assert summarize([Drift(0, 0), Drift(0, 0)]).converged
    assert not summarize([Drift(0, 0), Drift(0.5, 0)]).converged
