"""Steadiness over time: what moves in a frame that does not move in the source. Knows neither runs nor the loop.

Frames are uint8 RGB [H, W, 3]; flows [H, W, 2] px are backward maps, as `dltb.imaging.flow` has them.
"""

import cv2
import numpy as np

from dltb.imaging.flow import Flow
from dltb.imaging.warp import warp
from dltb.metrics.flip import error_map, see


def warping_error(
    frame: np.ndarray, previous: np.ndarray, flow: Flow | np.ndarray, unseen: np.ndarray | None = None
) -> float | None:
    """0..255: mean absolute difference of a frame and the one before, moved to it, outside what was not seen there.

    After Lai et al., Learning blind video temporal consistency (2018), equation 6, in levels in the place of squares.
    `unseen` is bool [H, W]. None where no pixel is left. A source has one too: shading, highlights, resampling.
    """
    return _mean(cv2.absdiff(frame, warp(previous, flow)), unseen)


def flicker(frame: np.ndarray, previous: np.ndarray, source: np.ndarray, source_previous: np.ndarray) -> float:
    """0..255: mean absolute change from frame to frame that the source does not make; needs no motion.

    0 for the source itself and for any change that stays in its place on the screen.
    """
    change = cv2.subtract(frame, previous, dtype=cv2.CV_16S)
    wanted = cv2.subtract(source, source_previous, dtype=cv2.CV_16S)
    return cv2.norm(change, wanted, cv2.NORM_L1) / change.size


def temporal_flip(
    frame: np.ndarray, previous: np.ndarray, flow: np.ndarray, unseen: np.ndarray | None = None
) -> float | None:
    """0..1: FLIP of a frame and the one before, moved to it, outside what was not seen there."""
    return _mean(error_map(see(frame), see(warp(previous, flow))), unseen)


def _mean(values: np.ndarray, unseen: np.ndarray | None = None) -> float | None:
    """Over pixels and channels of [H, W] or [H, W, C]; OpenCV's, as numpy's takes ten times as long with a mask."""
    if unseen is not None and unseen.all():
        return None
    kept = None if unseen is None else (~unseen).view(np.uint8)
    channels = 1 if values.ndim == 2 else values.shape[2]
    return sum(cv2.mean(values, kept)[:channels]) / channels
