"""What the source frames say about their own motion: what history may be trusted, before any model takes part.

Knows nothing of the state. It needs source frames alone, so it can be worked out ahead of the loop.
"""

from dataclasses import dataclass, fields

import cv2
import numpy as np

from dltb.imaging.flow import Flow
from dltb.imaging.mask import unseen

BLUR = (3, 3)  # px; a flow that is right to half a pixel is no mismatch
NOISE = 2.0  # levels, mean: two frames that differ by less are one scene, however little is in it


@dataclass(frozen=True)
class Evidence(Flow):
    """The motion between two source frames with what it explains."""

    moved: np.ndarray | None = None  # [H, W, 3] float32, the previous source frame moved to the current one
    mismatch: np.ndarray | None = None  # [H, W] bool, the moved source is not the source
    unseen: np.ndarray | None = None  # [H, W] bool, what lies here could not be seen in the previous frame
    inconsistent: np.ndarray | None = (
        None  # [H, W] bool, the way there and back does not close; None without a way back
    )
    unexplained: float = 0.0  # 0..1, error of the moved source over that of an unrelated one: about 1 at a cut


def with_evidence(flow: Flow, previous: np.ndarray, current: np.ndarray, reject_above: float) -> Evidence:
    """``flow`` between two source frames, uint8 [H, W, 3], with what it explains; ``reject_above`` in levels."""
    moved = cv2.remap(previous.astype(np.float32), *flow.fetch, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    seen = cv2.convertScaleAbs(np.maximum(moved, 0))
    own = {field.name: getattr(flow, field.name) for field in fields(Flow)}
    found = Evidence(
        **own,
        moved=moved,
        mismatch=mismatch(seen, current, reject_above),
        unseen=unseen(flow, flow.hidden),
        inconsistent=None if flow.backward is None else inconsistent(flow.forward, flow.backward),
        unexplained=unexplained(seen, current),
    )
    return flow.sharing_fetch(found)


def mismatch(moved: np.ndarray, current: np.ndarray, reject_above: float) -> np.ndarray:
    """Bool [H, W]: two frames, uint8 [H, W, 3], further apart than ``reject_above`` levels beyond the local contrast.

    In the worst channel, after a blur. The contrast (the standard deviation of the luma in 3 x 3 px) is what a motion that
    is wrong by half a pixel makes.
    """
    red, green, blue = cv2.split(cv2.absdiff(cv2.blur(moved, BLUR), cv2.blur(current, BLUR)))
    luma = cv2.cvtColor(current, cv2.COLOR_RGB2GRAY).astype(np.float32)
    mean = cv2.blur(luma, BLUR)
    variance = cv2.subtract(cv2.blur(cv2.multiply(luma, luma), BLUR), cv2.multiply(mean, mean))
    return cv2.max(cv2.max(red, green), blue) > np.sqrt(np.maximum(variance, 0)) + np.float32(reject_above)


def inconsistent(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Bool [H, W] from two flows [H, W, 2] px: |f + b|^2 > 0.01 (|f|^2 + |b|^2) + 0.5.

    Meister, Hur and Roth, UnFlow (2018), section 3.2: fast motion may be off by more. Both are read at one pixel, as in
    `dltb.imaging.mask`.
    """

    def square(flow: np.ndarray) -> np.ndarray:
        return flow[..., 0] ** 2 + flow[..., 1] ** 2

    return ~(square(forward + backward) <= 0.01 * (square(forward) + square(backward)) + 0.5)


def unexplained(moved: np.ndarray, current: np.ndarray) -> float:
    """How far the moved source misses the source, uint8 [H, W, 3], in units of what an unrelated picture would miss it by.

    The unrelated pictures are the moved source turned over, which have its colours and its textures; the worst counts, as
    a scene may be symmetric. 0 where the frames differ by no more than noise.
    """
    before, now = (cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for image in (moved, current))
    error = _apart(before, now)
    if error < NOISE:
        return 0.0
    return error / max(_apart(cv2.flip(before, axis), now) for axis in (0, 1, -1))


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Mean absolute difference, levels."""
    return cv2.norm(a, b, cv2.NORM_L1) / a.size
