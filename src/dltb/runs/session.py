"""What every run does around its passes: claim the directory, say what will happen, record, stop, say what came of it."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dltb.args.options import OutputOptions
from dltb.loop.engine import Combine, Source, StepResult, run_loop
from dltb.output.checkpoint import ResumePoint
from dltb.output.progress import Progress
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.output.run_directory import Decision, decide
from dltb.runs.model import ModelChoice, describe_choice
from dltb.runs.space import check_space
from dltb.runs.stop import StopSignal


@dataclass(frozen=True)
class Output:
    """How a run's results are laid out."""

    save_every: int = 1
    fps: Fraction = Fraction(30)
    video_every: int = 1


def plan_run(
    tool: str,
    directory: Path,
    choice: ModelChoice,
    options: OutputOptions,
    phases: Sequence[Phase],
    output: Output,
    settings: Mapping[str, Any],
) -> RunPlan:
    """Decide what happens to ``directory`` and say it, before anything loads.

    Raises:
        UsageError: when the directory holds something else, or the disk is too small.
    """
    model_settings, environment = describe_choice(choice)
    settings = {**settings, **model_settings, "save_every": output.save_every}
    decision = decide(directory, settings, resume=options.resume, overwrite=options.overwrite)
    plan = RunPlan(
        tool, directory, decision, settings, environment, phases, output.save_every, output.fps, output.video_every
    )
    if decision is not Decision.COMPLETE:
        print(f"output: {directory}, {_space(plan, choice)}")
    return plan


def _space(plan: RunPlan, choice: ModelChoice) -> str:
    passes = sum(phase.passes or 0 for phase in plan.phases)
    filmed = sum(phase.passes or 0 for phase in plan.phases if phase.video) // plan.video_every
    size = (choice.settings.width, choice.settings.height)
    return check_space(plan.directory, *size, pngs=passes // plan.save_every + 4, video_frames=filmed)


def already_complete(plan: RunPlan) -> bool:
    """Say so when the very run is there and complete."""
    if plan.decision is Decision.COMPLETE:
        print(f"complete already, with the same settings: {plan.directory}")
        _say_videos(plan)
    return plan.decision is Decision.COMPLETE


@dataclass(frozen=True)
class Session:
    """An open run: everything a phase needs."""

    recorder: RunRecorder
    stop: StopSignal
    generate: Callable

    def play(
        self, phase: Phase, point: ResumePoint, sources: Iterable[Source], combine: Combine, *, keep_source: bool = True
    ) -> StepResult | None:
        """Run one phase from ``point`` to its end and return its last step, None when no source was left.

        ``keep_source`` stores the fresh frame at checkpoints, for phases in which it changes.
        """
        step = None
        with Progress(phase.name, phase.passes, point.start) as progress, closing(_closable(sources)) as steps:
            for step in run_loop(steps, combine, self.generate, point.state):
                source = step.source.frame if keep_source else None
                self.recorder.record(phase, step.index, step.frame, source, step_facts(step))
                progress.step()
                self.stop.check()
        return step


def _closable(sources: Iterable[Source]) -> Any:
    """Closing a generator ends the threads behind it; plain iterables become generators."""
    return sources if hasattr(sources, "close") else (source for source in sources)


def step_facts(step: StepResult) -> dict[str, Any]:
    """One line of steps.jsonl, less phase and pass."""
    done = step.output
    facts = {"seconds": round(done.seconds, 4), "seed": done.seed}
    facts |= {"steps_run": done.steps_run, "sigma_start": done.sigma_start}
    return facts | {name: round(value, 5) for name, value in step.inputs.facts.items()}


def say(recorder: RunRecorder | None, text: str) -> None:
    """A remark: said once, and kept in run.json when there is one."""
    print(f"NOTE: {text}", file=sys.stderr, flush=True)
    if recorder is not None:
        recorder.note(text)


def resume_hint() -> str:
    """What a user does after an interruption."""
    return "what is finished is kept; the same command with --resume goes on"


def report(plan: RunPlan, passes: Mapping[str, int]) -> None:
    """The last lines of a tool: where the results are and how to look at them."""
    frames = plan.directory / "frames"
    print(f"done: {', '.join(f'{name} {count}' for name, count in passes.items())} passes in {plan.directory}")
    print(f"frames: {frames}")
    _say_videos(plan)


def _say_videos(plan: RunPlan) -> None:
    videos = [plan.directory / phase.video for phase in plan.phases if phase.video]
    for video in videos:
        print(f"video: {video}")
    if videos:
        print(
            "look at it with any player or browser, e.g. "
            + ("open" if sys.platform == "darwin" else "xdg-open")
            + f" '{videos[0]}'"
        )
