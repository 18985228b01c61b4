"""The passes of a measured run: a still image through the stateful loop.

``distance-loop`` is a free run; ``distance-feedback`` gives the image back a share a of itself on every pass,
source_n = (1-a) P_{n-1} + a N, and keeps each model input.
"""

import gc
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.args.options import ModelOptions, OutputOptions
from dltb.imaging import prepare_frame
from dltb.imaging.frames import read_image
from dltb.loop.conditioning import blend_frames
from dltb.loop.engine import Frame, ModelInput, StepResult
from dltb.loop.sources import repeated
from dltb.output.naming import control_tag
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.runs.inputs import describe_input
from dltb.runs.model import ModelChoice, choose_model
from dltb.runs.session import Session, plan_run, resume_hint
from dltb.runs.stop import StopSignal


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


def choose_img2img(model: ModelOptions, given: Collection[str], control: str | None) -> ModelChoice:
    """A model that has a strength; the others would make this another experiment."""
    choice = choose_model(model, given, control=control)
    if not choice.spec.uses_strength:
        raise UsageError(
            f"{choice.spec.key} has no strength; this tool takes img2img models such as tiny-turbo, sd-turbo"
        )
    return choice


def plan_feedback(feedback: Feedback, choice: ModelChoice, output: OutputOptions, directory: Path) -> RunPlan:
    """The run as a plan. What it will be measured with is none of its settings: the frames are the same."""
    settings = {"passes": feedback.passes, "anchor_blend": feedback.anchor_blend, **describe_input(feedback.image)}
    phases = [Phase("main", feedback.passes)]
    return plan_run(
        tool=feedback.tool, directory=directory, choice=choice, options=output, phases=phases, settings=settings
    )


def play_passes(
    plan: RunPlan,
    generate: Callable,
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
