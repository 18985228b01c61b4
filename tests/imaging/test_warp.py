"""Warp and reprojection: identities first, then against rendered frames with exact motion vectors."""

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.flow import Flow, estimate_flow
from dltb.imaging.warp import make_reprojector, warp, warp_error_ratio
from tests.imaging.courtyard_pairs import courtyard_pairs

HEIGHT, WIDTH = 40, 56


def noise(seed=0, height=HEIGHT, width=WIDTH):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def constant_flow(dx, dy, height=HEIGHT, width=WIDTH):
    return np.full((height, width, 2), (dx, dy), np.float32)


def mean_error(a, b, where):
    """Mean absolute difference of two frames over the pixels of a bool mask."""
    return np.abs(a.astype(int) - b)[where].mean()


def test_zero_flow_is_the_identity():
    """Catches half-pixel offsets and rounding, which a loop would add up pass after pass."""
    state = noise()
    assert warp(state, constant_flow(0, 0)).tobytes() == state.tobytes()


@pytest.mark.parametrize(("dx", "dy"), [(3, 0), (0, -2), (-4, 5)])
def test_whole_pixels_equal_roll(dx, dy):
    """Catches a flipped sign and swapped axes: a flow of (3, 0) moves the content 3 px to the right."""
    state = noise()
    inside = (slice(5, -5), slice(5, -5))
    np.testing.assert_array_equal(warp(state, constant_flow(dx, dy))[inside], np.roll(state, (dy, dx), (0, 1))[inside])


def test_what_comes_in_over_the_border_repeats_it():
    """Catches black or mirrored borders."""
    state = noise()
    assert (warp(state, constant_flow(3, 0))[:, :3] == state[:, :1]).all()
    assert (warp(state, constant_flow(0, -1e6))[:] == state[-1:]).all()


def test_half_a_pixel_is_the_mean_of_two():
    """Catches nearest-neighbour and cubic lookups."""
    state = noise()
    expected = (state[:, :-1].astype(int) + state[:, 1:]) / 2
    np.testing.assert_allclose(warp(state, constant_flow(0.5, 0))[:, 1:], expected, atol=0.5)


def test_state_is_left_alone_and_views_are_accepted():
    """Catches writing into the carried state, and memory read in the wrong order where it is a view."""
    state = noise()
    state.setflags(write=False)
    mirrored = warp(state[:, ::-1], constant_flow(0, 0))
    np.testing.assert_array_equal(mirrored, state[:, ::-1])


def test_wrong_input_is_refused():
    """Catches a float state, and a flow of another size, for which OpenCV would return a crop without a word."""
    with pytest.raises(UsageError, match="state has dtype float64"):
        warp(noise() / 255, constant_flow(0, 0))
    with pytest.raises(UsageError, match=r"flow has shape \(20, 56, 2\)"):
        warp(noise(), constant_flow(0, 0, height=20))


def test_reprojector_without_mask_is_the_warp():
    """Catches a mask that is applied by default, or one that is reported but was not asked for."""
    state, flow = noise(1), Flow(constant_flow(2, 1))
    result = make_reprojector()(state, flow, noise(2))
    assert result.mask is None
    np.testing.assert_array_equal(result.frame, warp(state, flow.forward))


def test_masked_pixels_are_fresh_and_the_others_warped():
    """Catches a mask read the wrong way round, a soft edge, and a swap with the wrong frame: bytes are compared."""
    state, fresh = noise(1), noise(2)
    flow = Flow(constant_flow(6, 0), constant_flow(-6, 0))
    result = make_reprojector(mask_disocclusions=True)(state, flow, fresh)
    assert result.mask[:, :6].all()
    assert not result.mask[:, 9:].any()
    np.testing.assert_array_equal(result.frame[result.mask], fresh[result.mask])
    np.testing.assert_array_equal(result.frame[~result.mask], warp(state, flow.forward)[~result.mask])


@pytest.mark.parametrize(("settings", "masked"), [({}, True), ({"fb_tau": 2.5}, False), ({"fb_tau": 1.9}, True)])
def test_threshold_reaches_the_mask(settings, masked):
    """Catches a reprojector that ignores its threshold: the round trip misses by 2 px everywhere."""
    flow = Flow(constant_flow(0, 0), constant_flow(2, 0))
    result = make_reprojector(mask_disocclusions=True, **settings)(noise(1), flow, noise(2))
    assert result.mask.all() == result.mask.any() == masked


@pytest.mark.parametrize(("settings", "width"), [({}, 5), ({"dilate_px": 0}, 3), ({"dilate_px": 9}, 7)])
def test_dilation_reaches_the_mask(settings, width):
    """Catches a reprojector that ignores its dilation, and a default other than 5: half of it joins 3 px of border."""
    flow = Flow(constant_flow(3, 0), constant_flow(-3, 0))
    result = make_reprojector(mask_disocclusions=True, **settings)(noise(1), flow, noise(2))
    assert (result.mask.sum(1) == width).all()


def test_mask_without_backward_flow_is_refused():
    """Catches a masked run that silently masks nothing."""
    with pytest.raises(UsageError, match="backward flow"):
        make_reprojector(mask_disocclusions=True)(noise(1), Flow(constant_flow(0, 0)), noise(2))


def test_fresh_frame_of_another_size_is_refused():
    """Catches a model whose output has another size than its source."""
    with pytest.raises(UsageError, match="state 56x40 and fresh 56x20"):
        make_reprojector()(noise(), Flow(constant_flow(0, 0)), noise(height=20))


def test_a_known_shift_is_undone():
    """Catches flow and warp that disagree about the sign, each right by itself: a window moves over a frame."""
    scene = courtyard_pairs(1)[0].current
    previous, current = scene[8:120, 8:120], scene[6:118, 11:123]  # the content moves by (-3, +2)
    flow = estimate_flow(previous, current)
    inside = np.zeros((112, 112), bool)
    inside[12:-12, 12:-12] = True
    moved = make_reprojector()(previous, flow, current).frame
    assert mean_error(moved, current, inside) < 0.25 * mean_error(previous, current, inside)


def test_error_ratio_by_hand():
    """Catches 0 / 0, and a ratio that is upside down."""
    state = noise()
    assert warp_error_ratio(state, state, constant_flow(0, 0)) == 1.0
    assert warp_error_ratio(state, state, constant_flow(2, 0)) == np.inf
    assert warp_error_ratio(state, noise(9), constant_flow(0, 0)) == 1.0
    assert warp_error_ratio(state, warp(state, constant_flow(2, 0)), constant_flow(2, 0)) == 0.0


@pytest.mark.parametrize("step", [1, 3])
def test_warp_beats_no_warp_on_rendered_frames(step):
    """Catches every mistake that leaves the identities alone; with the wrong sign the warp is worse than none."""
    for pair in courtyard_pairs(step):
        flow = estimate_flow(pair.previous, pair.current).forward
        assert warp_error_ratio(pair.previous, pair.current, flow) < 0.7
        assert warp_error_ratio(pair.previous, pair.current, -flow) > 1.1


@pytest.mark.parametrize("step", [1, 3])
def test_exact_motion_beats_farneback(step, record_property):
    """Catches a warp that fits Farneback's own bias: where the point was visible, the exact vectors must do better."""
    for pair in courtyard_pairs(step):
        estimated = estimate_flow(pair.previous, pair.current).forward
        exact_error, farneback_error, error_without = (
            mean_error(warp(pair.previous, flow), pair.current, pair.truth.visible)
            for flow in (pair.true_flow, estimated, np.zeros_like(estimated))
        )
        record_property(f"step{step}_mae_exact_farneback_none", (exact_error, farneback_error, error_without))
        assert exact_error < farneback_error < error_without
