"""Conditionings: bytes of the blend, order of the references, and what is never computed."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dltb import UsageError
from dltb.args.options import TAIL_MODES, VideoOptions
from dltb.loop.conditioning import blend_frames, make_conditioning, needs_motion, tail_frame

rng = np.random.default_rng(0)
CARRIED, FRESH, PREVIOUS = (rng.integers(0, 256, (8, 8, 3), dtype=np.uint8) for _ in range(3))


def forbidden(*args):
    raise AssertionError("must not be computed")


def options(**changes) -> VideoOptions:
    return VideoOptions(**changes)


def moved(carried, flow, fresh):
    mask = np.zeros(carried.shape[:2], bool)
    mask[:2] = True
    return SimpleNamespace(frame=carried[::-1], mask=mask)


def flow(previous, current):
    assert previous is PREVIOUS
    assert current is FRESH
    return SimpleNamespace(forward=np.full((8, 8, 2), [3.0, 4.0], np.float32))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_blend_has_pillows_bytes(share):
    """Catches a blend that rounds where Image.blend truncates: one grey level a pass, compounded."""
    expected = Image.blend(Image.fromarray(CARRIED), Image.fromarray(FRESH), share)
    assert np.array_equal(blend_frames(CARRIED, FRESH, share), np.asarray(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_only_frames_are_blended(dtype):
    """Catches the bytes of other numbers blended as if they were pixels."""
    for pair in ((CARRIED.astype(dtype), FRESH), (CARRIED, FRESH.astype(dtype))):
        with pytest.raises(UsageError, match=f"has dtype {np.dtype(dtype)}"):
            blend_frames(*pair, 0.5)


def test_blend_endpoints_are_exact():
    """Catches an endpoint that is nearly the fresh frame or nearly the state."""
    assert np.array_equal(blend_frames(CARRIED, FRESH, 1.0), FRESH)
    assert np.array_equal(blend_frames(CARRIED, FRESH, 0.0), CARRIED)


def test_at_full_anchor_flow_and_warp_are_skipped():
    """Catches paying for motion that the blend throws away; dual-ref always needs it."""
    combine, _ = make_conditioning(options(anchor_blend=1.0), forbidden, forbidden)
    assert np.array_equal(combine(CARRIED, FRESH, PREVIOUS).images[0], FRESH)
    assert needs_motion(options(anchor_blend=1.0, conditioning="dual-ref"))
    assert not needs_motion(options(mode="anchored"))
    assert not needs_motion(options(reproject=False))


def test_anchored_takes_the_fresh_frame_alone():
    """Catches an anchored run that is not the boil test."""
    for conditioning in ("blend", "dual-ref"):
        combine, _ = make_conditioning(options(mode="anchored", conditioning=conditioning), forbidden, forbidden)
        (image,) = combine(CARRIED, FRESH, PREVIOUS).images
        assert image is FRESH


def test_blend_warps_the_state_first_and_says_what_it_did():
    """Catches blending before the warp, flow of the model's output, and facts that do not reach the log."""
    combine, _ = make_conditioning(options(anchor_blend=0.25), flow, moved)
    made = combine(CARRIED, FRESH, PREVIOUS)
    assert np.array_equal(made.images[0], blend_frames(CARRIED[::-1], FRESH, 0.25))
    assert made.facts == {"motion_px": 5.0, "mask_share": 0.25}


def test_the_share_of_a_mask_of_floats():
    """Catches a share counted over bytes where a warp of one's own gives 0.0 and 1.0."""

    def float_mask(carried, flow, fresh):
        found = moved(carried, flow, fresh)
        return SimpleNamespace(frame=found.frame, mask=found.mask.astype(np.float32))

    combine, _ = make_conditioning(options(), flow, float_mask)
    assert combine(CARRIED, FRESH, PREVIOUS).facts["mask_share"] == 0.25


@pytest.mark.parametrize(("order", "first"), [("state-first", "state"), ("frame-first", "frame")])
def test_reference_order(order, first):
    """Catches references that are swapped: prompts name them by number."""
    combine, tail = make_conditioning(options(conditioning="dual-ref", ref_order=order), flow, moved)
    images = combine(CARRIED, FRESH, PREVIOUS).images
    expected = [CARRIED[::-1], FRESH] if first == "state" else [FRESH, CARRIED[::-1]]
    assert all(np.array_equal(a, b) for a, b in zip(images, expected, strict=True))
    tail_images = tail("freeze", CARRIED, FRESH).images
    assert tail_images[0] is (CARRIED if first == "state" else FRESH)


@pytest.mark.parametrize("mode", TAIL_MODES)
@pytest.mark.parametrize("main", ["anchored", "stateful"])
def test_tails_follow_stateful_rules_and_never_move(mode, main):
    """Catches a tail that warps a still frame, or that follows the main loop's anchored rule."""
    _, tail = make_conditioning(options(mode=main, anchor_blend=0.25), forbidden, forbidden)
    (image,) = tail(mode, CARRIED, FRESH).images
    fresh = tail_frame(mode, FRESH)
    assert np.array_equal(image, CARRIED if mode == "free" else blend_frames(CARRIED, fresh, 0.25))
    _, tail = make_conditioning(options(mode=main, conditioning="dual-ref"), forbidden, forbidden)
    assert len(tail(mode, CARRIED, FRESH).images) == (1 if mode == "free" else 2)


def test_tail_frames_are_what_their_names_say():
    """Catches a black tail that is dark grey and a freeze tail that is not the last frame."""
    assert tail_frame("freeze", FRESH) is FRESH
    assert tail_frame("free", FRESH) is None
    assert not tail_frame("black", FRESH).any()
