"""From a video tool's options to a clip and a loop that have passed every check, and to what tells two runs apart."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.args.options import HistoryOptions, MotionOptions, ScheduleOptions, SpeedOptions, VideoOptions
from dltb.imaging import make_reprojector, prepare_frame
from dltb.imaging.frames import Probe
from dltb.imaging.video import read_video
from dltb.imaging.warp import Reprojector
from dltb.loop.conditioning import Conditioning, needs_motion
from dltb.loop.engine import Frame, Source
from dltb.loop.sources import from_clip
from dltb.output.checkpoint import ResumePoint
from dltb.output.naming import control_tag, history_tag, keys_tag, motion_tag, tails_tag, video_tag
from dltb.runs.model import ModelChoice
from dltb.runs.motion import Motion, choose_motion, motion_settings
from dltb.runs.rectified import check_history, history_settings
from dltb.runs.schedule import Schedule


@dataclass(frozen=True)
class Clip:
    """The fresh frames of a run."""

    path: Path
    probe: Probe
    prepare: Callable[[Frame], Frame]  # to the size of a pass
    limit: int | None

    @property
    def passes(self) -> int | None:
        """Expected number of frames; None where the file does not say, however low the limit may be."""
        count = self.probe.frame_count
        return count if count is None or self.limit is None else min(count, self.limit)

    def sources(
        self,
        limit: int | None,
        point: ResumePoint | None = None,
        *,
        on_note: Callable[[str], None] = warnings.warn,
    ) -> Iterator[Source]:
        """The fresh frames up to ``limit``, from ``point`` on."""
        point = point or ResumePoint()
        return from_clip(read_video(self.path, limit, on_note=on_note), self.prepare, limit, point.start, point.source)


@dataclass(frozen=True)
class LoopOptions:
    """What goes beyond the reference loop, and how its motion is come by; as it stands here, nothing does."""

    motion: MotionOptions = field(default_factory=MotionOptions)
    history: HistoryOptions = field(default_factory=HistoryOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    speed: SpeedOptions = field(default_factory=SpeedOptions)


@dataclass(frozen=True)
class Loop:
    """Everything about a run's loop that has passed its checks."""

    video: VideoOptions
    factory: Callable[..., Conditioning]
    motion: Motion
    history: HistoryOptions
    schedule: Schedule

    @property
    def has_history(self) -> bool:
        """Whether a chain runs before or after the pass."""
        return bool(self.history.history or self.history.history_input)

    @property
    def reproject(self) -> Reprojector:
        """The plain warp, with the mask that is asked for."""
        masked = self.video.reproject_mask or self.motion.visibility is not None
        return make_reprojector(mask_disocclusions=masked)

    @property
    def moves(self) -> bool:
        """Whether motion reaches anything."""
        keys = self.schedule.options.blend_schedule
        least = min(share for _, share in keys) if keys else self.video.anchor_blend
        return needs_motion(replace(self.video, anchor_blend=least)) or bool(self.history.history)


def check_options(video: VideoOptions, beyond: LoopOptions, given: frozenset[str]) -> None:
    """Refuse options of the loop that contradict each other."""
    if video.reproject_mask and not video.reproject:
        raise UsageError("--reproject-mask corrects the warp that --no-reproject leaves out; give one of the two")
    if video.reproject_mask and beyond.motion.mask:
        raise UsageError("--reproject-mask finds the mask that --mask visibility reads; give one of the two")
    if video.reproject_mask and beyond.motion.motion_vectors:
        raise UsageError(
            "--reproject-mask compares the motion with the way back, which --motion-vectors has not; use --mask visibility "
            "DIR, or --history-input reject"
        )
    moves, vectors = bool(beyond.schedule.blend_schedule), bool(beyond.motion.motion_vectors)
    check_history(beyond.history, video, given, blend_moves=moves, vectors=vectors)


def make_clip(path: Path, probe: Probe, choice: ModelChoice, limit: int | None) -> Clip:
    """The clip at the size of a pass."""
    prepare = partial(prepare_frame, width=choice.settings.width, height=choice.settings.height)
    return Clip(path, probe, prepare, limit)


def find_motion(options: MotionOptions, given: frozenset[str], clip: Clip, choice: ModelChoice) -> Motion:
    """The motion of the clip, its files found and checked."""
    lengths = [count for count in (clip.probe.frame_count, clip.limit) if count]
    size = (choice.settings.width or 0, choice.settings.height or 0)
    return choose_motion(options, given, lengths, (clip.probe.width, clip.probe.height), size)


def effective_settings(loop: Loop) -> dict[str, Any]:
    """The options that reach the run; what changes nothing as they stand together is no difference between two runs."""
    video = loop.video
    inert = set()
    if not video.tail_frames:
        inert.add("tail_modes")
    if video.mode == "anchored":
        inert |= {"reproject", "reproject_mask"}
    inert.add("anchor_blend" if video.conditioning == "dual-ref" else "ref_order")
    if loop.schedule.options.blend_schedule:
        inert.add("anchor_blend")
    reference = {name: None if name in inert else value for name, value in asdict(video).items()}
    motion = motion_settings(loop.motion) if loop.moves else {}
    # Two conditionings never share a run; a function of one's own is told by where it is defined.
    factory = {"make_conditioning": f"{loop.factory.__module__}.{loop.factory.__qualname__}"}
    return {**reference, **motion, **history_settings(loop.history), **loop.schedule.described(), **factory}


def run_name(loop: Loop, clip: Clip, choice: ModelChoice) -> str:
    """The name of the run directory."""
    tails = tails_tag(loop.video.tail_modes, loop.video.tail_frames)
    return f"{clip.path.stem}_{_loop_tag(loop)}{control_tag(choice.control)}{tails}"


def _loop_tag(loop: Loop) -> str:
    fields = {name: getattr(loop.video, name) for name in ("mode", "conditioning", "reproject", "reproject_mask")}
    keys = loop.schedule.options.blend_schedule
    tag = video_tag(anchor_blend=keys_tag(keys) if keys else loop.video.anchor_blend, **fields)
    motion = loop.motion
    if loop.moves:
        tag += motion_tag(motion.options.flow, vectors=bool(motion.vectors), visibility=bool(motion.visibility))
    return tag + history_tag(loop.history.history_input, loop.history.history)
