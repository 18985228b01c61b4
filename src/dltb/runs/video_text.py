"""What a video run says of itself: the line of its settings, and the options that change nothing as they stand."""

from collections.abc import Collection, Iterator

from dltb.args.options import MotionOptions, VideoOptions
from dltb.loop.conditioning import needs_motion
from dltb.output.naming import control_tag
from dltb.runs.model import ModelChoice
from dltb.runs.schedule import blends
from dltb.runs.video_setup import Clip, Loop


def header(loop: Loop, clip: Clip, choice: ModelChoice) -> str:
    """The line that states settings; it says reproject=on also where a = 1 skips the work."""
    video = loop.video
    state = f"mode={video.mode} conditioning={video.conditioning}"
    if video.conditioning == "blend":
        state += f" anchor_blend={video.anchor_blend:g}"
    else:
        state += f" ref_order={video.ref_order}"
    warp = f"reproject={'on' if video.reproject else 'off'} mask={'on' if video.reproject_mask else 'off'}"
    size = f"{choice.settings.width}x{choice.settings.height}"
    tails = f"tails={','.join(video.tail_modes)} x {video.tail_frames}" if video.tail_frames else "tails=none"
    name = f"{choice.spec.key}{control_tag(choice.control)}"
    extra = "".join(f" {text}" for text in _beyond(loop))
    return f"{name} {size} {state} {warp}{extra} frames={clip.passes or 'all'} {tails} device={choice.device}"


def _beyond(loop: Loop) -> Iterator[str]:
    """What the header says about motion, history and schedules that are not the reference's."""
    options = loop.motion.options
    if loop.motion.vectors:
        yield f"motion={loop.motion.vectors.folder}"
    elif options.flow != MotionOptions.flow:
        yield f"flow={options.flow}"
    if loop.motion.visibility:
        yield f"visibility={loop.motion.visibility.folder}"
    for name in ("history_input", "history"):
        if methods := getattr(loop.history, name):
            yield f"{name}={','.join(methods)}"
    yield from (name for name in loop.schedule.described())


def inert(loop: Loop, given: Collection[str]) -> Iterator[str]:
    """One line for every option that the user gave and that changes nothing as the options stand together."""
    yield from _inert_video(loop.video, given)
    yield from _inert_motion(loop, given)


def unreached(loop: Loop, clip: Clip) -> Iterator[str]:
    """One line for every schedule that goes on after the passes that the clip is known to have."""
    for name, at in loop.schedule.beyond(clip.passes) if clip.passes else ():
        yield f"--{name.replace('_', '-')} goes on to pass {at}, and the main loop has {clip.passes}"


def _inert_video(video: VideoOptions, given: Collection[str]) -> Iterator[str]:
    """The loop's own options that change nothing as they stand together."""
    dual_ref, anchored = video.conditioning == "dual-ref", video.mode == "anchored"
    if not blends(video):
        why = "dual-ref: the model weighs its two references itself"
        why = why if dual_ref else "--mode anchored without tails: no state is carried"
        for name in sorted({"anchor_blend", "blend_schedule"} & set(given)):
            yield f"--{name.replace('_', '-')} has no effect under {why}"
    if "ref_order" in given and not dual_ref:
        yield "--ref-order has no effect under blend: there is one reference"
    if {"reproject", "reproject_mask"} & set(given) and anchored:
        yield "--reproject and --reproject-mask have no effect under --mode anchored: no state is carried"
    if "tail_modes" in given and not video.tail_frames:
        yield "--tail-modes has no effect without --tail-frames"
    if not dual_ref and not anchored and video.anchor_blend >= 1 and video.reproject:
        yield "at --anchor-blend 1.0 the fresh frame replaces the state: flow and warp are skipped"


def _inert_motion(loop: Loop, given: Collection[str]) -> Iterator[str]:
    """Options of motion and history that change nothing as they stand together."""
    flags = sorted({"flow", "motion_vectors", "mask"} & set(given))
    if flags and not loop.moves:
        yield f"--{flags[0].replace('_', '-')} has no effect: no state is moved"
    if loop.history.history_input and not needs_motion(loop.video):
        yield "--history-input has no effect: no state reaches the model"
