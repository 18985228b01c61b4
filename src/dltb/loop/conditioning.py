"""Conditionings: how the carried state and the fresh frame become the model's input.

Each is a factory ``make_conditioning(args, estimate_flow, warp) -> (combine, tail_source)`` under one signature:

- ``args`` has the attributes of the video options (anchor_blend, reproject, ref_order, ...);
- ``estimate_flow(previous, current)`` gives the motion between two *source* frames; the model's output never takes part;
- ``warp(carried, flow, fresh)`` gives the reprojected state as ``.frame`` and, when masking, ``.mask`` (True = repainted);
- ``combine(carried, fresh, previous)`` gives the ModelInput of a step of the main loop;
- ``tail_source(mode, carried, last_source)`` gives that of a step of a tail, where nothing moves and nothing is warped.

All frames are uint8 RGB [H, W, 3].
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from dltb.imaging.flow import check_frames, mean_motion
from dltb.loop.engine import Combine, Frame, ModelInput

TailSource = Callable[[str, Frame, Frame], Any]
Conditioning = tuple[Combine, TailSource]


def blend_frames(carried: Frame, fresh: Frame, share: float) -> Frame:
    """(1 - share) carried + share fresh, with the bytes of Pillow's Image.blend (which truncates)."""
    check_frames(carried=carried, fresh=fresh)
    blended = Image.blend(_bytes_as_grey(carried), _bytes_as_grey(fresh), share)
    return np.asarray(blended).reshape(carried.shape)


def _bytes_as_grey(frame: Frame) -> Image.Image:
    """A view for what treats every byte alike: as RGB, Pillow copies every pixel into four bytes and back."""
    height, width, channels = frame.shape
    return Image.frombuffer("L", (width * channels, height), np.ascontiguousarray(frame), "raw", "L", 0, 1)


def make_blend(args: Any, estimate_flow: Callable, warp: Callable) -> Conditioning:
    """One image: the pixel blend of the (warped) state and the fresh frame. At a = 1 the state and its warp drop out."""
    share = args.anchor_blend
    carry = _reprojected(estimate_flow, warp) if needs_motion(args) else _unmoved

    def combine(carried: Frame, fresh: Frame, previous: Frame | None) -> ModelInput:
        state, facts = carry(carried, fresh, previous)
        return ModelInput((blend_frames(state, fresh, share),), facts)

    def tail_source(mode: str, carried: Frame, last_source: Frame) -> ModelInput:
        fresh = tail_frame(mode, last_source)
        return ModelInput((carried if fresh is None else blend_frames(carried, fresh, share),))

    return combine, tail_source


def make_dual_ref(args: Any, estimate_flow: Callable, warp: Callable) -> Conditioning:
    """Two reference images: the (warped) state and the fresh frame.

    Convention: state-first gives [P', N_n], frame-first [N_n, P'].
    """
    carry = _reprojected(estimate_flow, warp) if needs_motion(args) else _unmoved

    def ordered(state: Frame, fresh: Frame) -> tuple[Frame, Frame]:
        return (state, fresh) if args.ref_order == "state-first" else (fresh, state)

    def combine(carried: Frame, fresh: Frame, previous: Frame | None) -> ModelInput:
        state, facts = carry(carried, fresh, previous)
        return ModelInput(ordered(state, fresh), facts)

    def tail_source(mode: str, carried: Frame, last_source: Frame) -> ModelInput:
        fresh = tail_frame(mode, last_source)
        return ModelInput((carried,) if fresh is None else ordered(carried, fresh))

    return combine, tail_source


CONDITIONINGS = {"blend": make_blend, "dual-ref": make_dual_ref}


def make_conditioning(args: Any, estimate_flow: Callable, warp: Callable) -> Conditioning:
    """The conditioning that ``args`` names; anchored takes every fresh frame alone, and only its tails carry a state."""
    combine, tail_source = CONDITIONINGS[args.conditioning](args, estimate_flow, warp)
    return (_fresh_alone if args.mode == "anchored" else combine), tail_source


def needs_motion(args: Any) -> bool:
    """Whether flow and warp reach the model at all; what does not reach it is not computed."""
    blended_away = args.conditioning == "blend" and args.anchor_blend >= 1.0
    return args.mode == "stateful" and args.reproject and not blended_away


def tail_frame(mode: str, last_source: Frame) -> Frame | None:
    """The fresh frame of every step of a tail; None where there is none."""
    if mode == "black":
        return np.zeros_like(last_source)
    return last_source if mode == "freeze" else None


def _fresh_alone(carried: Frame, fresh: Frame, previous: Frame | None) -> ModelInput:
    return ModelInput((fresh,))


def _unmoved(carried: Frame, fresh: Frame, previous: Frame | None) -> tuple[Frame, dict[str, float]]:
    return carried, {}


def _reprojected(estimate_flow: Callable, warp: Callable) -> Callable:
    def carry(carried: Frame, fresh: Frame, previous: Frame) -> tuple[Frame, dict[str, float]]:
        flow = estimate_flow(previous, fresh)
        moved = warp(carried, flow, fresh)
        known = getattr(flow, "motion_px", None)
        facts = {"motion_px": mean_motion(flow.forward) if known is None else known}
        if getattr(flow, "warp_error", None) is not None:
            facts["warp_error"] = flow.warp_error
        if moved.mask is not None:
            facts["mask_share"] = np.count_nonzero(moved.mask) / moved.mask.size
        return moved.frame, facts | dict(getattr(moved, "facts", {}))

    return carry
