"""Motion vectors and visibility that a renderer wrote, one file a frame, read into the flow that the loop warps along.

Formats: .flo (Middlebury), .npy, .npz (``mv``, ``flow``, ``motion``, or its one array of two channels), .exr, and .png
as KITTI packs it. A vector that is not a number, over 1e9 (.flo's mark) or marked as invalid (KITTI) moves nothing and
is hidden. A file in which every vector is so, or in which one goes further than LONGEST frames, is refused.

Convention: the flow that comes out is a backward map in px, x right, y down: a point at p in the current frame was at
p - flow(p) in the previous one. A clip of N frames has N files, of which the first is ignored, or N - 1.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from dltb import UsageError
from dltb.imaging.flow import Flow
from dltb.imaging.frames import centre_box

UNKNOWN = 1e9  # px; .flo marks what it does not know by larger values
LONGEST = 8  # times the longer side of the frame; no motion that a next frame could show goes so far
UNITS = ("px", "uv", "ndc")
_FLO_TAG = b"PIEH"
_NAMES = ("mv", "flow", "motion", "motion_vectors")  # arrays in an .npz that are the vectors
_VISIBLE = ("visible", "visibility")
_EXR_PAIRS = (("X", "Y"), ("R", "G"), ("U", "V"), ("r", "g"), ("x", "y"), ("u", "v"))


@dataclass(frozen=True)
class VectorOptions:
    """What the numbers in the files mean."""

    direction: str  # "to-previous": the point was at p + v; "from-previous": at p - v
    units: str  # "px" of the files' own grid; "uv": shares of the frame; "ndc": -1..1 across it
    y: str | None  # "down" or "up"; None: up for ndc, down for the others
    scale: float  # factor of every vector


@dataclass(frozen=True)
class FrameFiles:
    """The files of one kind, in the order of their frames."""

    folder: Path
    paths: tuple[Path, ...]
    flag: str  # that asked for them
    first: int  # 0: paths[0] belongs to the first frame; 1: to the second, there are N - 1

    def of(self, index: int) -> Path:
        """The file of frame ``index``, from 1; frame 2 is the first that has a previous one."""
        place = index - 1 - self.first
        if not 0 <= place < len(self.paths):
            raise UsageError(f"{self.flag} {self.folder} has no file for frame {index}: it holds {len(self.paths)}")
        return self.paths[place]

    def digest(self) -> str:
        """Names and sizes of all files as one SHA-256, so that a resume notices another export in the same folder."""
        listing = "".join(f"{path.name} {path.stat().st_size}\n" for path in self.paths)
        return hashlib.sha256(listing.encode()).hexdigest()


def find_files(folder: str, flag: str, suffixes: Sequence[str], lengths: Sequence[int]) -> FrameFiles:
    """The numbered files of the first of ``suffixes`` that ``folder`` has any of.

    ``lengths`` are the numbers of frames that the clip, then what is played of it, is known to have. A number of files
    between the two is read as one a frame.

    Raises:
        UsageError: when there are none, or when they are neither one a frame nor one a pair of frames.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"{flag} {folder}: no such folder")
    there = [p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")]
    found = next((kind for s in suffixes if (kind := [p for p in there if p.suffix.lower() == s])), [])
    if not found:
        raise UsageError(f"{flag} {folder}: no files of a known kind; known: {', '.join(suffixes)}")
    paths = tuple(sorted(found, key=lambda p: (_number(p), p.name)))
    return FrameFiles(path, paths, flag, _first_frame(paths, flag, lengths))


def _first_frame(paths: Sequence[Path], flag: str, lengths: Sequence[int]) -> int:
    """0 where there is a file for the first frame too, 1 where files belong to pairs."""
    for length in lengths:
        if len(paths) in (length, length - 1):
            return length - len(paths)
    if len(lengths) > 1 and lengths[-1] <= len(paths) < lengths[0]:
        return (
            0  # an export that ends between what is played and the whole clip: nothing tells, and most are one a frame
        )
    if lengths:
        raise UsageError(
            f"{flag} {paths[0].parent}: {len(paths)} files ({paths[0].suffix}) for a clip of {lengths[0]} frames; there "
            f"must be one a frame, or one a pair of frames ({lengths[0] - 1})"
        )
    return 0


def _number(path: Path) -> int:
    """The last number in a name, so that frame_9 comes before frame_10."""
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else -1


def read_flow(path: Path, options: VectorOptions, clip_size: tuple[int, int], size: tuple[int, int]) -> Flow:
    """The flow of one frame at ``size`` (width, height), from vectors of the clip's size or of ``size`` itself.

    Vectors are cropped and resized as the frames are, and scaled with them. Nearest: a mean of two vectors across an
    edge is the motion of neither side.
    """
    vectors, hidden = _checked(path, read_vectors(path))
    factors = _in_pixels(vectors, options)
    _check_lengths(path, float(np.abs(vectors * factors).max()), max(vectors.shape[:2]), options)
    vectors, hidden = _fitted(path, vectors, hidden, clip_size, size, factors)
    return Flow(np.ascontiguousarray(-vectors if options.direction == "to-previous" else vectors), hidden=hidden)


def read_vectors(path: Path) -> np.ndarray:
    """The raw numbers of a file, float32 [H, W, 2], not a number where there is none."""
    try:
        return READERS[path.suffix.lower()](path)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read as motion vectors: {error}") from None


def read_visibility(path: Path, clip_size: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Bool [H, W] at ``size``: True where what is seen could also be seen in the previous frame.

    Convention: in the file, 0 is hidden and anything else visible.
    """
    try:
        seen = _visible_array(path)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read as a visibility mask: {error}") from None
    _check_size(path, seen.shape[1::-1], clip_size, size)
    return _resized(seen.astype(np.uint8), size) > 0


def _visible_array(path: Path) -> np.ndarray:
    if path.suffix.lower() == ".npy":
        return _as_mask(path, np.load(path, allow_pickle=False))
    if path.suffix.lower() == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            name = next((n for n in _VISIBLE if n in arrays.files), arrays.files[0] if len(arrays.files) == 1 else None)
            if name is None:
                raise UsageError(f"{path} holds {', '.join(arrays.files)}; a visibility mask is named {_VISIBLE[0]}")
            return _as_mask(path, arrays[name])
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise UsageError(f"{path} is not an image that can be read")
    return _as_mask(path, image if image.ndim == 2 else image[..., :3].max(axis=2))


def _as_mask(path: Path, array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise UsageError(f"{path} has shape {array.shape}; a visibility mask is [height, width]")
    return array > 0


def _checked(path: Path, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if vectors.ndim != 3 or vectors.shape[2] < 2:
        raise UsageError(f"{path} has shape {vectors.shape}; motion vectors are [height, width, 2]")
    vectors = vectors[..., :2].astype(np.float32)
    hidden = ~(np.abs(vectors) < UNKNOWN).all(axis=2)
    if hidden.all():
        raise UsageError(f"{path} has no valid vector: each is marked as unknown, not a number, or over {UNKNOWN:g}")
    return np.where(hidden[..., None], np.float32(0), vectors), hidden


def _check_lengths(path: Path, longest: float, side: int, options: VectorOptions) -> None:
    if longest > LONGEST * side:
        others = " or ".join(name for name in UNITS if name != options.units)
        raise UsageError(
            f"{path} has vectors of up to {longest:.4g} px, {longest / side:.3g} times the frame, read as {options.units}; "
            f"are they {others} (--mv-units), or is --mv-scale {options.scale:g} wrong?"
        )


def _in_pixels(vectors: np.ndarray, options: VectorOptions) -> np.ndarray:
    """Factors (x, y) that make the vectors px of their own grid, x right and y down."""
    height, width = vectors.shape[:2]
    extent = {"px": (1, 1), "uv": (width, height), "ndc": (width / 2, height / 2)}[options.units]
    up = (options.y or ("up" if options.units == "ndc" else "down")) == "up"
    return np.array([extent[0], -extent[1] if up else extent[1]], np.float32) * np.float32(options.scale)


def _fitted(
    path: Path,
    vectors: np.ndarray,
    hidden: np.ndarray,
    clip_size: tuple[int, int],
    size: tuple[int, int],
    factors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    own = vectors.shape[1::-1]
    _check_size(path, own, clip_size, size)
    left, top, right, bottom = centre_box(*own, *size)
    shrink = np.array([size[0] / (right - left), size[1] / (bottom - top)], np.float32)
    return _resized(vectors, size) * (factors * shrink), _resized(hidden.astype(np.uint8), size) > 0


def _check_size(path: Path, own: tuple[int, int], clip_size: tuple[int, int], size: tuple[int, int]) -> None:
    if own not in (clip_size, size):
        known = " or ".join(dict.fromkeys(f"{w}x{h}" for w, h in (clip_size, size)))
        raise UsageError(f"{path} is {own[0]}x{own[1]}; it must be {known}, as the clip or as a pass")


def _resized(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Cropped as ``prepare_frame`` crops, then each pixel takes the nearest value."""
    left, top, right, bottom = centre_box(*array.shape[1::-1], *size)
    cropped = np.ascontiguousarray(array[top:bottom, left:right])
    return cv2.resize(cropped, size, interpolation=cv2.INTER_NEAREST_EXACT)


def _read_flo(path: Path) -> np.ndarray:
    data = path.read_bytes()
    if data[:4] != _FLO_TAG:
        raise UsageError(f"{path} is no .flo file: it does not start with {_FLO_TAG.decode()}")
    width, height = np.frombuffer(data, "<i4", 2, 4)
    return np.frombuffer(data, "<f4", offset=12).reshape(height, width, 2)


def _read_npy(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as arrays:
        for name in _NAMES:
            if name in arrays.files:
                return arrays[name]
        pairs = [name for name in arrays.files if arrays[name].ndim == 3 and arrays[name].shape[2] == 2]
        if len(pairs) != 1:
            raise UsageError(f"{path} holds {', '.join(arrays.files)}; motion vectors are named {', '.join(_NAMES)}")
        return arrays[pairs[0]]


def _read_kitti(path: Path) -> np.ndarray:
    """KITTI 2012/2015: 16 bits, (value - 2^15) / 64 px in red and green, blue says whether it is known."""
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None or image.dtype != np.uint16 or image.ndim != 3:
        raise UsageError(f"{path} is no flow as KITTI packs it (a PNG of three channels, 16 bits each)")
    known, v, u = cv2.split(image[..., :3])
    vectors = (np.stack([u, v], -1).astype(np.float32) - 2**15) / 64
    return np.where((known > 0)[..., None], vectors, np.float32(np.nan))


def _read_exr(path: Path) -> np.ndarray:
    """The channels X, Y (R, G; U, V), bare or as the last part of a layer's name."""
    try:
        import OpenEXR
    except ImportError:
        raise UsageError(f"{path}: reading EXR needs the package OpenEXR; install dltb[exr], or write .npy") from None
    with OpenEXR.File(str(path), separate_channels=True) as file:
        channels = {name: channel.pixels for name, channel in file.channels().items()}
    return np.stack([channels[name] for name in _exr_pair(path, channels)], -1)


def _exr_pair(path: Path, names: Iterable[str]) -> tuple[str, str]:
    ends = {name.rpartition(".")[2]: name for name in names}
    for x, y in _EXR_PAIRS:
        if x in ends and y in ends:
            return ends[x], ends[y]
    raise UsageError(f"{path} has the channels {', '.join(names)}; motion vectors are in X, Y or R, G or U, V")


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".flo": _read_flo,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".exr": _read_exr,
    ".png": _read_kitti,  # last: a folder may hold the frames too
}
VISIBILITY_SUFFIXES = (".npz", ".npy", ".png")
