"""Optical flow: direction, axes, units, and what it refuses."""

import cv2
import numpy as np
import pytest

from dltb import UsageError
from dltb.args.options import FLOWS
from dltb.imaging.flow import METHODS, estimate_flow

INSIDE = (slice(16, -16), slice(16, -16))


def blobs(seed, height=96, width=112):
    """A smooth grey texture, uint8 [H, W], with structure at the size that Farneback sees."""
    noise = np.random.default_rng(seed).normal(size=(height, width)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.5)
    return cv2.normalize(smooth, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def rgb(*channels):
    return np.stack(channels, -1)


def rolled(image, dx, dy):
    return np.roll(image, (dy, dx), (0, 1))


@pytest.fixture
def frame():
    return rgb(*(blobs(seed) for seed in (1, 2, 3)))


@pytest.mark.parametrize("method", ["farneback", "dis"])
@pytest.mark.parametrize(("dx", "dy"), [(3, 0), (0, -2), (-4, 3)])
def test_a_known_shift_is_found(frame, dx, dy, method):
    """Catches a flipped sign and (dy, dx) for (dx, dy): content that moves right by 3 has a forward flow of (+3, 0)."""
    flow = estimate_flow(frame, rolled(frame, dx, dy), backward=True, method=method)
    assert flow.forward.shape == (96, 112, 2)
    assert flow.forward.dtype == np.float32
    np.testing.assert_allclose(flow.forward[INSIDE].mean((0, 1)), (dx, dy), atol=0.1)
    np.testing.assert_allclose(flow.backward[INSIDE].mean((0, 1)), (-dx, -dy), atol=0.1)


def test_no_motion_is_a_method_too(frame):
    """Catches --flow none that estimates all the same."""
    flow = estimate_flow(frame, rolled(frame, 3, 0), backward=True, method="none")
    assert not flow.forward.any()
    assert not flow.backward.any()


def test_every_flow_that_can_be_asked_for_exists():
    """Catches a choice of --flow that fails only when it runs; raft has tests of its own."""
    assert {*METHODS, "raft"} == set(FLOWS)


def test_equal_frames_have_no_motion(frame):
    """Catches Farneback's false motion at the border of equal frames, along which a still clip would creep."""
    flow = estimate_flow(frame, frame.copy(), backward=True)
    assert flow.forward.shape == flow.backward.shape == (96, 112, 2)
    assert not flow.forward.any()
    assert not flow.backward.any()


def test_backward_is_computed_only_when_asked_for(frame):
    """Catches paying for the second flow in runs that use no mask."""
    assert estimate_flow(frame, frame).backward is None


def test_red_counts_more_than_blue():
    """Catches frames read as BGR: red moves right, blue left, and luma gives red almost three times blue's weight."""
    red, blue, flat = blobs(4), blobs(5), np.zeros((96, 112), np.uint8)
    flow = estimate_flow(rgb(red, flat, blue), rgb(rolled(red, 2, 0), flat, rolled(blue, -2, 0)))
    assert flow.forward[INSIDE][..., 0].mean() > 0.5


def test_views_are_accepted(frame):
    """Catches memory read in the wrong order where a frame is a view, as a mirrored one is."""
    mirrored = estimate_flow(frame[:, ::-1], rolled(frame, 3, 0)[:, ::-1])
    assert mirrored.forward[INSIDE][..., 0].mean() == pytest.approx(-3, abs=0.1)


@pytest.mark.parametrize("method", ["farneback", "dis"])
def test_result_does_not_depend_on_the_number_of_threads(frame, method):
    """Catches a run that resumes differently on a host with other cores."""
    threads = cv2.getNumThreads()
    try:
        results = []
        for count in (1, 4):
            cv2.setNumThreads(count)
            results.append(estimate_flow(frame, rolled(frame, 3, 1), method=method).forward.tobytes())
    finally:
        cv2.setNumThreads(threads)
    assert results[0] == results[1]


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_float_frames_are_refused(frame, scale):
    """Catches the silent failure on 0..1 floats, for which Farneback reports that nothing moves."""
    floats = (frame * scale).astype(np.float32)
    with pytest.raises(UsageError, match=r"previous has dtype float32; frames are uint8"):
        estimate_flow(floats, floats)
    with pytest.raises(UsageError, match="current has dtype"):
        estimate_flow(frame, floats)


def test_frames_of_two_sizes_are_refused(frame):
    """Catches a source that changes size half-way; the message names both sizes as width x height."""
    with pytest.raises(UsageError, match=r"previous 112x96 and current 100x96"):
        estimate_flow(frame, frame[:, :100])


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 4), (0, 8, 3)])
def test_what_is_no_rgb_frame_is_refused(shape):
    """Catches grey, alpha and empty arrays, on which OpenCV fails with an assertion of its own."""
    array = np.zeros(shape, np.uint8)
    with pytest.raises(UsageError, match="has shape"):
        estimate_flow(array, array)
