"""Where a warp has nothing to fetch: the forward-backward test for disocclusions.

Knows nothing of images: it judges a pair of flows. Convention: True (1) = repaint, take the fresh frame.
"""

import cv2
import numpy as np

from dltb import UsageError
from dltb.imaging.flow import Flow, as_flow


def disocclusion_mask(
    forward: np.ndarray,
    backward: np.ndarray,
    fb_tau: float = 1.5,
    dilate_px: int = 5,
    outside: np.ndarray | None = None,  # `outside_frame(forward)`, where it is known
) -> np.ndarray:
    """Bool [H, W] from two flows [H, W, 2] px: True where the round trip does not close or starts outside the frame.

    The round trip is |forward(p) + backward(p)| > `fb_tau` px, both read at the same pixel p: where motion is
    continuous the two cancel. The result grows by an ellipse of `dilate_px` x `dilate_px` px, as the blur of the flow
    reaches past the true edge; 0 and 1 leave it as it is, and an odd size grows it alike on all sides.

    What it finds are pixels whose flow cannot be trusted, which is not the same as what was uncovered: it takes in
    flow that is wrong over repetitive or thin texture, and it cannot see an edge that moves by less than `fb_tau` px
    against what lies behind it.
    """
    if forward.shape != backward.shape or forward.ndim != 3 or forward.shape[2] != 2:
        raise UsageError(f"flows have shapes {forward.shape} and {backward.shape}; both must be [height, width, 2]")
    if dilate_px < 0:
        raise UsageError(f"dilate_px is {dilate_px}; it is a size in px, 0 or more")
    # Negated, so that a flow that is not a number is masked too.
    inconsistent = ~(np.linalg.norm(forward + backward, axis=-1) <= fb_tau)
    return dilated(inconsistent | (outside_frame(forward) if outside is None else outside), dilate_px)


def outside_frame(flow: Flow | np.ndarray) -> np.ndarray:
    """Bool [H, W]: p - flow(p) lies outside the frame; a bare flow is [H, W, 2] px.

    The frame ends half a pixel beyond the centres of its outer pixels. Up to there the outer pixel is the nearest one,
    and a hundredth of a pixel of noise on a still clip does not repaint the border.
    """
    x, y = as_flow(flow).fetch
    height, width = x.shape
    return ~((x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5))


def unseen(flow: Flow | np.ndarray, hidden: np.ndarray | None) -> np.ndarray:
    """Bool [H, W]: what could not be seen in the previous frame, outside it or `hidden` there (bool [H, W])."""
    return outside_frame(flow) if hidden is None else outside_frame(flow) | hidden


def dilated(mask: np.ndarray, size: int) -> np.ndarray:
    """The mask grown by an ellipse of size x size px."""
    if size <= 1:
        return mask
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return cv2.dilate(mask.astype(np.uint8), kernel).astype(bool)
