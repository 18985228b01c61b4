"""Moving the carried state along with the motion of the source, and swapping in the fresh frame where that fails.

Knows nothing of how a flow was found or of the model that painted the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from dltb import UsageError
from dltb.imaging.flow import Flow, as_flow, check_frames
from dltb.imaging.mask import dilated, disocclusion_mask, outside_frame, unseen

HIDDEN_DILATE = 3  # px: an exact mask is right to a pixel; its edges are antialiased in the frames


@dataclass(frozen=True)
class Reprojected:
    """The state as it looks after the motion."""

    frame: np.ndarray  # [H, W, 3] uint8 RGB
    mask: np.ndarray | None  # [H, W] bool, True where `frame` has the fresh frame's pixels; None without masking
    facts: Mapping[str, float] = field(default_factory=dict)  # what else is worth a line in the log


def warp(state: np.ndarray, flow: Flow | np.ndarray) -> np.ndarray:
    """The state, uint8 RGB [H, W, 3], moved along `flow`, a bare one [H, W, 2] px; bilinear, border replicate.

    Convention: backward map; target p fetches state at p - flow(p).
    """
    check_frames(state=state)
    flow = as_flow(flow)
    shape, wanted = flow.forward.shape, (*state.shape[:2], 2)
    if shape != wanted:
        raise UsageError(f"flow has shape {shape}; a state of shape {state.shape} takes {wanted}")
    return cv2.remap(state, *flow.fetch, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@dataclass(frozen=True)
class Reprojector:
    """``reproject(state, flow, fresh)``: warps the state and, with the mask, takes ``fresh`` where nothing can be fetched.

    The swap is hard: a soft edge would mix two images that differ.
    """

    mask_disocclusions: bool = False
    fb_tau: float = 1.5  # px, of the mask
    dilate_px: int = 5  # px, of the mask

    def prepare(self, flow: Flow) -> Flow:
        """The flow with the mask that follows from it, so that it can be found ahead of the state."""
        if not self.mask_disocclusions or flow.mask is not None:
            return flow
        return flow.sharing_fetch(replace(flow, mask=_untrusted(flow, self.fb_tau, self.dilate_px)))

    def __call__(self, state: np.ndarray, flow: Flow, fresh: np.ndarray) -> Reprojected:
        """Move the state, uint8 [H, W, 3], along ``flow``."""
        check_frames(state=state, fresh=fresh)
        warped = warp(state, flow)
        if not self.mask_disocclusions:
            return Reprojected(warped, None)
        mask = self.prepare(flow).mask
        cv2.copyTo(fresh, mask.view(np.uint8), warped)
        return Reprojected(warped, mask)


def make_reprojector(mask_disocclusions: bool = False, fb_tau: float = 1.5, dilate_px: int = 5) -> Reprojector:
    """A reprojector; ``fb_tau`` (px) and ``dilate_px`` are the mask's."""
    return Reprojector(mask_disocclusions, fb_tau, dilate_px)


def _untrusted(flow: Flow, fb_tau: float, dilate_px: int) -> np.ndarray:
    """Bool [H, W], True = repaint: by what the renderer says is hidden, else by the round trip."""
    if flow.hidden is not None:
        return dilated(unseen(flow, flow.hidden), HIDDEN_DILATE)
    if flow.backward is None:
        raise UsageError("the disocclusion mask needs the backward flow: estimate_flow(..., backward=True)")
    return disocclusion_mask(flow.forward, flow.backward, fb_tau, dilate_px, outside_frame(flow))


def warp_error_ratio(previous: np.ndarray, current: np.ndarray, flow: Flow | np.ndarray) -> float:
    """How well a flow explains two source frames: error with the warp / error without it, mean absolute.

    Below 1 the warp helps, above 1 it harms (a cut, a flash, a wrong sign). 1.0 when both errors are zero, and inf when
    the frames are equal but the flow is not zero.
    """
    check_frames(previous=previous, current=current)
    moved = float(cv2.absdiff(warp(previous, flow), current).mean())
    unmoved = float(cv2.absdiff(previous, current).mean())
    if unmoved == 0:
        return 1.0 if moved == 0 else float("inf")
    return moved / unmoved
