"""Disocclusion zones of a clip, and what a frame looks like inside and outside them.

The zones come from the source frames alone, so that every run of a clip is judged over the same pixels, whether it used
a mask or not. Knows nothing of runs and files.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from dltb.imaging.flow import check_frames, estimate_flow
from dltb.imaging.mask import disocclusion_mask

FRAME, INSIDE, OUTSIDE = "frame", "inside", "outside"  # names of zones
EXCESS = "inside-outside"  # the difference of the two, frame by frame


@dataclass(frozen=True)
class Zones:
    """Where history cannot be trusted on the way from one source frame to the next."""

    mask: np.ndarray  # bool [H, W], True inside the zones
    out_of_frame: float  # 0..1, share of the pixels whose history lies outside the frame; undilated
    flow: np.ndarray | None = None  # [H, W, 2] px, the motion that they come from

    @property
    def share(self) -> float:
        """0..1, share of the pixels inside the zones: how much of a frame the mask repaints."""
        return float(self.mask.mean())


def find_zones(previous: np.ndarray, current: np.ndarray) -> Zones:
    """The zones of `current`, from two consecutive source frames, uint8 [H, W, 3]; as `--reproject-mask` finds them."""
    flow = estimate_flow(previous, current, backward=True)
    assert flow.backward is not None
    # A way back that closes every round trip leaves the pixels that come from outside the frame.
    outside = disocclusion_mask(flow.forward, -flow.forward, dilate_px=0)
    return Zones(disocclusion_mask(flow.forward, flow.backward), float(outside.mean()), flow.forward)


def pixel_error(frame: np.ndarray, source: np.ndarray) -> np.ndarray:
    """float32 [H, W], 0..255: absolute difference of two frames, uint8 [H, W, 3], as the mean of the channels."""
    check_frames(frame=frame, source=source)
    return cv2.absdiff(frame, source).mean(axis=2, dtype=np.float32)


def luma(frame: np.ndarray) -> float:
    """0..255: mean BT.601 luma of a frame, uint8 [H, W, 3]."""
    return float(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).mean())


def zone_means(values: np.ndarray, zones: Zones | None) -> Iterator[tuple[str, float]]:
    """(zone, mean) of a map [H, W]; a zone without a pixel has no mean, and without zones there is the frame alone."""
    yield FRAME, float(values.mean())
    if zones is None:
        return
    inside, outside = values[zones.mask], values[~zones.mask]
    if inside.size:
        yield INSIDE, float(inside.mean())
    if outside.size:
        yield OUTSIDE, float(outside.mean())
    if inside.size and outside.size:
        yield EXCESS, float(inside.mean()) - float(outside.mean())
