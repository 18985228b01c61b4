"""The video loop: a clip through the model with carried state, then tails that branch from the shared end state."""

import os
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.args.options import ModelOptions, OutputOptions, SpeedOptions, VideoOptions
from dltb.imaging import estimate_flow, make_reprojector, prepare_frame
from dltb.imaging.flow import Flow, mean_motion
from dltb.imaging.flow_cache import FlowCache
from dltb.imaging.frames import Probe
from dltb.imaging.video import probe_video, read_video
from dltb.imaging.warp import Reprojector, warp_error_ratio
from dltb.loop.conditioning import Conditioning, make_conditioning, needs_motion
from dltb.loop.engine import Frame, Source
from dltb.loop.prefetch import FlowAhead, prefetch
from dltb.loop.sources import from_clip, repeated
from dltb.output.checkpoint import ResumePoint
from dltb.output.naming import control_tag, output_root, tails_tag, video_tag
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.model import ModelChoice, choose_model, load_model
from dltb.runs.session import Session, already_complete, plan_run, report, resume_hint
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
) -> int:
    """Run a clip and its tails.

    ``given`` names the options that the user set; ``factory`` is the conditioning, see dltb.loop.conditioning; ``speed``
    says how the flow is come by; ``load`` stands in for ``load_model``, to lend what is loaded already.
    """
    _check(video)
    path = find_input(input_text)
    probe = probe_video(path)
    choice = choose_model(model, given, klein_only=klein_only, control=control)
    clip = Clip(path, probe, _prepare(choice), video.max_frames)
    name = f"{path.stem}_{_tag(video)}{control_tag(control)}{tails_tag(video.tail_modes, video.tail_frames)}"
    plan = plan_run(
        tool=tool,
        directory=output_root(output.output_dir, choice.spec.key) / name,
        choice=choice,
        options=output,
        phases=_phases(video, clip),
        settings={**_effective(video), "make_conditioning": _name(factory), **describe_input(path)},
        save_every=video.save_every,
        fps=probe.fps,
    )
    print(_header(video, clip, choice))
    if already_complete(plan):
        return 0
    return _record(plan, clip, choice, video, factory, speed or SpeedOptions(), load or load_model)


def _check(video: VideoOptions) -> None:
    if video.reproject_mask and not video.reproject:
        raise UsageError("--reproject-mask corrects the warp that --no-reproject leaves out; give one of the two")


def _effective(video: VideoOptions) -> dict[str, Any]:
    """The options that reach the run; what changes nothing as they stand together is no difference between two runs."""
    inert = set()
    if not video.tail_frames:
        inert.add("tail_modes")
    if video.mode == "anchored":
        inert |= {"reproject", "reproject_mask"}
    inert.add("anchor_blend" if video.conditioning == "dual-ref" else "ref_order")
    return {name: None if name in inert else value for name, value in asdict(video).items()}


def _tag(video: VideoOptions) -> str:
    fields = ("mode", "conditioning", "anchor_blend", "reproject", "reproject_mask")
    return video_tag(**{name: getattr(video, name) for name in fields})


def _name(factory: Callable) -> str:
    """Two conditionings never share a run; a function of one's own is told by where it is defined."""
    return f"{factory.__module__}.{factory.__qualname__}"


def _prepare(choice: ModelChoice) -> Callable[[Frame], Frame]:
    return partial(prepare_frame, width=choice.settings.width, height=choice.settings.height)


def _phases(video: VideoOptions, clip: Clip) -> list[Phase]:
    main = Phase("main", clip.passes, f"processed_{video.mode}.mp4")
    tails = video.tail_modes if video.tail_frames else ()
    return [main, *(Phase(mode, video.tail_frames, f"tail_{mode}.mp4") for mode in tails)]


def _header(video: VideoOptions, clip: Clip, choice: ModelChoice) -> str:
    """The line that states settings; it says reproject=on also where a = 1 skips the work."""
    state = f"mode={video.mode} conditioning={video.conditioning}"
    if video.conditioning == "blend":
        state += f" anchor_blend={video.anchor_blend:g}"
    else:
        state += f" ref_order={video.ref_order}"
    warp = f"reproject={'on' if video.reproject else 'off'} mask={'on' if video.reproject_mask else 'off'}"
    size = f"{choice.settings.width}x{choice.settings.height}"
    tails = f"tails={','.join(video.tail_modes)} x {video.tail_frames}" if video.tail_frames else "tails=none"
    name = f"{choice.spec.key}{control_tag(choice.control)}"
    return f"{name} {size} {state} {warp} frames={clip.passes or 'all'} {tails} device={choice.device}"


def _record(
    plan: RunPlan,
    clip: Clip,
    choice: ModelChoice,
    video: VideoOptions,
    factory: Callable,
    speed: SpeedOptions,
    load: Callable,
) -> int:
    notes = [*clip.probe.notes, *_inert(video, choice.given)]
    first = clip.prepare(next(read_video(clip.path, limit=1)))
    generate = load(choice, notes.append)
    reproject = make_reprojector(mask_disocclusions=video.reproject_mask)
    flow = _flow_ahead(video, speed, reproject)
    conditioning = factory(video, flow, reproject)
    with closing(flow), StopSignal(resume_hint(plan)) as stop, RunRecorder(plan) as recorder:
        session = Session(recorder, stop, generate)
        for text in notes:
            session.say(text)
        recorder.save_image("frame_0000_source.png", first)
        end = _main_loop(session, plan.phases[0], clip, flow if needs_motion(video) else None, conditioning)
        for phase in plan.phases[1:]:
            _tail(session, phase, end, conditioning)
    report(plan, recorder.passes)
    return 0


def _flow_ahead(video: VideoOptions, speed: SpeedOptions, reproject: Reprojector) -> FlowAhead:
    estimate = partial(_checked_flow, backward=video.reproject_mask)
    if speed.flow_cache is not None:
        estimate = FlowCache(speed.flow_cache, estimate, kind="both ways" if video.reproject_mask else "one way")
    workers = speed.flow_workers or _flow_workers()
    return FlowAhead(lambda *pair: reproject.prepare(estimate(*pair)), workers, keep=AHEAD + workers + 4)


def _flow_workers() -> int:
    """Half of the cores, but 2 at least and 8 at most: Farneback takes tens of milliseconds on one core, each way."""
    return min(8, max(2, (os.cpu_count() or 1) // 2))


def _checked_flow(previous: Frame, current: Frame, *, backward: bool) -> Flow:
    """The flow of a pair, measured where it is made, away from the loop's thread: how far it goes and what it is worth."""
    flow = estimate_flow(previous, current, backward=backward)
    ratio = warp_error_ratio(previous, current, flow.forward)
    return replace(flow, warp_error=ratio, motion_px=mean_motion(flow.forward))


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


def _main_loop(
    session: Session, phase: Phase, clip: Clip, flow: FlowAhead | None, conditioning: Conditioning
) -> ResumePoint:
    """Play the clip; the state and the source frame that every tail starts from come back."""
    recorder = session.recorder
    point = recorder.start(phase)
    if point.finished:
        state, source = (recorder.read_kept(name) for name in (END_STATE, LAST_SOURCE))
        recorder.save_image(END_STATE, state)
        return replace(point, state=state, source=source)
    frames = read_video(clip.path, clip.limit, on_note=session.say)
    sources = from_clip(frames, clip.prepare, clip.limit, point.start, point.source)
    last = session.play(phase, point, _ahead(sources, flow), conditioning[0])
    end = ResumePoint(last.index, last.frame, last.source.frame) if last else point
    recorder.save_image(END_STATE, end.state)
    recorder.keep(END_STATE, end.state)
    recorder.keep(LAST_SOURCE, end.source)
    recorder.finish(phase, end.state, end.source)
    return end


def _ahead(sources: Iterator[Source], flow: FlowAhead | None) -> Generator[Source]:
    """The sources decoded on a thread, the flow of each begun as it goes by."""
    return prefetch(sources, AHEAD) if flow is None else prefetch(flow.watch(sources), AHEAD + flow.workers)


def _tail(session: Session, phase: Phase, end: ResumePoint, conditioning: Conditioning) -> None:
    """Play one tail from the end state: its fresh frame stands still, so nothing is warped."""
    point = session.recorder.start(phase)
    if point.finished:
        return
    tail_source = conditioning[1]

    def combine(carried: Frame, fresh: Frame, previous: Frame | None) -> object:
        return tail_source(phase.name, carried, fresh)

    state = end.state if point.state is None else point.state
    sources = repeated(end.source, phase.passes or 0, point.start)
    last = session.play(phase, replace(point, state=state), sources, combine, keep_source=False)
    session.recorder.finish(phase, last.frame if last else state, end.source)
