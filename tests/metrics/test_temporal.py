"""Temporal measures against answers by hand, and against rendered frames whose motion is known."""

import numpy as np
import pytest

from dltb.imaging.mask import outside_frame
from dltb.metrics.temporal import flicker, temporal_flip, warping_error
from tests.imaging.courtyard_pairs import courtyard_pairs

SIDE = 40
STILL = np.zeros((SIDE, SIDE, 2), np.float32)


@pytest.fixture
def frame():
    return np.random.default_rng(1).integers(0, 200, (SIDE, SIDE, 3), dtype=np.uint8)


def test_what_moves_along_has_no_error(frame):
    """Catches the flow's sign: content that moves right by 3 with its flow is steady, but for the edge that came in."""
    flow = np.broadcast_to(np.float32((3, 0)), STILL.shape)
    moved = np.roll(frame, 3, axis=1)
    assert warping_error(moved, frame, flow, outside_frame(flow)) == 0
    assert temporal_flip(moved, frame, flow, outside_frame(flow)) < 0.02  # its filters reach into the edge
    assert warping_error(moved, frame, flow) > 1
    assert warping_error(moved, frame, -flow) > 20


def test_a_change_counts_once_and_only_where_it_can_be_judged(frame):
    """Catches a mean over masked pixels, and squares in the place of levels."""
    changed = frame.copy()
    changed[:10] += 8
    unseen = np.zeros((SIDE, SIDE), bool)
    assert warping_error(changed, frame, STILL) == pytest.approx(8 * 10 / SIDE)
    unseen[:10] = True
    assert warping_error(changed, frame, STILL, unseen) == 0
    assert warping_error(changed, frame, STILL, np.ones_like(unseen)) is None
    assert temporal_flip(changed, frame, STILL, np.ones_like(unseen)) is None


def test_flicker_is_what_the_source_does_not_do(frame):
    """Catches the source's own motion counted as flicker, and wrap-around of uint8."""
    later = np.roll(frame, 2, axis=1)
    assert flicker(later, frame, later, frame) == 0
    assert flicker(later + np.uint8(20), frame + np.uint8(20), later, frame) == 0
    assert flicker(later + np.uint8(20), frame, later, frame) == 20
    assert flicker(frame, frame + np.uint8(20), frame, frame) == 20


def test_true_motion_explains_the_rendered_source():
    """Catches a measure that true motion does not lower: the floor of every run of the clip."""
    for pair in courtyard_pairs(3):
        unseen = ~pair.truth.visible
        along = warping_error(pair.current, pair.previous, pair.true_flow, unseen)
        still = warping_error(pair.current, pair.previous, np.zeros_like(pair.true_flow), unseen)
        assert along < 0.5 * still
        flips = [
            temporal_flip(pair.current, pair.previous, flow, unseen) for flow in (pair.true_flow, 0 * pair.true_flow)
        ]
        assert flips[0] < 0.7 * flips[1]
