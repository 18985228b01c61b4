"""A video written as short segments, so that a kill loses at most the open one; joined without re-encoding."""

import shutil
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path

import numpy as np

from dltb import RunError
from dltb.output.mp4 import Mp4Writer, join_mp4

ANEW = "start it anew with --overwrite"


def _segment(folder: Path, first_pass: int) -> Path:
    return folder / f"{first_pass:08d}.mp4"


class SegmentedVideo:
    """``folder/<first pass>.mp4`` for every stretch between two checkpoints; ``join`` makes ``out`` of them."""

    def __init__(self, folder: Path, out: Path, fps: Fraction, comment: str = "") -> None:
        self.folder, self.out, self.fps, self.comment = folder, out, fps, comment
        self._writer: Mp4Writer | None = None

    def keep_through(self, index: int, expected: Collection[int]) -> None:
        """Forget what begins after pass ``index`` or was left half-written; ``expected`` are the first passes before.

        Raises:
            RunError: when a segment that was finished is gone.
        """
        for path in self.folder.glob("*"):
            if path.suffix != ".mp4" or not path.stem.isdigit() or int(path.stem) > index:
                path.unlink()
        missing = set(expected) - {int(path.stem) for path in self.folder.glob("*.mp4")}
        if missing:
            raise RunError(f"the run cannot go on: {_segment(self.folder, min(missing))} is gone; {ANEW}")

    def write(self, index: int, frame: np.ndarray) -> None:
        """Add the frame of pass ``index``, opening a segment where none is open."""
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            height, width = frame.shape[:2]
            self._writer = Mp4Writer(_segment(self.folder, index), width, height, self.fps)
        self._writer.write(frame)

    def close_segment(self) -> None:
        """Finish the open segment, if any."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def join(self) -> None:
        """Write the whole video; the segments stay until ``remove``."""
        self.close_segment()
        parts = sorted(self.folder.glob("*.mp4"))
        if parts:
            join_mp4(parts, self.out, self.fps, comment=self.comment)

    def remove(self) -> None:
        """Delete the segments."""
        shutil.rmtree(self.folder, ignore_errors=True)
