"""Disk: what a run will still need, said before it starts and refused when it cannot fit."""

import shutil
from pathlib import Path

from dltb import UsageError
from dltb.output import checkpoint
from dltb.output.recorder import Phase, RunPlan
from dltb.output.run_directory import Decision

PNG_SHARE = 0.8  # bytes of a PNG of a detailed frame over its raw bytes; photographs stay below it
VIDEO_SHARE = 0.06  # the same for a frame of mp4 at the quality written here
# The prepared input and the end state; not compressed, so at 1 / PNG_SHARE, two frames that the tails start from and two
# of each of two checkpoints: 2 + 6 / 0.8, rounded up.
EXTRA_PNGS = 10


def check_space(plan: RunPlan, width: int, height: int) -> str:
    """Estimate the disk that the passes still to be made will take, at width x height px.

    Returns:
        One phrase that says what is expected.

    Raises:
        UsageError: when the disk has less free than that.
    """
    counts = [passes - _done(plan).get(phase.name, 0) for phase in plan.phases if (passes := phase.passes)]
    pngs = sum(counts) // plan.save_every + EXTRA_PNGS
    filmed = sum(counts) // plan.video_every if any(phase.video for phase in plan.phases) else 0
    need = disk_bytes(width * height, pngs=pngs, filmed=filmed)
    place = next(parent for parent in (plan.directory, *plan.directory.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free + _freed(plan)
    if need > free:
        raise UsageError(
            f"the run needs about {told_size(need)} and {place} has {told_size(free)} free: make room, save fewer passes "
            "(--save-every), make fewer, or give another --output-dir"
        )
    return f"about {told_size(need)} of disk{_unknown(plan.phases)} ({told_size(free)} free)"


def disk_bytes(pixels: int, *, pngs: int, filmed: int) -> float:
    """What frames of so many pixels take as PNGs and in a video."""
    return pixels * 3 * (pngs * PNG_SHARE + 2 * filmed * VIDEO_SHARE)  # twice: segments, then the joined video


def _done(plan: RunPlan) -> dict[str, int]:
    position = checkpoint.load(plan.directory / "partial") if plan.decision is Decision.RESUME else None
    return position.passes if position else {}


def _freed(plan: RunPlan) -> int:
    """Bytes of the run that is replaced."""
    if plan.decision is not Decision.REPLACE:
        return 0
    return sum(path.lstat().st_size for path in Path(plan.directory).rglob("*") if path.is_file())


def _unknown(phases: list[Phase]) -> str:
    return "" if all(phase.passes for phase in phases) else " and more, as the clip does not say how long it is"


def told_size(count: float) -> str:
    """Bytes as a user reads them."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
