"""Dense optical flow between two source frames.

farneback is OpenCV's of Farneback, Two-frame motion estimation based on polynomial expansion (2003); dis is OpenCV's of
Kroeger et al., Fast optical flow using dense inverse search (2016); raft is torchvision's of Teed and Deng, RAFT (2020),
in `dltb.imaging.raft`. This module knows nothing of the loop: the model's output is never asked for its motion.

Convention: a flow [H, W, 2] float32 px, (dx, dy), x right, y down, is used as a backward map: a point at p in `current`
was at p - forward(p) in `previous`. The forward flow is estimated from `previous` to `current`, so it belongs to the
pixels of `previous`; reading it at the pixels of `current` takes motion to be alike over the distance it moves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import cv2
import numpy as np

from dltb import UsageError

FARNEBACK = {
    "pyr_scale": 0.5,  # every pyramid level has half the size of the one below
    "levels": 4,
    "winsize": 15,  # px, averaging window: larger is steadier and blurs motion edges
    "iterations": 3,
    "poly_n": 5,  # px, neighbourhood of the polynomial expansion
    "poly_sigma": 1.2,  # px
    "flags": 0,
}


F = TypeVar("F", bound="Flow")


def fetch_map(flow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where every pixel fetches, x and y [H, W] float32 px, under `flow` [H, W, 2] px."""
    height, width = flow.shape[:2]
    rows, columns = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)
    return columns - flow[..., 0], rows - flow[..., 1]


@dataclass(frozen=True)
class Flow:
    """The motion between two frames of one size."""

    forward: np.ndarray  # [H, W, 2] float32 px, previous -> current
    backward: np.ndarray | None = None  # [H, W, 2] float32 px, current -> previous; None when not asked for
    warp_error: float | None = None  # mean error of the warped source over that of no warp, where it was measured
    motion_px: float | None = None  # mean length of the forward flow, where it was measured
    mask: np.ndarray | None = None  # [H, W] bool, True where the flow cannot be trusted, where it was looked for
    hidden: np.ndarray | None = None  # [H, W] bool, True where something else was seen in `previous`; from outside

    @cached_property
    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        """The forward flow's `fetch_map`, worked out once."""
        return fetch_map(self.forward)

    def sharing_fetch(self, other: F) -> F:
        """`other`, which has the same forward flow, with the map that is worked out here."""
        vars(other)["fetch"] = self.fetch
        return other


def as_flow(flow: Flow | np.ndarray) -> Flow:
    """A `Flow` as it is, or one of a forward flow [H, W, 2] px."""
    return flow if isinstance(flow, Flow) else Flow(flow)


def mean_motion(flow: np.ndarray) -> float:
    """Mean length of a flow [H, W, 2], in px."""
    return float(np.linalg.norm(flow, axis=-1).mean())


# Two frames, uint8 RGB -> [H, W, 2] float32 px, from the first to the second.
Motion = Callable[[np.ndarray, np.ndarray], np.ndarray]


def estimate_flow(
    previous: np.ndarray, current: np.ndarray, backward: bool = False, *, method: "str | Motion" = "farneback"
) -> Flow:
    """The flow between two source frames, uint8 RGB [H, W, 3]; `backward` adds the way back, for the mask.

    `method` is a key of METHODS, or a function of one's own.
    """
    check_frames(previous=previous, current=current)
    find = METHODS[method] if isinstance(method, str) else method
    if np.array_equal(previous, current):
        # Farneback finds up to a pixel of motion between equal frames, most of it at the right and bottom border,
        # and a state that is warped along it on every held frame creeps.
        nothing = still(previous, current)
        return Flow(nothing, nothing if backward else None)
    return Flow(find(previous, current), find(current, previous) if backward else None)


def identity(method: "str | Motion") -> str:
    """All that decides a method's flows beside the frames: equal names, equal bits. RAFT names its own."""
    if isinstance(method, str):
        return f"{method} {cv2.__version__} {sorted(FARNEBACK.items())}"
    return method.identity


def check_frames(**frames: np.ndarray) -> None:
    """Refuse arrays that are not frames of one size; the names of the arguments name them in the message."""
    for name, frame in frames.items():
        if frame.dtype != np.uint8:
            # Not scaled here: floats may be 0..1 or 0..255, and on 0..1 Farneback finds no motion and says nothing.
            raise UsageError(f"{name} has dtype {frame.dtype}; frames are uint8 RGB, 0..255")
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.size == 0:
            raise UsageError(f"{name} has shape {frame.shape}; frames are [height, width, 3]")
    if len({frame.shape for frame in frames.values()}) > 1:
        sizes = " and ".join(f"{name} {frame.shape[1]}x{frame.shape[0]}" for name, frame in frames.items())
        raise UsageError(f"frames of different sizes: {sizes}; both must have one size")


def _grey(frame: np.ndarray) -> np.ndarray:
    """uint8 [H, W], BT.601 luma."""
    return cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)


def farneback(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Motion [H, W, 2] float32 px from one frame to another; smooth, and slow to see an edge."""
    return cv2.calcOpticalFlowFarneback(_grey(start), _grey(end), None, **FARNEBACK)


def dis(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Motion [H, W, 2] float32 px from one frame to another; sharper at edges, and follows fast motion further."""
    # One object a call: it is not safe to share between threads, and making it costs microseconds.
    return cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(_grey(start), _grey(end), None)


def still(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """No motion: history stays where it was on the screen."""
    return np.zeros((*start.shape[:2], 2), np.float32)


METHODS: dict[str, Motion] = {"farneback": farneback, "dis": dis, "none": still}
