"""Frame folders: which frames a run has left on disk, in what order and with what holes.

`frame_NNNN.png` belongs to the main loop and `<mode> frame_NNNN.png` to a failure tail. NNNN has four digits and gets a
fifth past 9999, so order is by number, never by name. Anything else in the folder is not a frame.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.imaging.frames import probe_image

_FRAME = re.compile(r"(?:(?P<tail>[A-Za-z0-9-]+) )?frame_(?P<number>\d{4,})\.png")
REFERENCE_NAMES = ("frame_0000_original.png", "frame_0000_source.png")


@dataclass(frozen=True)
class FrameSequence:
    """The frames of one video, in order of their numbers."""

    paths: tuple[Path, ...]
    numbers: tuple[int, ...]
    stride: int  # the usual distance between two numbers; 1 where there is only one frame
    gaps: tuple[tuple[int, int], ...]  # (first, last) number missing
    tail: str | None = None

    def every(self, step: int) -> "FrameSequence":
        """Every step-th frame, from the first; the gaps stay those of what is on disk."""
        return FrameSequence(self.paths[::step], self.numbers[::step], self.stride * step, self.gaps, self.tail)

    def describe_gaps(self) -> str:
        """`21-40, 70`; empty where nothing is missing."""
        return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in self.gaps)


def list_frames(directory: Path | str) -> FrameSequence:
    """The main loop's frames; a folder without any gives an empty sequence."""
    return _sequence(_scan(Path(directory)).get(None, {}), None)


def list_tails(directory: Path | str) -> dict[str, FrameSequence]:
    """Each tail mode's frames, by the mode's name."""
    found = _scan(Path(directory))
    return {tail: _sequence(found[tail], tail) for tail in sorted(filter(None, found))}


def find_frames(path: Path | str) -> Path:
    """The folder of frames, given itself or the run directory that holds it as `frames/`."""
    path = Path(path)
    if not path.exists():
        raise UsageError(f"{path} does not exist; give a run directory or its frames folder")
    if not path.is_dir():
        raise UsageError(f"{path} is a file; give a run directory or its frames folder")
    directory = path / "frames" if (path / "frames").is_dir() else path
    if not _scan(directory):
        raise UsageError(f"no frames in {directory}: nothing there is named like frame_0001.png")
    return directory


def run_directory(frames: Path) -> Path:
    """The run that frames belong to, where the results about them go: the folder that holds theirs.

    It is their own folder where run.json lies beside them, as a sweep leaves a stable leg.
    """
    if (frames / "run.json").is_file():
        return frames
    return frames.absolute().parent if frames.name in ("", ".", "..") else frames.parent


def find_reference(frames: Path) -> Path | None:
    """The prepared source image in the run directory of a frames folder, if the run has left one."""
    candidates = (run_directory(frames) / name for name in REFERENCE_NAMES)
    return next((path for path in candidates if path.is_file()), None)


def common_size(paths: Sequence[Path]) -> tuple[int, int]:  # width, height, px
    """The size that all the images have, read from their headers; one that differs is a UsageError naming the file."""
    probed = map(probe_image, paths)
    first = next(probed)
    for other in probed:
        if (other.width, other.height) != (first.width, first.height):
            expected = f"{first.path.name} is {first.width}x{first.height}; the frames of one run have one size"
            raise UsageError(f"{other.path} is {other.width}x{other.height} px but {expected}")
    return first.width, first.height


def _scan(directory: Path) -> dict[str | None, dict[int, Path]]:
    try:
        entries = list(directory.iterdir())
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}") from None
    found: dict[str | None, dict[int, Path]] = {}
    for path in entries:
        if match := _FRAME.fullmatch(path.name):
            frames, number = found.setdefault(match["tail"], {}), int(match["number"])
            if number in frames:
                raise UsageError(
                    f"{frames[number].name} and {path.name} in {directory} have the same number; remove one"
                )
            frames[number] = path
    return found


def _sequence(frames: dict[int, Path], tail: str | None) -> FrameSequence:
    numbers = tuple(sorted(frames))
    stride = _stride(numbers)
    return FrameSequence(tuple(frames[n] for n in numbers), numbers, stride, _gaps(numbers, stride), tail)


def _stride(numbers: Sequence[int]) -> int:
    """The most common distance; of equally common ones the smallest, since gaps only ever make it larger."""
    distances = Counter(b - a for a, b in itertools.pairwise(numbers))
    return min(distances, key=lambda d: (-distances[d], d), default=1)


def _gaps(numbers: Sequence[int], stride: int) -> tuple[tuple[int, int], ...]:
    """Saved numbers are multiples of the stride from the stride on, so a late start is a gap too."""
    if len(numbers) < 2:
        return ()
    pairs = itertools.pairwise((min(0, numbers[0] - stride), *numbers))
    return tuple((a + stride, b - stride) for a, b in pairs if b - a > stride)
