"""What every run does around its passes: claim the directory, say what will happen, record, stop, say what came of it."""

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import cv2

from dltb import UsageError
from dltb.args.options import OutputOptions
from dltb.loop.engine import Combine, Frame, Resolve, Scheduled, Source, StepResult, run_loop
from dltb.output.checkpoint import ResumePoint
from dltb.output.progress import Progress
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.output.run_directory import Decision, check_writable, decide
from dltb.output.trackers import check_trackers
from dltb.runs.model import ModelChoice, describe_choice
from dltb.runs.space import check_space
from dltb.runs.stop import StopSignal

MAX_NAME = 240  # bytes; file systems take 255
Measurement = Callable[[], Mapping[str, float]]  # not made yet


def plan_run(
    *,
    tool: str,
    directory: Path,
    choice: ModelChoice,
    options: OutputOptions,
    phases: Sequence[Phase],
    settings: Mapping[str, Any],
    save_every: int = 1,
    fps: Fraction = Fraction(30),
    video_every: int = 1,
) -> RunPlan:
    """Decide what happens to ``directory`` and say it, before anything loads.

    Raises:
        UsageError: when the directory holds something else or cannot be written, or the disk is too small.
    """
    model_settings, environment = describe_choice(choice)
    settings = {**settings, **model_settings, "save_every": save_every}
    directory = usable(directory)
    plan = RunPlan(
        tool=tool,
        directory=directory,
        decision=decide(directory, settings, resume=options.resume, overwrite=options.overwrite),
        settings=settings,
        environment=environment,
        phases=phases,
        save_every=save_every,
        fps=fps,
        video_every=video_every,
        metadata=options.metadata,
        preview_every=options.preview,
        log_with=options.log_with or (),
    )
    if plan.decision is not Decision.COMPLETE:
        check_writable(directory)
        check_trackers(plan.log_with)
        size = (choice.settings.width or 0, choice.settings.height or 0)
        print(f"output: {directory}, {check_space(plan, *size)}")
    return plan


def usable(directory: Path) -> Path:
    """The run directory itself, where a link stands for it; a name that no file system takes is refused."""
    if len(os.fsencode(directory.name)) > MAX_NAME:
        raise UsageError(f"the run directory's name would be too long: {directory.name[:60]}...; rename the input")
    try:
        return directory.resolve() if directory.is_symlink() else directory
    except OSError as error:
        raise UsageError(f"cannot use {directory}: {error.strerror}; choose another --output-dir") from None


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
        self,
        phase: Phase,
        point: ResumePoint,
        sources: Generator[Source],
        combine: Combine | Scheduled,
        *,
        keep_source: bool = True,
        before_record: Callable[[StepResult], None] | None = None,
        resolve: Resolve | None = None,
        measure: Callable[[StepResult, Frame], Measurement] | None = None,
    ) -> StepResult | None:
        """Run one phase from ``point`` to its end and return its last step, None when no source was left.

        ``keep_source`` stores the fresh frame at checkpoints, for phases in which it changes; ``before_record`` hands
        over what else a pass leaves, so that its checkpoint speaks for that too; ``resolve`` is the loop's; what
        ``measure`` returns is worked out behind the loop and adds to the log what a step says beside the frame before it.
        """
        step, before = None, point.state
        with closing(sources), Progress(phase.name, phase.passes, point.start) as progress:
            for step in run_loop(self.stop.guard(sources), combine, self.generate, point.state, resolve):
                if before_record is not None:
                    before_record(step)
                source = step.source.frame if keep_source else None
                drift = None if before is None else frame_drift(before, step.frame)
                facts = step_facts(step, {} if drift is None else {"delta_prev": drift})
                later = dict if measure is None or before is None else partial(_rounded_of, measure(step, before))
                self.recorder.record(phase, step.index, step.frame, source, facts, later)
                self._describe()
                progress.step(drift)
                before = step.frame
        return step

    def _describe(self) -> None:
        """What the model's speed profile came to; it is known bit by bit, as the first passes run."""
        report = getattr(self.generate, "report", None)
        if report is not None:
            self.recorder.describe("profile", report.as_dict())

    def say(self, text: str) -> None:
        """A remark, said once and kept in run.json."""
        print(f"NOTE: {text}", file=sys.stderr, flush=True)
        self.recorder.note(text)


def frame_drift(before: Frame, frame: Frame) -> float:  # 0..255
    """dltb-drift's delta_prev, in 0.1 ms at 768 px where numpy takes 3.5: this runs between two passes."""
    return cv2.norm(before, frame, cv2.NORM_L1) / frame.size


def step_facts(step: StepResult, measured: Mapping[str, float] | None = None) -> dict[str, Any]:
    """One line of steps.jsonl, less phase and pass."""
    done = step.output
    facts = {"seconds": round(done.seconds, 4), "seed": done.seed}
    facts |= {"steps_run": done.steps_run, "sigma_start": done.sigma_start}
    own = {**step.inputs.facts, **getattr(done, "facts", {}), **(measured or {})}
    return facts | _rounded(own)


def _rounded(facts: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in facts.items()}


def _rounded_of(measurement: Measurement) -> dict[str, float]:
    return _rounded(measurement())


def resume_hint(plan: RunPlan) -> str:
    """What a user does after an interruption, and where there is something to look at."""
    return f"what is finished is kept in {plan.directory}; the same command with --resume goes on"


def report(plan: RunPlan, passes: Mapping[str, int]) -> None:
    """The last lines of a tool: where the results are and how to look at them."""
    print(f"done: {', '.join(f'{name} {count}' for name, count in passes.items())} passes in {plan.directory}")
    frames = plan.directory / "frames"
    print(f"frame: {frames / 'frame_0001.png'}" if sum(passes.values()) == 1 else f"frames: {frames}")
    _say_videos(plan)


def _say_videos(plan: RunPlan) -> None:
    videos = [plan.directory / phase.video for phase in plan.phases if phase.video]
    there = [video for video in videos if video.exists()]
    for video in videos:
        print(f"video: {video}" if video in there else f"NOTE: {video} is gone; dltb-assemble makes one of the frames")
    if there:
        opener = "open" if sys.platform == "darwin" else "xdg-open"
        print(f"look at it with any player or browser, e.g. {opener} '{there[0]}'")
