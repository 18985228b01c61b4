"""Where an unfinished run can go on: the carried state exactly as the loop held it, and the place it belongs to."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dltb import RunError, UsageError
from dltb.imaging.atomic import replacing
from dltb.imaging.frames import read_image, write_stored_png
from dltb.output.files import write_json

EVERY = 10  # passes; a count, so that boundaries never depend on timing


@dataclass(frozen=True)
class Checkpoint:
    """The last pass of ``phase`` whose results are all on disk."""

    phase: str
    index: int  # number of the pass, from 1
    finished: bool  # the phase is over and its video is joined
    log_bytes: int  # length of steps.jsonl at that moment
    passes: dict[str, int]  # finished passes of every phase so far
    frames: tuple[str, ...]  # kinds of frames kept with it: "state", and "source" where the fresh frame changes


@dataclass(frozen=True)
class ResumePoint:
    """Where a phase starts: after pass ``start``, with this state and fresh frame ([H, W, 3] uint8, or None)."""

    start: int = 0
    state: np.ndarray | None = None
    source: np.ndarray | None = None
    finished: bool = False


def save(folder: Path, checkpoint: Checkpoint, frames: Mapping[str, np.ndarray]) -> None:
    """Write the frames first, then the small file that makes them count, then drop the frames of the one before.

    The frames are not compressed, as only a resume reads them.
    """
    for kind, frame in frames.items():
        write_stored_png(_frame_path(folder, checkpoint, kind), frame)
    write_json(folder / "checkpoint.json", asdict(checkpoint))
    current = {_frame_path(folder, checkpoint, kind) for kind in frames}
    for old in folder.glob("*_pass_*.png"):
        if old not in current:
            old.unlink()


def load(folder: Path) -> Checkpoint | None:
    """The checkpoint in ``folder``, or None where no pass was kept yet.

    Raises:
        RunError: when the file is damaged.
    """
    path = folder / "checkpoint.json"
    try:
        return Checkpoint(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}); start the run anew with --overwrite") from None


def resume_point(folder: Path, checkpoint: Checkpoint) -> ResumePoint:
    """Read the frames that belong to ``checkpoint``.

    Raises:
        RunError: when one is missing or damaged; a run that went on without its state would be another run.
    """
    frames = {kind: read_frame(_frame_path(folder, checkpoint, kind)) for kind in checkpoint.frames}
    return ResumePoint(checkpoint.index, finished=checkpoint.finished, **frames)


def read_frame(path: Path) -> np.ndarray:
    """A frame that a resume cannot do without; RunError when it is missing or damaged."""
    try:
        return read_image(path)
    except UsageError as error:
        raise RunError(f"the run cannot go on: {error}; start it anew with --overwrite") from None


def save_memory(folder: Path, phase: str, index: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays of a pass; those of the checkpoint before stay, as this one does not count yet."""
    with replacing(_memory_path(folder, phase, index)) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    wanted = {_memory_path(folder, phase, number) for number in (index, index - EVERY)}
    for old in folder.glob("memory_*.npz"):
        if old not in wanted:
            old.unlink()


def load_memory(folder: Path, phase: str, index: int) -> dict[str, np.ndarray]:
    """The arrays of a pass.

    Raises:
        RunError: when they are missing or damaged; a run that went on without them would be another run.
    """
    path = _memory_path(folder, phase, index)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(
            f"the run cannot go on: {path} cannot be read ({error}); start it anew with --overwrite"
        ) from None


def _memory_path(folder: Path, phase: str, index: int) -> Path:
    return folder / f"memory_{phase}_pass_{index:04d}.npz"


def _frame_path(folder: Path, checkpoint: Checkpoint, kind: str) -> Path:
    return folder / f"{kind}_{checkpoint.phase}_pass_{checkpoint.index:04d}.png"
