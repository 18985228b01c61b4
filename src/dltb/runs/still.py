"""Runs that start from a still image: one pass, or a free run in which each pass eats the one before."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dltb import UsageError
from dltb.args.options import IterateOptions, ModelOptions, OutputOptions
from dltb.imaging import prepare_frame
from dltb.imaging.frames import probe_image, read_image
from dltb.loop.engine import Frame, ModelInput
from dltb.loop.sources import repeated
from dltb.output.naming import control_tag, output_root
from dltb.output.recorder import Phase, RunRecorder
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.model import choose_model, load_model
from dltb.runs.session import Session, already_complete, plan_run, report, resume_hint
from dltb.runs.stop import StopSignal


def run_oneshot(
    input_text: str,
    model: ModelOptions,
    output: OutputOptions,
    *,
    given: Collection[str] = (),
    load: Callable | None = None,
) -> int:
    """One pass over one image, into ``<stem>_oneshot/``; ``given`` names the options that the user set."""
    still = Still(tool="dltb-oneshot", tag="oneshot", passes=1)
    return _run(still, input_text, model, output, given, load)


def run_iterate(
    input_text: str,
    loop: IterateOptions,
    model: ModelOptions,
    output: OutputOptions,
    *,
    control: str | None = None,
    given: Collection[str] = (),
    load: Callable | None = None,
) -> int:
    """A free run P_n = f(P_{n-1}), into ``<stem>_free-running/``.

    ``given`` names the options that the user set; ``load`` stands in for ``load_model``, to lend what is loaded already.
    """
    if loop.save_every > loop.iterations:
        raise UsageError(
            f"--save-every {loop.save_every} of {loop.iterations} passes saves nothing; give a smaller one"
        )
    still = Still(
        tool="dltb-iterate",
        tag="free-running",
        passes=loop.iterations,
        video="timelapse.mp4",
        save_every=loop.save_every,
        fps=loop.video_fps,
        control=control,
    )
    return _run(still, input_text, model, output, given, load)


@dataclass(frozen=True)
class Still:
    """What differs between the runs that start from a still image."""

    tool: str
    tag: str
    passes: int
    video: str | None = None
    save_every: int = 1
    fps: Fraction = Fraction(30)
    control: str | None = None


def _run(
    still: Still,
    input_text: str,
    model: ModelOptions,
    output: OutputOptions,
    given: Collection[str],
    load: Callable | None,
) -> int:
    image_path = find_input(input_text)
    probe = probe_image(image_path)
    choice = choose_model(model, given, control=still.control)
    phase = Phase("main", still.passes, still.video)
    plan = plan_run(
        tool=still.tool,
        directory=output_root(output.output_dir, choice.spec.key)
        / f"{image_path.stem}_{still.tag}{control_tag(still.control)}",
        choice=choice,
        options=output,
        phases=[phase],
        settings={"passes": still.passes, "fps": str(still.fps), **describe_input(image_path)},
        save_every=still.save_every,
        fps=still.fps,
        video_every=still.save_every,
    )
    if already_complete(plan):
        return 0
    notes = list(probe.notes)
    original = prepare_frame(read_image(image_path), choice.settings.width, choice.settings.height)
    generate = (load or load_model)(choice, notes.append)
    with StopSignal(resume_hint(plan)) as stop, RunRecorder(plan) as recorder:
        session = Session(recorder, stop, generate)
        for text in notes:
            session.say(text)
        _play(session, phase, original)
    report(plan, recorder.passes)
    return 0


def _play(session: Session, phase: Phase, original: Frame) -> None:
    session.recorder.save_image("frame_0000_original.png", original)
    point = session.recorder.start(phase)
    if point.finished:
        return
    sources = repeated(original, phase.passes or 0, point.start)
    last = session.play(phase, point, sources, _carried_alone, keep_source=False)
    session.recorder.finish(phase, last.frame if last else point.state, None)


def _carried_alone(carried: np.ndarray, fresh: np.ndarray, previous: np.ndarray | None) -> ModelInput:
    """Free running: nothing fresh reaches the model after the first pass."""
    return ModelInput((carried,))
