"""A video written as short segments, so that a kill loses at most the open one; joined without re-encoding."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np

from dltb.output.mp4 import Mp4Writer, join_mp4


class SegmentedVideo:
    """``folder/<first pass>.mp4`` for every stretch between two checkpoints; ``join`` makes ``out`` of them."""

    def __init__(self, folder: Path, out: Path, fps: Fraction) -> None:
        self.folder, self.out, self.fps = folder, out, fps
        self._writer: Mp4Writer | None = None

    def drop_after(self, index: int) -> None:
        """Forget segments that begin after pass ``index``, and what a kill left half-written."""
        for path in self.folder.glob("*"):
            if path.suffix != ".mp4" or not path.stem.isdigit() or int(path.stem) > index:
                path.unlink()

    def write(self, index: int, frame: np.ndarray) -> None:
        """Add the frame of pass ``index``, opening a segment where none is open."""
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            height, width = frame.shape[:2]
            self._writer = Mp4Writer(self.folder / f"{index:08d}.mp4", width, height, self.fps)
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
            join_mp4(parts, self.out, self.fps)

    def remove(self) -> None:
        """Delete the segments."""
        shutil.rmtree(self.folder, ignore_errors=True)
