"""Scheduled settings: what a pass of a given number runs with, and a ``generate`` that follows it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from dltb import UsageError
from dltb.args.options import ScheduleOptions, VideoOptions
from dltb.imaging import PassSettings
from dltb.imaging.passes import Generate, Pass
from dltb.loop.schedule import held_at, number_at, seed_at
from dltb.models import ModelSpec
from dltb.models.report import ProfileReport

_SCHEDULED = {
    "strength": "strength_schedule",
    "anchor_blend": "blend_schedule",
    "prompt": "prompt_schedule",
    "fixed_seed": "seed_schedule",
}


def blends(video: VideoOptions) -> bool:
    """Whether any pass mixes frame and state by pixels: with two references none does, nor where no state is carried."""
    return video.conditioning == "blend" and (video.mode != "anchored" or bool(video.tail_frames))


@dataclass(frozen=True)
class Schedule:
    """The schedules of a run."""

    options: ScheduleOptions = field(default_factory=ScheduleOptions)

    @property
    def changes_passes(self) -> bool:
        """Whether passes differ in what the model is told."""
        options = self.options
        return any((options.strength_schedule, options.prompt_schedule, options.seed_schedule))

    def check(self, spec: ModelSpec, steps: int, given: Collection[str] = (), *, profile: str = "exact") -> None:
        """Refuse a flag beside its schedule, a strength that is of no use or runs no step, and a profile that is fixed."""
        if self.changes_passes and profile != "exact":
            raise UsageError(
                f"--profile {profile} prepares one kind of pass, and schedules change it; use --profile exact"
            )
        for flag, name in _SCHEDULED.items():
            if flag in given and getattr(self.options, name):
                flags = (f"--{text.replace('_', '-')}" for text in (flag, name))
                raise UsageError(f"{' and '.join(flags)} both say what a pass runs with; give one of the two")
        keys = self.options.strength_schedule
        if keys and not spec.uses_strength:
            raise UsageError(f"--strength-schedule: {spec.key} has no strength, it starts from pure noise")
        low = min((value for _, value in keys or ()), default=1.0)
        if keys and steps * low < 1:
            raise UsageError(
                f"--strength-schedule goes down to {low:g}: {steps} steps x {low:g} run no step; at least {1 / steps:g}"
            )

    def settings(self, base: PassSettings, index: int, *, held: int | None = None) -> PassSettings:
        """What pass ``index`` runs with; ``held`` is the pass at which a tail took the schedules over."""
        options, at = self.options, index if held is None else held
        changes: dict[str, Any] = {}
        if options.strength_schedule:
            changes["strength"] = number_at(options.strength_schedule, at)
        if options.prompt_schedule:
            changes["prompt"] = held_at(options.prompt_schedule, at)
        if options.seed_schedule:
            policy = held_at(options.seed_schedule, at)
            changes |= {"seed": seed_at(policy, base.seed, index), "fixed_seed": True}
        return replace(base, **changes)

    def blend(self, share: float, index: int) -> float:
        """The share of the fresh frame at pass ``index``."""
        keys = self.options.blend_schedule
        return number_at(keys, index) if keys else share

    def reaching(self, video: VideoOptions) -> "Schedule":
        """The same without a blend schedule that reaches no pass of such a loop."""
        return self if blends(video) else replace(self, options=replace(self.options, blend_schedule=None))

    def beyond(self, passes: int) -> Iterator[tuple[str, int]]:
        """The schedules, as their options are called, whose last key frame lies after all passes, and where it lies."""
        for name, keys in self.described().items():
            if keys[-1][0] > passes:
                yield name, keys[-1][0]

    def prompts(self, base: str) -> list[str]:
        """Every prompt that the run uses."""
        return [text for _, text in self.options.prompt_schedule or ((0, base),)]

    def described(self) -> dict[str, Any]:
        """Settings of the run; a schedule that is not there is none."""
        return {name: keys for name, keys in asdict(self.options).items() if keys}


@dataclass(frozen=True)
class ScheduledGenerate:
    """``generate(images, index)`` that makes each pass with its own settings."""

    make: Callable[[PassSettings], Generate]
    schedule: Schedule
    base: PassSettings
    report: ProfileReport  # of all passes together
    held: int | None = None  # the pass at which a tail took the schedules over

    def __call__(self, images: np.ndarray | Sequence[np.ndarray], index: int) -> Pass:
        return self.make(self.schedule.settings(self.base, index, held=self.held))(images, index)

    def held_at(self, index: int) -> "ScheduledGenerate":
        """The same as it stands at pass ``index`` of the main loop, for a tail; seeds go on counting."""
        return replace(self, held=index)
