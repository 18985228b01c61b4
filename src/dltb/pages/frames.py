"""The frames of a run, pass by pass: what is on disk, and what follows from the clip that it was made from.

A step has the source frame, what was carried, and the output; a PNG where the pass was saved, else the frame of the video,
which is compressed. What is neither is None. Memory does not grow with the length.
"""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dltb import UsageError
from dltb.imaging.folder import REFERENCE_NAMES
from dltb.imaging.frames import prepare_frame, read_image
from dltb.imaging.video import read_video
from dltb.pages.run import Run, Stretch
from dltb.runs.inputs import CHECKOUT, describe_input

PNG, VIDEO = "png", "video"


@dataclass(frozen=True)
class Step:
    """One pass, as far as it can be seen. Frames are uint8 [H, W, 3]."""

    number: int
    source: np.ndarray | None
    previous: np.ndarray | None  # the source frame before
    carried: np.ndarray | None  # the output before
    output: np.ndarray | None
    kind: str = ""  # PNG or VIDEO: where the output is from
    kept_input: np.ndarray | None = None  # the model input, where the run saved it


class Footage:
    """The source frames of a run, where its clip is found; each thing that takes long is done once for all stretches."""

    def __init__(self, run: Run, given: Path | None) -> None:
        self.run = run
        self.clip, self.why_not = find_clip(run, given) if run.is_video else (None, "")

    def frames(self, numbers: range, wanted: Collection[int]) -> Iterator[np.ndarray | None]:
        """The prepared source frame of every pass, None where neither it nor the next one is wanted, or it is not there."""
        found = iter(()) if self.clip is None else _prepared(self.run, self.clip, numbers, wanted)
        return itertools.chain(found, itertools.repeat(None))

    @cached_property
    def last(self) -> np.ndarray | None:
        """The fresh frame of the tails."""
        count = self.run.main.passes
        kept = _read(self.run.directory / "partial" / "last_source.png")
        if kept is not None or not count:
            return kept
        return next(itertools.islice(self.frames(range(1, count + 1), {count}), count - 1, None))


def find_clip(run: Run, given: Path | None) -> tuple[Path | None, str]:
    """The clip that a run was made from, by its hash; else None and why."""
    name, wanted = run.settings.get("input"), run.settings.get("input sha256")
    if not isinstance(name, str) or not wanted:
        return None, "run.json does not name the input clip"
    places = [given] if given else [CHECKOUT / "input_example" / name, Path("untracked/input") / name, Path(name)]
    places += [] if given else [folder / name for folder in (run.directory, run.directory.parent)]
    for place in places:
        with suppress(OSError):
            if place.is_file() and describe_input(place)["input sha256"] == wanted:
                return place, ""
    if given:
        return None, f"--source {given} is not the clip of this run ({name}, sha256 {str(wanted)[:12]}...)"
    return None, f"the input clip {name} was not found; give it with --source"


def read_original(run: Run) -> np.ndarray | None:
    """The prepared first input frame that a run keeps."""
    for name in REFERENCE_NAMES:
        with suppress(UsageError):
            return read_image(run.directory / name)
    return None


def steps_of(footage: Footage, stretch: Stretch, wanted: Collection[int]) -> Iterator[Step]:
    """The wanted passes of a stretch, in order."""
    if not wanted:
        return
    run, numbers = footage.run, range(1, max(wanted) + 1)
    outputs = _outputs(run, stretch, numbers, wanted)
    if not run.is_video:
        yield from _still_steps(run, outputs, wanted)
    elif stretch.name == "main":
        yield from _clip_steps(outputs, footage.frames(numbers, wanted), wanted)
    else:
        yield from _tail_steps(run, outputs, footage.last, wanted)


def _clip_steps(outputs: Iterator, sources: Iterator, wanted: Collection[int]) -> Iterator[Step]:
    carried = previous = None
    for (number, output, kind), source in zip(outputs, sources, strict=False):
        if number in wanted:
            yield Step(number, source, previous, carried, output, kind)
        carried, previous = output, source


def _tail_steps(run: Run, outputs: Iterator, last: np.ndarray | None, wanted: Collection[int]) -> Iterator[Step]:
    carried = None
    with suppress(UsageError):
        carried = read_image(run.directory / "end_state.png")
    for number, output, kind in outputs:
        if number in wanted:
            yield Step(number, last, last, carried, output, kind)
        carried = output


def _still_steps(run: Run, outputs: Iterator, wanted: Collection[int]) -> Iterator[Step]:
    original = carried = read_original(run)
    for number, output, kind in outputs:
        if number in wanted:
            kept = _read(run.directory / "inputs" / f"frame_{number:04d}.png")
            yield Step(number, original, original, carried, output, kind, kept)
        carried = output


def _outputs(run: Run, stretch: Stretch, numbers: range, wanted: Collection[int]) -> Iterator[tuple]:
    """(number, frame or None, kind) of every pass; what neither is wanted nor precedes what is wanted is None."""
    saved = stretch.frames
    needed = {n for n in numbers if n in wanted or n + 1 in wanted}
    filmed = _filmed(run, stretch) if run.is_video and needed - set(saved) else iter(())
    upcoming = next(filmed, None)
    for number in numbers:
        while upcoming is not None and upcoming[0] < number:
            upcoming = next(filmed, None)
        frame, kind = (_read(saved[number]), PNG) if number in needed and number in saved else (None, "")
        if frame is None and number in needed and upcoming is not None and upcoming[0] == number:
            frame, kind = upcoming[1](), VIDEO
        yield number, frame, kind if frame is not None else ""


def _filmed(run: Run, stretch: Stretch) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
    """(number, frame) from the segments that an unfinished run left, else from its video; a damaged file ends it."""
    if stretch.video is None:
        return
    width, height = run.settings.get("width"), run.settings.get("height")
    segments = sorted((run.directory / "partial" / Path(stretch.video).stem).glob("[0-9]*.mp4"))
    parts = [(int(path.stem), path) for path in segments if path.stem.isdigit()] or [(1, run.directory / stretch.video)]
    for first, path in parts:
        with suppress(UsageError):
            for number, frame in enumerate(read_video(path, on_note=_unsaid), first):
                yield number, lambda frame=frame: np.ascontiguousarray(frame[:height, :width])  # less the padding


def _prepared(run: Run, clip: Path, numbers: range, wanted: Collection[int]) -> Iterator[np.ndarray | None]:
    width, height = run.settings.get("width"), run.settings.get("height")
    with suppress(UsageError, TypeError, ValueError):
        for number, frame in zip(numbers, read_video(clip, len(numbers), on_note=_unsaid), strict=False):
            needed = number in wanted or number + 1 in wanted
            yield prepare_frame(frame, width, height) if needed else None


def _read(path: Path) -> np.ndarray | None:
    try:
        return read_image(path)
    except UsageError:
        return None


def _unsaid(note: str) -> None:
    """What is wrong with a video was said by the run."""
