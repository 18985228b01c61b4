"""What a page shows of every pass: source, output, model input, flow and mask as small pictures, and numbers about them.

What the run did not store is made again by the loop's own functions from the input clip, or the panel says why it is empty.
"""

import io
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
from PIL import Image

from dltb import UsageError
from dltb.args.options import VideoOptions
from dltb.imaging.flow import Flow, estimate_flow
from dltb.imaging.flow_colours import flow_colours
from dltb.imaging.frames import shrunk
from dltb.imaging.mask import disocclusion_mask
from dltb.imaging.warp import Reprojected, make_reprojector
from dltb.loop.conditioning import make_conditioning, needs_motion
from dltb.loop.engine import as_model_input
from dltb.metrics.look import look
from dltb.metrics.pixel import mean_absolute_difference
from dltb.pages.frames import PNG, Step, find_clip, read_original, steps_of
from dltb.pages.run import Run, Stretch

PANELS = ("source", "output", "input", "flow", "mask")
HELD = ("input", "flow", "mask")  # what costs a flow
OWN_CONDITIONING = "dltb.loop.conditioning.make_conditioning"
THREADS = 2
QUALITY = 72  # of WebP
MOTION_PIXELS = 300 * 256 * 256  # of a stretch, over which flow is estimated again; a second takes about 4 million
REPAINTED = np.array([255, 0, 200], np.float32)  # colour of the mask


class Pictures:
    """Encoded pictures; equal ones are kept once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def add(self, encoded: bytes) -> int:
        """Its number."""
        return self._numbers.setdefault(encoded, len(self._numbers))

    def encoded(self) -> list[bytes]:
        """All of them, by number."""
        return list(self._numbers)


@dataclass(frozen=True)
class Seen:
    """One pass as pictures and numbers."""

    number: int
    kind: str
    pictures: dict[str, bytes]  # panel -> WebP
    why: dict[str, str]  # panel -> why there is no picture
    measured: dict[str, float]
    flow: np.ndarray | None = None  # [h, w, 2] float16 px of the full size, thinned to a thumbnail
    held: bool = False  # what costs a flow was not made; the pass before stands for it


@dataclass(frozen=True)
class Shown:
    """A stretch, ready for a page."""

    name: str
    numbers: list[int]
    kinds: list[str]
    cells: dict[str, list[int]]  # panel -> number of the picture of each pass; -1 - i: none, for reason i
    motion_of: list[int]  # the pass whose flow, mask and input are shown, where not every pass has its own
    reasons: list[str]
    flow_scale: float | None  # px of motion that is fully coloured
    measured: dict[str, dict[int, float]] = field(repr=False)  # name -> value by pass


def show(
    run: Run,
    stretch: Stretch,
    pictures: Pictures,
    *,
    clip: Path | None,
    side: int,
    limit: int,
    motion_every: int | None,
) -> Shown:
    """Pictures of ``side`` px of at most ``limit`` passes, evenly chosen.

    What needs the flow is made for every ``motion_every``-th of them, by default as often as keeps within MOTION_PIXELS;
    the passes between show what the one before shows.
    """
    found, why_not = find_clip(run, clip) if run.is_video else (None, "")
    wanted = choose(stretch, limit, every=run.is_video)
    every = motion_every or _affordable(run, len(wanted))
    shower = Shower(run, stretch, why_not, side, set(wanted[::every]) if every > 1 else None)
    seen = list(_in_threads(shower.see, steps_of(run, stretch, found, set(wanted))))
    scale = _flow_scale(seen)
    cells, reasons = _cells(seen, scale, pictures)
    return Shown(
        name=stretch.name,
        numbers=[step.number for step in seen],
        kinds=[step.kind for step in seen],
        cells=cells,
        motion_of=list(itertools.accumulate((0 if s.held else s.number for s in seen), lambda old, new: new or old)),
        reasons=reasons,
        flow_scale=scale if any(step.flow is not None for step in seen) else None,
        measured=_by_name(seen),
    )


def _affordable(run: Run, passes: int) -> int:
    """Every how many passes flow can be estimated again without keeping a reader waiting."""
    width, height = run.settings.get("width"), run.settings.get("height")
    pixels = width * height if isinstance(width, int) and isinstance(height, int) else 0
    return max(1, -(-passes * pixels // MOTION_PIXELS))


def _cells(seen: Sequence[Seen], scale: float, pictures: Pictures) -> tuple[dict[str, list[int]], list[str]]:
    """The picture of every panel and pass by number, and the reasons of those that have none."""
    reasons: dict[str, int] = {}
    cells: dict[str, list[int]] = {panel: [] for panel in PANELS}
    for step, flow in zip(seen, _in_threads(lambda s: _coloured(s.flow, scale), seen), strict=True):
        made = step.pictures | ({"flow": flow} if flow else {})
        for panel in PANELS:
            if panel in made:
                cell = pictures.add(made[panel])
            elif step.held and panel in HELD:
                cell = cells[panel][-1]
            else:
                cell = -1 - reasons.setdefault(step.why.get(panel, "not there"), len(reasons))
            cells[panel].append(cell)
    return cells, list(reasons)


def _coloured(flow: np.ndarray | None, scale: float) -> bytes | None:
    return None if flow is None else encode(flow_colours(flow.astype(np.float32), scale))


def choose(stretch: Stretch, limit: int, *, every: bool) -> list[int]:
    """The passes to show: all of them where a video has them, else the saved ones; thinned evenly, with both ends."""
    numbers = sorted(set(stretch.frames) | (set(range(1, stretch.passes + 1)) if every else set()))
    if len(numbers) <= limit:
        return numbers
    places = np.unique(np.linspace(0, len(numbers) - 1, max(limit, 2)).round().astype(int))
    return [numbers[place] for place in places]


class Shower:
    """Makes the pictures and numbers of single passes; holds what all passes share."""

    def __init__(self, run: Run, stretch: Stretch, why_no_clip: str, side: int, motion: Set[int] | None) -> None:
        self._side, self._stretch, self._motion_of = side, stretch, motion
        self._why_no_clip = why_no_clip
        self._original = read_original(run)
        self._is_video = run.is_video
        told = {name: value for name, value in run.settings.items() if value is not None}
        self._settings = SimpleNamespace(**(asdict(VideoOptions()) | told))  # what is inert is None in run.json
        self._feedback = run.settings.get("anchor_blend") is not None
        self._own = run.settings.get("make_conditioning", OWN_CONDITIONING) == OWN_CONDITIONING
        self._why_still = self._motionless()

    def _motionless(self) -> str:
        """Why no motion is estimated in this stretch; empty where it is."""
        if not self._is_video:
            return "a still image: nothing moves"
        if self._stretch.name != "main":
            return "in a tail nothing moves"
        try:
            return "" if needs_motion(self._settings) else "this run warps nothing, so it estimates no motion"
        except TypeError as error:
            return f"the settings of this run are not understood: {error}"

    def see(self, step: Step) -> Seen:
        """One pass; runs on several threads."""
        pictures, why, measured = {}, {}, {}
        self._add(pictures, why, "source", self._source(step), self._no_source())
        self._add(pictures, why, "output", step.output, "neither a PNG nor a video frame of this pass is there")
        flow, mask, images = None, None, []
        held = self._motion_of is not None and step.number not in self._motion_of and not self._why_still
        if held:
            pass
        elif self._is_video:
            try:
                flow, mask, images, why["input"] = self._again(step)
            except (
                UsageError,
                TypeError,
                ValueError,
                KeyError,
            ) as error:  # frames of two sizes, settings edited by hand
                why["input"] = f"it cannot be made again: {error}"
        else:
            images, why["input"] = self._still_input(step)
        if images:
            pictures["input"] = self._thumbnail(np.concatenate(images, axis=1), len(images) * self._side)
        why["flow"] = self._why_still or self._no_source() or "the first pass has no frame before it"
        why["mask"] = why["flow"] if self._why_still or flow is None else "this run masks nothing (--reproject-mask)"
        if mask is not None and step.source is not None:
            pictures["mask"] = encode(_overlaid(shrunk(step.source, self._side), mask))
        if step.kind == PNG:
            measured = self._measure(step)
        thin = None if flow is None else _thinned(flow.forward, self._side)
        return Seen(step.number, step.kind, pictures, why, measured, thin, held)

    def _add(self, pictures: dict, why: dict, panel: str, frame: np.ndarray | None, reason: str) -> None:
        if frame is None:
            why[panel] = reason or "it cannot be read"
        else:
            pictures[panel] = self._thumbnail(frame, self._side)

    def _source(self, step: Step) -> np.ndarray | None:
        """The fresh frame as the tail has it; that of the main loop is the clip's."""
        if self._stretch.name == "free" or step.source is None:
            return None
        return np.zeros_like(step.source) if self._stretch.name == "black" else step.source

    def _no_source(self) -> str:
        if self._stretch.name == "free":
            return "a free tail has no fresh frame"
        return self._why_no_clip

    def _still_input(self, step: Step) -> tuple[list[np.ndarray], str]:
        """What went into a pass over a still image."""
        if step.kept_input is not None:
            return [step.kept_input], ""
        if self._feedback:
            return [], "the input was not saved"
        why = "the input is the output of the pass before, which was not saved"
        return ([], why) if step.carried is None else ([step.carried], "")

    def _again(self, step: Step) -> tuple[Flow | None, np.ndarray | None, list[np.ndarray], str]:
        """Flow, mask and model input of a pass, by the loop's own functions."""
        tail = self._stretch.name != "main"
        if step.source is None and self._stretch.name != "free":
            return None, None, [], self._why_no_clip or "the clip ends before this pass"
        if not tail and (step.number == 1 or self._settings.mode == "anchored"):
            return None, None, [step.source], ""
        if step.carried is None:
            flow, mask = self._motion(step)
            return flow, mask, [], "the output of the pass before is not there"
        if not self._own:
            flow, mask = self._motion(step)
            return flow, mask, [], "this run has a conditioning of its own"
        return self._conditioned(step, tail=tail)

    def _conditioned(self, step: Step, *, tail: bool) -> tuple[Flow | None, np.ndarray | None, list[np.ndarray], str]:
        kept: dict[str, Any] = {"flow": None, "mask": None}
        masked = bool(self._settings.reproject_mask)
        reproject = make_reprojector(mask_disocclusions=masked)

        def estimate(previous: np.ndarray, current: np.ndarray) -> Flow:
            kept["flow"] = estimate_flow(previous, current, backward=masked)
            return kept["flow"]

        def warp(state: np.ndarray, flow: Flow, fresh: np.ndarray) -> Reprojected:
            moved = reproject(state, flow, fresh)
            kept["mask"] = moved.mask
            return moved

        combine, tail_source = make_conditioning(self._settings, estimate, warp)
        if tail:
            source = step.carried if step.source is None else step.source
            made = tail_source(self._stretch.name, step.carried, source)
        else:
            made = combine(step.carried, step.source, step.previous)
        return kept["flow"], kept["mask"], list(as_model_input(made).images), ""

    def _motion(self, step: Step) -> tuple[Flow | None, np.ndarray | None]:
        """Flow and mask where there is no state to warp."""
        if self._why_still or step.previous is None or step.source is None:
            return None, None
        masked = bool(self._settings.reproject_mask)
        flow = estimate_flow(step.previous, step.source, backward=masked)
        return flow, disocclusion_mask(flow.forward, flow.backward) if masked else None

    def _measure(self, step: Step) -> dict[str, float]:
        """Colour, detail and pixel distances of a saved frame."""
        values = dict(look(step.output)._asdict())
        for name, other in (("delta_original", self._original), ("delta_source", step.source)):
            if other is not None and other.shape == step.output.shape and not (name == "delta_source" and self._plain):
                values[name] = mean_absolute_difference(step.output, other)
        return values

    @property
    def _plain(self) -> bool:
        """Whether the source frame tells no more than the original does."""
        return not self._is_video or self._stretch.name != "main"

    def _thumbnail(self, frame: np.ndarray, side: int) -> bytes:
        return encode(shrunk(frame, side))


def encode(frame: np.ndarray) -> bytes:
    """A WebP picture."""
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "WEBP", quality=QUALITY, method=1)
    return out.getvalue()


def _overlaid(source: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The source frame [h, w, 3], greyed, with the repainted pixels of a mask [H, W] bool in one loud colour."""
    height, width = source.shape[:2]
    share = cv2.resize(mask.astype(np.float32), (width, height), interpolation=cv2.INTER_AREA)[..., None] * 0.75
    grey = cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)[..., None] * np.float32(0.6) + 60
    return ((1 - share) * grey + share * REPAINTED).astype(np.uint8)


def _thinned(flow: np.ndarray, side: int) -> np.ndarray:
    """A flow at the size of a thumbnail, in px of the full size."""
    height, width = flow.shape[:2]
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return cv2.resize(flow, size, interpolation=cv2.INTER_AREA).astype(np.float16)


def _flow_scale(seen: Iterable[Seen]) -> float:
    """px of motion that nearly all pixels of the run stay below."""
    fields = [step.flow for step in seen if step.flow is not None]
    if not fields:
        return 1.0
    thin = [f[::3, ::3].astype(np.float32) for f in fields]
    lengths = [np.percentile(np.hypot(f[..., 0], f[..., 1]), 98) for f in thin]
    return max(0.5, float(np.percentile(lengths, 90)))


def _in_threads(work: Any, items: Iterable[Any]) -> Iterator[Any]:
    """work(item) in order, a few ahead."""
    pending: deque[Future] = deque()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="panels") as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > 3 * THREADS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _by_name(seen: Iterable[Seen]) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for step in seen:
        for name, value in step.measured.items():
            found.setdefault(name, {})[step.number] = value
    return found
