"""Sources: what feeds the loop. Each gives steps from ``start`` (the last pass already made) + 1 on."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from dltb.loop.engine import Frame, Source


def repeated(frame: Frame, passes: int, start: int = 0) -> Iterator[Source]:
    """The same frame on every step: a still image, or the frame of a tail."""
    return (Source(index, frame, frame) for index in range(start + 1, passes + 1))


def from_clip(
    frames: Iterable[Frame],
    prepare: Callable[[Frame], Frame],
    limit: int | None = None,
    start: int = 0,
    previous: Frame | None = None,
) -> Iterator[Source]:
    """One step per frame of a clip, up to ``limit``; after ``start`` frames already done, ``previous`` is N_start."""
    for index, raw in enumerate(islice(frames, start, limit), start + 1):
        frame = prepare(raw)
        yield Source(index, frame, previous)
        previous = frame
