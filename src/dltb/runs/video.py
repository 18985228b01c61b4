"""The video loop: a clip through the model with carried state, then tails that branch from the shared end state."""

import os
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from dltb.args.options import ModelOptions, OutputOptions, SpeedOptions, VideoOptions
from dltb.imaging.evidence import with_evidence
from dltb.imaging.flow import Flow, identity
from dltb.imaging.flow_cache import FlowCache, check_folder
from dltb.imaging.mask import unseen
from dltb.imaging.video import probe_video, read_video
from dltb.loop.conditioning import Conditioning, make_conditioning
from dltb.loop.engine import Frame, Scheduled, Source, StepResult
from dltb.loop.prefetch import FlowAhead, prefetch
from dltb.loop.rectifier import Rectifier
from dltb.loop.sources import repeated
from dltb.metrics.temporal import flicker, warping_error
from dltb.output.checkpoint import ResumePoint
from dltb.output.naming import output_root
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.model import ModelChoice, choose_model, load_model
from dltb.runs.motion import CHECKED, check_vectors, flow_method, measured_flow
from dltb.runs.rectified import make_rectifier, needs_way_back
from dltb.runs.schedule import Schedule, ScheduledGenerate
from dltb.runs.session import Measurement, Session, already_complete, frame_drift, plan_run, report, resume_hint
from dltb.runs.stop import StopSignal
from dltb.runs.video_setup import (
    Clip,
    Loop,
    LoopOptions,
    check_options,
    effective_settings,
    find_motion,
    make_clip,
    run_name,
)
from dltb.runs.video_text import header, inert, unreached

AHEAD = 4  # source frames decoded ahead of the loop, beside one for each flow worker
END_STATE = "end_state.png"  # what every tail starts from
LAST_SOURCE = "last_source.png"  # the fresh frame of the tails


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
    beyond: LoopOptions | None = None,
    load: Callable | None = None,
) -> int:
    """Run a clip and its tails.

    ``given`` names the options that the user set; ``factory`` is the conditioning, see dltb.loop.conditioning; ``load``
    stands in for ``load_model``, to lend what is loaded already.
    """
    beyond = beyond or LoopOptions()
    check_options(video, beyond, frozenset(given))
    if beyond.speed.flow_cache is not None:
        check_folder(beyond.speed.flow_cache)
    path = find_input(input_text)
    probe = probe_video(path)
    choice = choose_model(model, given, klein_only=klein_only, control=control)
    clip = make_clip(path, probe, choice, video.max_frames)
    schedule = Schedule(beyond.schedule)
    schedule.check(choice.spec, choice.settings.num_inference_steps, given, profile=choice.profile)
    schedule = schedule.reaching(video)
    choice = replace(choice, schedule=schedule)
    motion = find_motion(beyond.motion, frozenset(given), clip, choice)
    loop = Loop(video, factory, motion, beyond.history, schedule)
    plan = _plan(tool, clip, choice, loop, output)
    print(header(loop, clip, choice))
    if already_complete(plan):
        return 0
    if motion.vectors and not beyond.motion.no_mv_check:
        check_vectors(motion, clip.sources(min(CHECKED + 1, clip.limit or CHECKED + 1)))
    return _record(plan, clip, choice, loop, beyond.speed, load or load_model)


def _plan(tool: str, clip: Clip, choice: ModelChoice, loop: Loop, output: OutputOptions) -> RunPlan:
    return plan_run(
        tool=tool,
        directory=output_root(output.output_dir, choice.spec.key) / run_name(loop, clip, choice),
        choice=choice,
        options=output,
        phases=_phases(loop.video, clip),
        settings={**effective_settings(loop), **describe_input(clip.path)},
        save_every=loop.video.save_every,
        fps=clip.probe.fps,
    )


def _phases(video: VideoOptions, clip: Clip) -> list[Phase]:
    main = Phase("main", clip.passes, f"processed_{video.mode}.mp4")
    tails = video.tail_modes if video.tail_frames else ()
    return [main, *(Phase(mode, video.tail_frames, f"tail_{mode}.mp4") for mode in tails)]


def _record(plan: RunPlan, clip: Clip, choice: ModelChoice, loop: Loop, speed: SpeedOptions, load: Callable) -> int:
    notes = [*clip.probe.notes, *inert(loop, choice.given), *unreached(loop, clip)]
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
        if loop.has_history:
            flow = with_evidence(flow, source.previous, source.frame, loop.history.history_reject)
        _ = flow.fetch  # worked out here, and kept with the flow
        return flow

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


def _steadiness(flow: FlowAhead | None) -> Callable[[StepResult, Frame], Measurement]:
    """How far a frame is from its source, and what moves in it that does not move there."""

    def measure(step: StepResult, before: Frame) -> Measurement:
        source = step.source
        # Asked for now: the answers that are held are those around the pass under way.
        found = None if flow is None or source.previous is None else flow(source.previous, source.frame)
        # Not what history made of it, as that would wait in memory with the frame.
        motion = None if found is None else found.sharing_fetch(Flow(found.forward, hidden=found.hidden))
        return partial(_steadiness_of, step.frame, before, source, motion)

    return measure


def _steadiness_of(frame: Frame, before: Frame, source: Source, motion: Flow | None) -> dict[str, float]:
    facts = {"mad": frame_drift(frame, source.frame)}
    if source.previous is not None:
        facts["flicker"] = flicker(frame, before, source.frame, source.previous)
    if motion is not None:
        error = warping_error(frame, before, motion, unseen(motion, motion.hidden))
        facts |= {} if error is None else {"warping_error": error}
    return facts


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
