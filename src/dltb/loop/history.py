"""History rectification: what temporal antialiasing and denoising do so that history does not compound.

The carried state is moved to the current frame, then every method of a chain judges or mends it, then it is blended with
what is current. Each method is one pure function ``method(history, view) -> History``. Where the chain stands decides
what is current: at the input the fresh frame N_n, before the pass; at the output the pass's own result, after it.

Knows nothing of how motion was found, of models and of files. Frames are float32 [H, W, 3], levels 0..255, in here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import cv2
import numpy as np

from dltb.imaging.evidence import Evidence
from dltb.imaging.flow import Flow

NOTHING: Mapping[str, float] = MappingProxyType({})
NEAR = (3, 3)  # px, the neighbourhood of clamp and clip
SMALLEST_BOX = 0.5  # levels: rounding is no reason to move a pixel
GRID = 16  # px, cell of the low-frequency colour that realign keeps
MEAN_OVER = 16  # frames, time constant of its running mean

# YCoCg: boxes around a neighbourhood are tighter along luma and chroma than along R, G, B (Karis 2014).
_TO_YCOCG = np.array([[0.25, 0.5, 0.25], [0.5, 0, -0.5], [-0.25, 0.5, -0.25]], np.float32)
_FROM_YCOCG = np.array([[1, 1, -1], [1, 0, 1], [1, -1, -1]], np.float32)


@dataclass(frozen=True)
class Tuning:
    """The numbers of the methods; their defaults are those of the history options."""

    methods: tuple[str, ...]  # in any order: the chain has one of its own
    alpha: float  # least share of the current frame, 0..1
    gamma: float  # half width of the variance box, in standard deviations
    carry: float  # lambda of the residual carry, 0..1
    reject_above: float  # levels: how far the moved source may be from the source, beyond the local contrast
    cut_above: float  # 0..1: a frame that the one before explains no better than this has no history at all
    reanchor_every: int  # frames; 0: never


@dataclass(frozen=True)
class Memory:
    """What outlives a frame beside the frame itself; a run that resumes needs all of it."""

    length: np.ndarray  # [H, W] float32, frames of agreeing history behind each pixel
    offset: np.ndarray  # [h, w, 3] float32, running mean of history less current, cells of GRID px
    age: int  # frames since the last reset


@dataclass(frozen=True)
class View:
    """What is known about one frame when its history is judged."""

    current: np.ndarray  # [H, W, 3] float32, what the history will be blended with
    fresh: np.ndarray  # [H, W, 3] float32, N_n
    moved: np.ndarray  # [H, W, 3] float32, N_{n-1} moved to this frame
    mismatch: np.ndarray  # [H, W] bool, the moved source is not the source
    inconsistent: np.ndarray | None  # [H, W] bool, the motion there and back does not close; None without a way back
    tuning: Tuning


@dataclass(frozen=True)
class History:
    """What a frame inherits, moved to where things are now."""

    colour: np.ndarray  # [H, W, 3] float32
    length: np.ndarray  # [H, W] float32, frames behind each pixel; 0: nothing to inherit
    offset: np.ndarray  # see Memory
    facts: Mapping[str, float] = field(default_factory=lambda: NOTHING)

    def noted(self, **facts: float) -> "History":
        """The same with more to log."""
        return replace(self, facts={**self.facts, **facts})


Method = Callable[[History, View], History]


def carry_residual(history: History, view: View) -> History:
    """N_n + lambda warp(P_{n-1} - N_{n-1}): the model's change is carried, the content under it comes fresh.

    The demodulation of SVGF (Schied et al. 2017, section 4.1) with the source in the place of the albedo.
    """
    change = cv2.subtract(history.colour, view.moved)
    return replace(history, colour=cv2.scaleAdd(change, view.tuning.carry, view.fresh, dst=change))


def realign(history: History, view: View) -> History:
    """Take the low-frequency colour by which the history has left the current frame, in the running mean, off it.

    A mean over time, so that one bright frame does not pull the history along; a mean over space, so that texture and
    objects stay as they are.
    """
    off = _cells(cv2.subtract(history.colour, view.current))
    offset = history.offset + (off - history.offset) / MEAN_OVER
    size = history.colour.shape[1::-1]
    smooth = cv2.resize(offset, size, interpolation=cv2.INTER_LINEAR)
    return replace(history, colour=cv2.subtract(history.colour, smooth), offset=offset)


def clamp(history: History, view: View) -> History:
    """Into the smallest and largest YCoCg values of the 3 x 3 px around.

    Karis, High-quality temporal supersampling, SIGGRAPH 2014.
    """
    near = cv2.transform(view.current, _TO_YCOCG)
    kernel = np.ones(NEAR, np.uint8)
    low, high = cv2.erode(near, kernel), cv2.dilate(near, kernel)
    before = cv2.transform(history.colour, _TO_YCOCG, dst=near)
    inside = cv2.min(cv2.max(before, low, dst=low), high, dst=high)
    clamped = _largest_channel(cv2.absdiff(inside, before, dst=before)) > SMALLEST_BOX
    colour = cv2.transform(inside, _FROM_YCOCG, dst=low)
    return replace(history, colour=colour).noted(clamped=float(np.count_nonzero(clamped)) / clamped.size)


def clip(history: History, view: View) -> History:
    """Towards the mean of the 3 x 3 px around, into the box of mean +- gamma sigma.

    Variance clipping: Salvi, An excursion in temporal supersampling, GDC 2016.
    """
    # Into buffers of its own where it can: fetching memory takes longer than the arithmetic.
    near = cv2.transform(view.current, _TO_YCOCG)
    mean = cv2.blur(near, NEAR)
    box = cv2.blur(cv2.multiply(near, near, dst=near), NEAR)  # of the squares; less the squared mean, the variance
    cv2.subtract(box, cv2.multiply(mean, mean, dst=near), dst=box)
    np.maximum(cv2.multiply(box, (view.tuning.gamma**2,) * 4, dst=box), np.float32(SMALLEST_BOX**2), out=box)
    away = cv2.subtract(cv2.transform(history.colour, _TO_YCOCG, dst=near), mean, dst=near)
    square = cv2.multiply(away, away)
    over = _largest_channel(cv2.divide(square, box, dst=box))  # squared, in half widths of the box
    shrink = cv2.merge([1 / np.sqrt(np.maximum(over, np.float32(1)))] * 3, dst=square)
    inside = cv2.add(mean, cv2.multiply(away, shrink, dst=away), dst=away)
    clamped = float(np.count_nonzero(over > 1)) / over.size
    return replace(history, colour=cv2.transform(inside, _FROM_YCOCG, dst=mean)).noted(clamped=clamped)


def reject(history: History, view: View) -> History:
    """Nothing is inherited where the moved source does not match the source.

    The test of SVGF's back-projection (Schied et al. 2017, section 4.1), on colours in the place of depth and normals.
    """
    length = np.where(view.mismatch, np.float32(0), history.length)
    return replace(history, length=length).noted(rejected=float(view.mismatch.mean()))


def roundtrip(history: History, view: View) -> History:
    """Nothing is inherited where the motion there and back does not close (Meister et al., UnFlow, 2018)."""
    if view.inconsistent is None:
        return history
    length = np.where(view.inconsistent, np.float32(0), history.length)
    return replace(history, length=length).noted(inconsistent=float(view.inconsistent.mean()))


# name -> method, in the order of the chain: mend the content, then bound it, then judge it.
METHODS: dict[str, Method] = {
    "residual": carry_residual,
    "realign": realign,
    "clamp": clamp,
    "clip": clip,
    "reject": reject,
    "roundtrip": roundtrip,
}


@dataclass(frozen=True)
class Rectified:
    """A history that went through the chain."""

    colour: np.ndarray  # [H, W, 3] float32
    alpha: np.ndarray  # [H, W] float32, share of the current frame, 1 where there is nothing to inherit
    memory: Memory
    facts: Mapping[str, float]


def rectify(
    colour: np.ndarray, memory: Memory, flow: Evidence, fresh: np.ndarray, current: np.ndarray, tuning: Tuning
) -> Rectified:
    """Run the chain over the moved state ``colour`` and weigh what comes out; all three images [H, W, 3] float32.

    ``confidence`` among the methods makes alpha = max(1 / (n + 1), alpha) with n the frames behind a pixel (Schied et al.
    2017, section 4.1); without it alpha is constant.
    """
    history = History(colour, moved_length(memory.length, flow), memory.offset)
    view = View(current, fresh, flow.moved, flow.mismatch, flow.inconsistent, tuning)
    cut = flow.unexplained > tuning.cut_above
    due = bool(tuning.reanchor_every) and memory.age + 1 >= tuning.reanchor_every
    for name in METHODS:
        if name in tuning.methods:
            history = METHODS[name](history, view)
    length = np.zeros_like(history.length) if cut or due else history.length
    alpha = share_of_current(length, tuning)
    offset = np.zeros_like(history.offset) if cut or due else history.offset
    after = Memory(length + 1, offset, 0 if cut or due else memory.age + 1)
    facts = {
        **history.facts,
        "kept": float(np.count_nonzero(length)) / length.size,
        "alpha": float(alpha.mean()),
        "cut": float(cut),
    }
    return Rectified(history.colour, alpha, after, facts)


def share_of_current(length: np.ndarray, tuning: Tuning) -> np.ndarray:
    """Alpha [H, W] float32 from the frames behind each pixel."""
    if "confidence" in tuning.methods:
        return np.maximum(1 / (length + 1), np.float32(tuning.alpha))
    return np.where(length > 0, np.float32(tuning.alpha), np.float32(1))


def moved_colour(state: np.ndarray, flow: Flow) -> np.ndarray:
    """The state, float32 [H, W, 3], where things are now.

    Bicubic: a history that is resampled on every frame goes blurred under a bilinear one (Karis 2014).
    """
    return cv2.remap(state, *flow.fetch, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def moved_length(length: np.ndarray, flow: Evidence) -> np.ndarray:
    """The history length [H, W] where things are now; 0 for what can no longer be fetched."""
    moved = cv2.remap(length, *flow.fetch, cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
    return np.where(flow.unseen, np.float32(0), moved)


def mixed(history: np.ndarray, current: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """(1 - alpha) history + alpha current; colours [H, W, 3] float32, alpha [H, W]."""
    change = cv2.subtract(current, history)
    return cv2.add(history, cv2.multiply(change, cv2.merge([alpha] * 3), dst=change), dst=change)


def first_memory(state: np.ndarray) -> Memory:
    """The memory behind a first state, [H, W, 3]: one frame of history everywhere."""
    return Memory(np.ones(state.shape[:2], np.float32), np.zeros_like(_cells(state.astype(np.float32))), 0)


def to_frame(colour: np.ndarray) -> np.ndarray:
    """uint8 of float32 levels, rounded."""
    return cv2.convertScaleAbs(cv2.max(colour, 0))


def _largest_channel(image: np.ndarray) -> np.ndarray:
    first, second, third = cv2.split(image)
    return cv2.max(cv2.max(first, second), third)


def _cells(colour: np.ndarray) -> np.ndarray:
    height, width = colour.shape[:2]
    return cv2.resize(colour, (max(1, width // GRID), max(1, height // GRID)), interpolation=cv2.INTER_AREA)
