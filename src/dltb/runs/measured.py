"""Runs that are measured as soon as they are made: a still image through the stateful loop, then a distance per frame.

``distance-loop`` is a free run; ``distance-feedback`` gives the image back a share a of itself on every pass,
source_n = (1-a) P_{n-1} + a N, and keeps each model input. The model is unloaded before the metric loads, so the two never
share the device's memory.
"""

import gc
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dltb import RunError, UsageError
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ModelOptions, OutputOptions
from dltb.imaging import prepare_frame
from dltb.imaging.folder import list_frames
from dltb.imaging.frames import probe_image, read_image
from dltb.loop.conditioning import blend_frames
from dltb.loop.engine import Frame, ModelInput, StepResult
from dltb.loop.sources import repeated
from dltb.metrics.distances import Metric, check_size, score, summarize
from dltb.metrics.dynamics import measure_run, table_columns
from dltb.metrics.plot import plot_dynamics, plot_table
from dltb.metrics.tables import read_columns, write_columns
from dltb.output.files import write_json
from dltb.output.naming import control_tag, output_root
from dltb.output.progress import watched
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.output.run_directory import Decision, read_manifest
from dltb.output.segments import ANEW
from dltb.runs.inputs import describe_input
from dltb.runs.metric import MetricChoice, choose_metric, describe_metric, load_chosen, summary_text
from dltb.runs.model import ModelChoice, choose_model, load_model
from dltb.runs.session import Session, plan_run, report, resume_hint
from dltb.runs.stop import StopSignal

TABLE, PLOT, DYNAMICS_PLOT = "distance_metrics.csv", "distance_plot.png", "dynamics_plot.png"
MEASURED = (TABLE, PLOT, DYNAMICS_PLOT)


@dataclass(frozen=True)
class Feedback:
    """A still image as a video: what is asked of one measured run."""

    tool: str
    image: Path
    passes: int
    anchor_blend: float | None  # None: a free run, whose inputs are its outputs and are not kept twice

    def directory_name(self, choice: ModelChoice) -> str:
        """The fixed tag; it holds neither the image's name nor prompt, seed or steps."""
        strength = f"_s{choice.settings.strength:g}"
        if self.anchor_blend is None:
            return f"distance{strength}{control_tag(choice.control)}"
        return f"feedback{strength}_a{self.anchor_blend:g}{control_tag(choice.control)}"


def run_measured(
    feedback: Feedback,
    model: ModelOptions,
    metric: MetricOptions,
    output: OutputOptions,
    *,
    control: str | None = None,
    given: Collection[str] = (),
) -> int:
    """Make the passes that are missing, then the table and the figures that are missing."""
    probe = probe_image(feedback.image)
    choice = choose_img2img(model, given, control)
    measure_with = choose_metric(metric, model.device)
    check_frame_size(choice, measure_with)
    directory = output_root(output.output_dir, choice.spec.key) / feedback.directory_name(choice)
    plan = plan_feedback(feedback, choice, measure_with, output, directory)
    if plan.decision is not Decision.COMPLETE:
        make_passes(plan, choice, feedback, probe.notes)
    if not is_measured(directory, measure_with, feedback):
        measure(directory, measure_with, load_chosen(measure_with))
    report(plan, {"main": feedback.passes})
    for name in MEASURED:
        print(f"{name}: {directory / name}")
    return 0


def choose_img2img(model: ModelOptions, given: Collection[str], control: str | None) -> ModelChoice:
    """A model that has a strength; the others would make this another experiment."""
    choice = choose_model(model, given, control=control)
    if not choice.spec.uses_strength:
        raise UsageError(
            f"{choice.spec.key} has no strength; this tool takes img2img models such as tiny-turbo, sd-turbo"
        )
    return choice


def plan_feedback(
    feedback: Feedback, choice: ModelChoice, metric: MetricChoice, output: OutputOptions, directory: Path
) -> RunPlan:
    """The run as a plan; the metric is one of its settings, since its table is one of its files."""
    told = describe_metric(metric)
    settings = {"passes": feedback.passes, "anchor_blend": feedback.anchor_blend, **describe_input(feedback.image)}
    settings |= {name: told[name] for name in ("metric", "dreamsim_type", "patch", "lag") if name in told}
    phases = [Phase("main", feedback.passes)]
    return plan_run(
        tool=feedback.tool, directory=directory, choice=choice, options=output, phases=phases, settings=settings
    )


def make_passes(plan: RunPlan, choice: ModelChoice, feedback: Feedback, notes: Collection[str] = ()) -> None:
    """Load the model, run what is missing, and unload it."""
    said = list(notes)
    play_passes(plan, load_model(choice, said.append), choice, feedback, said)
    free_memory(choice.device)


def play_passes(
    plan: RunPlan,
    generate: object,
    choice: ModelChoice,
    feedback: Feedback,
    notes: Collection[str],
    hint: str | None = None,
) -> None:
    """Run what is missing on a model that is loaded; ``hint`` says how to go on after an interruption."""
    original = prepare_frame(read_image(feedback.image), choice.settings.width, choice.settings.height)
    with StopSignal(hint or resume_hint(plan)) as stop, RunRecorder(plan) as recorder:
        session = Session(recorder, stop, generate)
        for text in notes:
            session.say(text)
        _play(session, plan.phases[0], original, feedback)


def _play(session: Session, phase: Phase, original: Frame, feedback: Feedback) -> None:
    recorder, share = session.recorder, feedback.anchor_blend
    recorder.save_image("frame_0000_original.png", original)
    point = recorder.start(phase)
    if share is not None:
        (recorder.directory / "inputs").mkdir(exist_ok=True)

    def combine(carried: Frame, fresh: Frame, previous: Frame | None) -> ModelInput:
        return ModelInput((blend_frames(carried, fresh, share or 0.0),))

    def keep_input(step: StepResult) -> None:
        if share is not None:
            recorder.save_image(f"inputs/frame_{step.index:04d}.png", step.inputs.images[0])

    if not point.finished:
        sources = repeated(original, phase.passes or 0, point.start)
        last = session.play(phase, point, sources, combine, keep_source=False, before_record=keep_input)
        recorder.finish(phase, last.frame if last else point.state, None)


def free_memory(device: str) -> None:
    """Hand the device's memory of a model that nobody holds any more back."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def check_frame_size(choice: ModelChoice, metric: MetricChoice) -> None:
    """Refuse, before anything loads, frames that the metric cannot take."""
    check_size(metric.spec, width=choice.settings.width or 0, height=choice.settings.height or 0)


def is_measured(directory: Path, choice: MetricChoice, feedback: Feedback) -> bool:
    """Whether the run has its figures, and a table of this metric with a row for every pass."""
    if not all((directory / name).exists() for name in MEASURED):
        return False
    try:
        names, columns = read_columns(directory / TABLE)
    except UsageError:
        return False
    wanted = ["to_ref", "to_prev"] if feedback.anchor_blend is None else ["to_ref", "to_prev", "input_to_ref"]
    return len(names) == feedback.passes and {choice.spec.column(name) for name in wanted} <= set(columns)


def _all_passes(folder: Path, passes: int) -> Sequence[Path]:
    """The frame of every pass; RunError when one is gone."""
    sequence = list_frames(folder)
    gone = sorted(set(range(1, passes + 1)) - set(sequence.numbers))
    if gone:
        raise RunError(f"{folder / f'frame_{gone[0]:04d}.png'} is gone ({len(gone)} missing in all); {ANEW}")
    return sequence.paths


def measure(directory: Path, choice: MetricChoice, metric: Metric) -> None:
    """Measure every frame, and every kept input, against the prepared original; write the table and the figures."""
    original = read_image(directory / "frame_0000_original.png")
    passes = read_manifest(directory)["passes"]["main"]
    paths = _all_passes(directory / "frames", passes)
    frames = map(read_image, watched(paths, "distance", "frames"))
    measured = measure_run(frames, original, metric, batch_size=choice.batch_size, lag=choice.lag)
    input_to_ref = None
    if (directory / "inputs").is_dir():
        inputs = map(read_image, watched(_all_passes(directory / "inputs", passes), "inputs", "frames"))
        scored = score(inputs, original, metric, batch_size=choice.batch_size)
        input_to_ref = [row.to_ref for row in scored]
    columns = table_columns(measured, choice.spec, lag=choice.lag, input_to_ref=input_to_ref)
    cycle = asdict(measured.cycle) if measured.cycle else None
    write_json(directory / "run.json", read_manifest(directory) | {"cycle": cycle})
    if measured.cycle:
        print(measured.cycle)
    names = [path.stem for path in paths]
    summary = summarize(measured.rows, converged_below=choice.converged_below)
    print(summary_text(choice, names, measured.rows, summary))
    write_columns(directory / TABLE, names, columns)
    plot_table(directory / TABLE, directory / PLOT, title=directory.name, converged_below=choice.converged_below)
    plot_dynamics(directory / TABLE, directory / DYNAMICS_PLOT, title=directory.name)
