"""What the source says about its own motion: mismatch, cuts, and the round trip."""

import cv2
import numpy as np
import pytest

from dltb.imaging.evidence import inconsistent, mismatch, unexplained, with_evidence
from dltb.imaging.flow import Flow, estimate_flow
from tests.imaging.courtyard_pairs import courtyard_pairs


def test_true_motion_explains_rendered_frames():
    """Catches a cut found in ordinary motion, and mismatch over the whole frame: edges and highlights only."""
    for step in (1, 3):
        for pair in courtyard_pairs(step):
            found = with_evidence(Flow(pair.true_flow, hidden=~pair.truth.visible), pair.previous, pair.current, 12.0)
            assert found.unexplained < 0.3
            assert found.mismatch[pair.truth.visible].mean() < 0.05
            assert found.mismatch[~pair.truth.visible].mean() > 3 * found.mismatch[pair.truth.visible].mean()
            np.testing.assert_array_equal(found.hidden, ~pair.truth.visible)
            assert not (~pair.truth.visible & ~found.unseen).any()


def test_cuts_between_rendered_views_are_found():
    """Catches a threshold that only noise reaches: other views of the same scene, and the scene turned over, are cuts."""
    pairs = courtyard_pairs(1)
    for other in (
        pairs[-1].current[:, ::-1],
        pairs[0].current[::-1],
        cv2.rotate(pairs[0].current, cv2.ROTATE_90_CLOCKWISE),
    ):
        before, now = pairs[0].current, np.ascontiguousarray(other)
        found = with_evidence(estimate_flow(before, now), before, now, 12.0)
        assert found.unexplained > 0.65


@pytest.mark.parametrize(("level", "cut"), [(0, False), (1, False), (120, True)])
def test_a_step_in_brightness(level, cut):
    """Catches noise or rounding taken for a cut, and a flash that is not: the size of the step decides."""
    frame = courtyard_pairs(1)[0].current // 2
    assert (unexplained(frame, frame + np.uint8(level)) > 0.65) is cut


def test_equal_and_flat_frames_are_no_cut():
    """Catches a division by nothing where nothing is in the picture."""
    flat = np.full((64, 64, 3), 90, np.uint8)
    assert unexplained(flat, flat) == 0
    assert unexplained(flat, flat + np.uint8(60)) == pytest.approx(1)


def test_mismatch_tolerates_half_a_pixel_and_no_more():
    """Catches a test that fires on every edge of a good flow, and one that misses what moved by its own size."""
    pair = courtyard_pairs(1)[0]
    half, far = (cv2.warpAffine(pair.current, np.float32([[1, 0, dx], [0, 1, 0]]), (128, 128)) for dx in (0.5, 6))
    inside = (slice(8, -8), slice(8, -8))
    assert mismatch(half, pair.current, 12.0)[inside].mean() < 0.01
    assert mismatch(far, pair.current, 12.0)[inside].mean() > 0.1


def test_round_trip_by_hand():
    """Catches thresholds of another unit: |f + b|^2 > 0.01 (|f|^2 + |b|^2) + 0.5."""
    forward = np.float32([[(10, 0), (10, 0), (0, 0), (0, 0), (np.nan, 0)]])
    backward = np.float32([[(-8.6, 0), (-8.4, 0), (0.7, 0), (0.72, 0), (0, 0)]])
    np.testing.assert_array_equal(inconsistent(forward, backward), [[False, True, False, True, True]])
