"""Where an unfinished run can go on: the carried state exactly as the loop held it, and the place it belongs to."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dltb.imaging.frames import read_image, write_png
from dltb.output.files import write_json

EVERY = 10  # passes; a count, so that boundaries never depend on timing


@dataclass(frozen=True)
class Checkpoint:
    """The last pass of ``phase`` whose results are all on disk."""

    phase: str
    index: int  # number of the pass, from 1
    finished: bool  # the phase is over and its video is joined
    log_bytes: int  # length of steps.jsonl at that moment


@dataclass(frozen=True)
class ResumePoint:
    """Where a phase starts: after pass ``start``, with this state and fresh frame ([H, W, 3] uint8, or None)."""

    start: int = 0
    state: np.ndarray | None = None
    source: np.ndarray | None = None
    finished: bool = False


def save(folder: Path, checkpoint: Checkpoint, state: np.ndarray, source: np.ndarray | None) -> None:
    """Write the frames first, then the small file that makes them count, then drop the frames of the one before."""
    for kind, frame in (("state", state), ("source", source)):
        if frame is not None:
            write_png(_frame_path(folder, checkpoint, kind), frame)
    write_json(folder / "checkpoint.json", asdict(checkpoint))
    current = {_frame_path(folder, checkpoint, kind) for kind in ("state", "source")}
    for old in folder.glob("*_pass_*.png"):
        if old not in current:
            old.unlink()


def load(folder: Path) -> Checkpoint | None:
    """The checkpoint in ``folder``, or None where no pass was kept yet."""
    try:
        return Checkpoint(**json.loads((folder / "checkpoint.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def resume_point(folder: Path, checkpoint: Checkpoint) -> ResumePoint:
    """Read the frames that belong to ``checkpoint``."""
    frames = {}
    for kind in ("state", "source"):
        path = _frame_path(folder, checkpoint, kind)
        frames[kind] = read_image(path) if path.exists() else None
    return ResumePoint(checkpoint.index, finished=checkpoint.finished, **frames)


def _frame_path(folder: Path, checkpoint: Checkpoint, kind: str) -> Path:
    return folder / f"{kind}_{checkpoint.phase}_pass_{checkpoint.index:04d}.png"
