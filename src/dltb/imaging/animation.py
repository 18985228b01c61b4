"""Animated images (GIF, WebP, PNG, AVIF) through Pillow, which composes every frame fully where ffmpeg cannot.

Frames lie over black. Durations belong to the single frames, so the frame rate is their average.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from dltb import UsageError
from dltb.imaging.frames import TRANSPARENCY_NOTE, Probe, is_animation, is_transparent, opened_image, to_rgb

# Browsers show a frame that asks for 10 ms or less for 100 ms; files are made with that in mind.
_SHORTEST_MS = 10
_FALLBACK_MS = 100


def is_animated_image(path: Path) -> bool:
    """Whether Pillow plays this file as a movie; a GIF counts with one frame too."""
    try:
        with opened_image(path) as image:
            return image is not None and (image.format == "GIF" or is_animation(image))
    except UsageError:
        return False


def probe_animation(path: Path) -> Probe:
    """Describe an animated image; every frame is visited, since each holds its own duration."""
    with opened_image(path) as image:
        expected = image.n_frames - _first_index(image)
        transparent = is_transparent(image)
        durations = list(_durations(image))
        if not durations:
            raise UsageError(f"{path} is damaged: no frame of it can be decoded")
        rate = Fraction(1000 * len(durations)) / sum(durations)
        notes = tuple(_notes(durations, transparent))
        return Probe(path, "video", *image.size, frame_count=expected, fps=rate, notes=notes)


def read_animation(path: Path, limit: int | None, on_note: Callable[[str], None]) -> Iterator[np.ndarray]:
    """Yield each composed frame, uint8 [H, W, 3]; a file that breaks off ends there, and `on_note` says so."""
    with opened_image(path) as image:
        first, expected = _first_index(image), image.n_frames - _first_index(image)
        wanted = expected if limit is None else min(limit, expected)
        for index in range(wanted):
            try:
                image.seek(first + index)
                frame = to_rgb(image)
            except (OSError, EOFError, SyntaxError, ValueError) as error:
                on_note(f"{path} breaks off: {index} of {expected} frames could be decoded ({error})")
                return
            yield frame


def _durations(image: Image.Image) -> Iterator[Fraction]:  # ms
    for index in range(_first_index(image), image.n_frames):
        try:
            image.seek(index)
            image.load()
        except (OSError, EOFError, SyntaxError, ValueError):
            return
        duration = Fraction(image.info.get("duration") or 0).limit_denominator(1000)
        yield duration if duration > _SHORTEST_MS else Fraction(_FALLBACK_MS)


def _first_index(image: Image.Image) -> int:
    """An animated PNG may open with a still picture for viewers that cannot play it; it is not part of the movie."""
    return 1 if getattr(image, "default_image", False) else 0


def _notes(durations: list[Fraction], transparent: bool) -> Iterator[str]:
    if min(durations) != max(durations):
        yield f"variable frame rate: frames last {float(min(durations)):g} to {float(max(durations)):g} ms"
    if transparent:
        yield TRANSPARENCY_NOTE
