"""Disk: what a run will need, said before it starts and refused when it cannot fit."""

import shutil
from pathlib import Path

from dltb import UsageError

PNG_SHARE = 0.8  # bytes of a PNG of a detailed frame over its raw bytes; photographs stay below it
VIDEO_SHARE = 0.06  # the same for a frame of mp4 at the quality written here


def check_space(directory: Path, width: int, height: int, pngs: int, video_frames: int) -> str:
    """Estimate the disk for so many PNGs and video frames (twice: segments, then the joined video) of width x height px.

    Returns:
        One line that says what is expected.

    Raises:
        UsageError: when the disk has less free than that.
    """
    raw = width * height * 3
    need = raw * (pngs * PNG_SHARE + 2 * video_frames * VIDEO_SHARE)
    place = next(parent for parent in (directory, *directory.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if need > free:
        raise UsageError(
            f"the run needs about {_size(need)} and {place} has {_size(free)} free: "
            "save fewer passes (--save-every), make fewer, or give another --output-dir"
        )
    return f"about {_size(need)} of disk ({_size(free)} free)"


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{max(1, round(count / 2**20))} MiB"
