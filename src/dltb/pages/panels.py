"""What a page shows of every pass: source, output, model input, flow and mask as small pictures, and numbers about them."""

import io
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from PIL import Image

from dltb.imaging.flow_colours import flow_colours
from dltb.imaging.frames import shrunk
from dltb.metrics.look import look
from dltb.metrics.pixel import mean_absolute_difference
from dltb.pages.frames import PNG, Footage, Step, read_original, steps_of
from dltb.pages.retrace import Retracer, Traced
from dltb.pages.run import Run, Stretch

PANELS = ("source", "output", "input", "flow", "mask")
HELD = ("input", "flow", "mask")  # what costs a flow
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
    footage: Footage, stretch: Stretch, pictures: Pictures, *, side: int, limit: int, motion_every: int | None
) -> Shown:
    """Pictures of ``side`` px of at most ``limit`` passes, evenly chosen.

    What needs the flow is made for every ``motion_every``-th of them, by default as often as keeps within MOTION_PIXELS;
    the passes between show what the one before shows.
    """
    run = footage.run
    wanted = choose(stretch, limit, every=run.is_video)
    every = motion_every or _affordable(run, len(wanted))
    shower = Shower(run, stretch, footage.why_not, side, set(wanted[::every]) if every > 1 else None)
    seen = list(_in_threads(shower.see, steps_of(footage, stretch, set(wanted))))
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
        self._side, self._motion_of = side, motion
        self._retracer = Retracer(run, stretch, why_no_clip)
        self._original = read_original(run)
        # In a tail and over a still image the source frame tells no more than the original does.
        self._has_sources = run.is_video and stretch.name == "main"

    def see(self, step: Step) -> Seen:
        """One pass; runs on several threads."""
        held = self._motion_of is not None and step.number not in self._motion_of and not self._retracer.why_still
        traced = Traced() if held else self._retracer.trace(step)
        source = self._retracer.source(step)
        pictures = {
            "source": self._thumbnail(source),
            "output": self._thumbnail(step.output),
            "input": self._thumbnail(traced.model_input, 1 if traced.model_input is None else traced.references),
            "mask": None if traced.mask is None else encode(overlaid(shrunk(source, self._side), traced.mask)),
        }
        return Seen(
            number=step.number,
            kind=step.kind,
            pictures={panel: picture for panel, picture in pictures.items() if picture is not None},
            why={"output": "neither a PNG nor a video frame of this pass is there"} | self._retracer.why(step, traced),
            measured=self._measure(step) if step.kind == PNG else {},
            flow=None if traced.flow is None else _thinned(traced.flow.forward, self._side),
            held=held,
        )

    def _thumbnail(self, frame: np.ndarray | None, wide: int = 1) -> bytes | None:
        return None if frame is None else encode(shrunk(frame, wide * self._side))

    def _measure(self, step: Step) -> dict[str, float]:
        """Colour, detail and pixel distances of a saved frame."""
        values = dict(look(step.output)._asdict())
        others = {"delta_original": self._original, "delta_source": step.source if self._has_sources else None}
        for name, other in others.items():
            if other is not None and other.shape == step.output.shape:
                values[name] = mean_absolute_difference(step.output, other)
        return values


def encode(frame: np.ndarray) -> bytes:
    """A WebP picture."""
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "WEBP", quality=QUALITY, method=1)
    return out.getvalue()


def overlaid(source: np.ndarray, mask: np.ndarray) -> np.ndarray:
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
