"""The video loop: a clip through the model with carried state, then tails that branch from the shared end state."""

import os
import warnings
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.args.options import (
    HistoryOptions,
    ModelOptions,
    MotionOptions,
    OutputOptions,
    ScheduleOptions,
    SpeedOptions,
    VideoOptions,
)
from dltb.imaging import make_reprojector, prepare_frame
from dltb.imaging.evidence import with_evidence
from dltb.imaging.flow import Flow, identity
from dltb.imaging.flow_cache import FlowCache
from dltb.imaging.frames import Probe
from dltb.imaging.mask import unseen
from dltb.imaging.video import probe_video, read_video
from dltb.imaging.warp import Reprojector
from dltb.loop.conditioning import Conditioning, make_conditioning, needs_motion
from dltb.loop.engine import Frame, Scheduled, Source, StepResult
from dltb.loop.prefetch import FlowAhead, prefetch
from dltb.loop.rectifier import Rectifier
from dltb.loop.sources import from_clip, repeated
from dltb.metrics.temporal import flicker, warping_error
from dltb.output.checkpoint import ResumePoint
from dltb.output.naming import control_tag, history_tag, keys_tag, motion_tag, output_root, tails_tag, video_tag
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.model import ModelChoice, choose_model, load_model
from dltb.runs.motion import CHECKED, Motion, check_vectors, choose_motion, flow_method, measured_flow, motion_settings
from dltb.runs.rectified import check_history, history_settings, make_rectifier, needs_way_back
from dltb.runs.schedule import Schedule, ScheduledGenerate
from dltb.runs.session import Session, already_complete, frame_drift, plan_run, report, resume_hint
from dltb.runs.stop import StopSignal

AHEAD = 4  # source frames decoded ahead of the loop, beside one for each flow worker
END_STATE = "end_state.png"  # what every tail starts from
LAST_SOURCE = "last_source.png"  # the fresh frame of the tails


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
    """What goes beyond the reference loop; as it stands here, nothing does."""

    motion: MotionOptions = field(default_factory=MotionOptions)
    history: HistoryOptions = field(default_factory=HistoryOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)


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


def run_video(
    tool: str,
    input_text: str,
    video: VideoOptions,
    model: ModelOptions,
    output: OutputOptions,
    *,
    given: Collection[str] = (),
    klein_only: bool = False,
    control: str | None = None,
    factory: Callable[..., Conditioning] = make_conditioning,
    speed: SpeedOptions | None = None,
    load: Callable | None = None,
    beyond: LoopOptions | None = None,
) -> int:
    """Run a clip and its tails.

    ``given`` names the options that the user set; ``factory`` is the conditioning, see dltb.loop.conditioning; ``speed``
    says how the flow is come by; ``load`` stands in for ``load_model``, to lend what is loaded already.
    """
    beyond = beyond or LoopOptions()
    _check(video, beyond, frozenset(given))
    path = find_input(input_text)
    probe = probe_video(path)
    choice = choose_model(model, given, klein_only=klein_only, control=control)
    clip = Clip(path, probe, _prepare(choice), video.max_frames)
    schedule = Schedule(beyond.schedule)
    schedule.check(choice.spec, choice.settings.num_inference_steps, given, profile=choice.profile)
    motion = _motion(beyond.motion, frozenset(given), clip, choice)
    choice = replace(choice, schedule=schedule)
    loop = Loop(video, factory, motion, beyond.history, schedule)
    name = f"{path.stem}_{_tag(loop)}{control_tag(control)}{tails_tag(video.tail_modes, video.tail_frames)}"
    plan = plan_run(
        tool=tool,
        directory=output_root(output.output_dir, choice.spec.key) / name,
        choice=choice,
        options=output,
        phases=_phases(video, clip),
        settings={**_effective(loop), "make_conditioning": _name(factory), **describe_input(path)},
        save_every=video.save_every,
        fps=probe.fps,
    )
    print(_header(loop, clip, choice))
    if already_complete(plan):
        return 0
    if motion.vectors and not beyond.motion.no_mv_check:
        check_vectors(motion, clip.sources(CHECKED + 1))
    return _record(plan, clip, choice, loop, speed or SpeedOptions(), load or load_model)


def _check(video: VideoOptions, beyond: LoopOptions, given: frozenset[str]) -> None:
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


def _motion(options: MotionOptions, given: frozenset[str], clip: Clip, choice: ModelChoice) -> Motion:
    lengths = [count for count in (clip.probe.frame_count, clip.limit) if count]
    size = (choice.settings.width or 0, choice.settings.height or 0)
    return choose_motion(options, given, lengths, (clip.probe.width, clip.probe.height), size)


def _effective(loop: Loop) -> dict[str, Any]:
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
    return {**reference, **motion, **history_settings(loop.history), **loop.schedule.described()}


def _tag(loop: Loop) -> str:
    fields = {name: getattr(loop.video, name) for name in ("mode", "conditioning", "reproject", "reproject_mask")}
    keys = loop.schedule.options.blend_schedule
    tag = video_tag(anchor_blend=keys_tag(keys) if keys else loop.video.anchor_blend, **fields)
    motion = loop.motion
    if loop.moves:
        tag += motion_tag(motion.options.flow, vectors=bool(motion.vectors), visibility=bool(motion.visibility))
    return tag + history_tag(loop.history.history_input, loop.history.history)


def _name(factory: Callable) -> str:
    """Two conditionings never share a run; a function of one's own is told by where it is defined."""
    return f"{factory.__module__}.{factory.__qualname__}"


def _prepare(choice: ModelChoice) -> Callable[[Frame], Frame]:
    return partial(prepare_frame, width=choice.settings.width, height=choice.settings.height)


def _phases(video: VideoOptions, clip: Clip) -> list[Phase]:
    main = Phase("main", clip.passes, f"processed_{video.mode}.mp4")
    tails = video.tail_modes if video.tail_frames else ()
    return [main, *(Phase(mode, video.tail_frames, f"tail_{mode}.mp4") for mode in tails)]


def _header(loop: Loop, clip: Clip, choice: ModelChoice) -> str:
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


def _record(plan: RunPlan, clip: Clip, choice: ModelChoice, loop: Loop, speed: SpeedOptions, load: Callable) -> int:
    notes = [*clip.probe.notes, *_inert(loop.video, choice.given), *_inert_motion(loop, choice.given)]
    first = clip.prepare(next(read_video(clip.path, limit=1)))
    generate = load(choice, notes.append)
    flow = _flow_ahead(loop, speed, choice.device)
    with closing(flow), StopSignal(resume_hint(plan)) as stop, RunRecorder(plan) as recorder:
        session = Session(recorder, stop, generate)
        for text in notes:
            session.say(text)
        recorder.save_image("frame_0000_source.png", first)
        end = _main_loop(session, plan.phases[0], clip, flow, loop)
        for phase in plan.phases[1:]:
            _tail(session, phase, end, flow, loop)
    report(plan, recorder.passes)
    return 0


def _flow_ahead(loop: Loop, speed: SpeedOptions, device: str) -> FlowAhead:
    """The motion of the sources, with all that follows from it alone, begun as they are decoded."""
    estimate, workers = _estimate(loop, speed, device), speed.flow_workers or _flow_workers()

    def of_source(source: Source) -> Flow:
        flow = loop.reproject.prepare(loop.motion.flow(source, estimate))
        if not loop.has_history:
            return flow
        return with_evidence(flow, source.previous, source.frame, loop.history.history_reject)

    def of_pair(previous: Frame, current: Frame) -> Flow:
        return of_source(Source(0, current, previous))

    return FlowAhead(of_pair, workers, keep=AHEAD + workers + 4, of_source=of_source)


def _estimate(loop: Loop, speed: SpeedOptions, device: str) -> Callable[[Frame, Frame], Flow]:
    """Estimated motion of a pair, from the cache where there is one."""
    name, backward = loop.motion.options.flow, needs_way_back(loop.history, loop.video)
    method = flow_method(name, device) if loop.moves and not loop.motion.vectors else "none"
    estimate = partial(measured_flow, backward=backward, method=method)
    if speed.flow_cache is None or loop.motion.vectors:
        return estimate
    return FlowCache(speed.flow_cache, estimate, kind=f"{identity(method)}{' both ways' if backward else ''}")


def _flow_workers() -> int:
    """Half of the cores, but 2 at least and 8 at most: Farneback takes tens of milliseconds on one core, each way."""
    return min(8, max(2, (os.cpu_count() or 1) // 2))


def _inert(video: VideoOptions, given: Collection[str]) -> Iterator[str]:
    """The loop's own options that change nothing as they stand together."""
    dual_ref, anchored = video.conditioning == "dual-ref", video.mode == "anchored"
    if "anchor_blend" in given and dual_ref:
        yield "--anchor-blend has no effect under dual-ref: the model weighs its two references itself"
    if "anchor_blend" in given and anchored and not dual_ref and not video.tail_frames:
        yield "--anchor-blend has no effect under --mode anchored without tails: no state is carried"
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


def _main_loop(session: Session, phase: Phase, clip: Clip, flow: FlowAhead, loop: Loop) -> ResumePoint:
    """Play the clip; the state and the source frame that every tail starts from come back."""
    recorder = session.recorder
    point = recorder.start(phase)
    if point.finished:
        state, source = (recorder.read_kept(name) for name in (END_STATE, LAST_SOURCE))
        recorder.save_image(END_STATE, state)
        return replace(point, state=state, source=source)
    rectifier = make_rectifier(loop.history, loop.video, flow)
    if rectifier and point.start:
        rectifier.restore(recorder.read_memory(phase, point.start))
    warp = rectifier.reproject if loop.history.history_input else None
    sources = clip.sources(clip.limit, point, on_note=session.say)
    last = session.play(
        phase,
        point,
        _ahead(sources, flow if loop.moves else None),
        _combine(loop, flow, warp),
        resolve=rectifier.resolve if loop.history.history else None,
        measure=_steadiness(flow if loop.moves else None),
        before_record=_keep_memory(recorder, phase, rectifier) if rectifier else None,
    )
    end = ResumePoint(last.index, last.frame, last.source.frame) if last else point
    recorder.save_image(END_STATE, end.state)
    recorder.keep(END_STATE, end.state)
    recorder.keep(LAST_SOURCE, end.source)
    recorder.finish(phase, end.state, end.source)
    return end


def _ahead(sources: Iterator[Source], flow: FlowAhead | None) -> Generator[Source]:
    """The sources decoded on a thread, the flow of each begun as it goes by."""
    return prefetch(sources, AHEAD) if flow is None else prefetch(flow.watch(sources), AHEAD + flow.workers)


def _keep_memory(recorder: RunRecorder, phase: Phase, rectifier: Rectifier) -> Callable[[StepResult], None]:
    return lambda step: recorder.keep_memory(phase, step.index, rectifier.arrays())


def _steadiness(flow: FlowAhead | None) -> Callable[[StepResult, Frame], dict[str, float]]:
    """How far a frame is from its source, and what moves in it that does not move there."""

    def measure(step: StepResult, before: Frame) -> dict[str, float]:
        source = step.source
        facts = {"mad": frame_drift(step.frame, source.frame)}
        if source.previous is not None:
            facts["flicker"] = flicker(step.frame, before, source.frame, source.previous)
        if source.previous is not None and flow is not None:
            found = flow(source.previous, source.frame)
            error = warping_error(step.frame, before, found.forward, unseen(found.forward, found.hidden))
            facts |= {} if error is None else {"warping_error": error}
        return facts

    return measure


def _combine(loop: Loop, flow: FlowAhead, warp: Callable | None) -> Callable | Scheduled:
    """The conditioning of the main loop; ``warp`` stands in for the plain one."""
    if not loop.schedule.options.blend_schedule:
        return _conditioning(loop, flow, loop.video.anchor_blend, warp)[0]
    return Scheduled(lambda index: _conditioning(loop, flow, loop.schedule.blend(0, index), warp)[0])


def _conditioning(loop: Loop, flow: FlowAhead, share: float, warp: Callable | None = None) -> Conditioning:
    return loop.factory(replace(loop.video, anchor_blend=share), flow, warp or loop.reproject)


def _tail(session: Session, phase: Phase, end: ResumePoint, flow: FlowAhead, loop: Loop) -> None:
    """Play one tail from the end state: its fresh frame stands still, so nothing is warped, and schedules stand still."""
    point = session.recorder.start(phase)
    if point.finished:
        return
    tail_source = _conditioning(loop, flow, loop.schedule.blend(loop.video.anchor_blend, end.start))[1]
    if isinstance(session.generate, ScheduledGenerate):
        session = replace(session, generate=session.generate.held_at(end.start))

    def combine(carried: Frame, fresh: Frame, previous: Frame | None) -> object:
        return tail_source(phase.name, carried, fresh)

    state = end.state if point.state is None else point.state
    sources = repeated(end.source, phase.passes or 0, point.start)
    last = session.play(phase, replace(point, state=state), sources, combine, keep_source=False)
    session.recorder.finish(phase, last.frame if last else state, end.source)
