"""The rows of the table: models, and the loop that each is timed in."""

from dataclasses import dataclass

from dltb.args.options import VideoOptions


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    key: str
    passes: int
    video: VideoOptions
    profiles: tuple[str, ...] = ("exact", "fast", "fp8")


def _row(key: str, passes: int, *profiles: str, klein: bool = False, save_every: int = 10) -> Row:
    video = VideoOptions(max_frames=passes, save_every=save_every, reproject_mask=klein)
    if klein:
        video = VideoOptions(max_frames=passes, save_every=save_every, reproject_mask=True, conditioning="dual-ref")
    return Row(key, passes, video, profiles or Row.profiles)


FULL_SIZE = (
    _row("flux2-klein-4b", 14, klein=True),
    _row("sd-turbo", 48, "exact", "fast"),
    _row("sdxl-turbo", 24, "exact", "fast"),
    _row("flux-schnell", 24),
    _row("flux2-klein-9b", 10, klein=True),
)
EMBEDDED = (
    Row("tiny-turbo", 24, VideoOptions(max_frames=24, save_every=1, reproject_mask=True), ("exact", "fast")),
    _row("tiny-klein", 16, "exact", "fast", klein=True, save_every=1),
)
