"""Runs that start from a still image: one pass, or a free run in which each pass eats the one before."""

from collections.abc import Collection
from fractions import Fraction
from pathlib import Path

import numpy as np

from dltb.args.options import IterateOptions, ModelOptions, OutputOptions
from dltb.imaging import prepare_frame
from dltb.imaging.frames import probe_image, read_image
from dltb.loop.engine import Frame, ModelInput
from dltb.loop.sources import repeated
from dltb.output.naming import output_root
from dltb.output.recorder import Phase, RunRecorder
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.model import ModelChoice, choose_model, load_model
from dltb.runs.session import Output, Session, already_complete, plan_run, report, resume_hint, say
from dltb.runs.stop import StopSignal


def run_oneshot(input_text: str, model: ModelOptions, output: OutputOptions, given: Collection[str] = ()) -> int:
    """One pass over one image, into ``<stem>_oneshot/``."""
    return _run("dltb-oneshot", "oneshot", input_text, model, output, given, Phase("main", 1), Output())


def run_iterate(
    input_text: str, loop: IterateOptions, model: ModelOptions, output: OutputOptions, given: Collection[str] = ()
) -> int:
    """A free run P_n = f(P_{n-1}), into ``<stem>_free-running/``."""
    phase = Phase("main", loop.iterations, "timelapse.mp4")
    layout = Output(loop.save_every, Fraction(loop.video_fps).limit_denominator(100_000), video_every=loop.save_every)
    return _run("dltb-iterate", "free-running", input_text, model, output, given, phase, layout)


def _run(
    tool: str,
    tag: str,
    input_text: str,
    model: ModelOptions,
    output: OutputOptions,
    given: Collection[str],
    phase: Phase,
    layout: Output,
) -> int:
    image_path = find_input(input_text)
    probe = probe_image(image_path)
    choice = choose_model(model, given)
    directory = output_root(output.output_dir, choice.spec.key) / f"{image_path.stem}_{tag}"
    settings = {"passes": phase.passes, "fps": str(layout.fps), **describe_input(image_path)}
    plan = plan_run(tool, directory, choice, output, [phase], layout, settings)
    if already_complete(plan):
        return 0
    notes: list[str] = list(probe.notes)
    original = _prepared(image_path, choice)
    generate = load_model(choice, notes.append)
    with StopSignal(resume_hint()) as stop, RunRecorder(plan) as recorder:
        for text in notes:
            say(recorder, text)
        _play(Session(recorder, stop, generate), phase, original)
    report(plan, recorder.passes)
    return 0


def _prepared(path: Path, choice: ModelChoice) -> Frame:
    return prepare_frame(read_image(path), choice.settings.width, choice.settings.height)


def _play(session: Session, phase: Phase, original: Frame) -> None:
    session.recorder.save_image("frame_0000_original.png", original)
    point = session.recorder.start(phase)
    if point.finished:
        return
    sources = repeated(original, phase.passes or 0, point.start)
    last = session.play(phase, point, sources, _carried_alone, keep_source=False)
    state = last.frame if last else point.state
    if state is not None:
        session.recorder.finish(phase, state, None)


def _carried_alone(carried: np.ndarray, fresh: np.ndarray, previous: np.ndarray | None) -> ModelInput:
    """Free running: nothing fresh reaches the model after the first pass."""
    return ModelInput((carried,))
