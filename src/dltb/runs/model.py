"""From the model options to a ``generate`` callable: every check first, then device, then weights."""

import sys
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.args.options import ModelOptions
from dltb.imaging import PassSettings, make_generate
from dltb.imaging.controls import make_identity, make_vae_round_trip
from dltb.imaging.passes import (
    Generate,
    Pass,
    call_options,
    explained_memory,
    guidance_scale,
    inert_settings,
    prompt_notes,
)
from dltb.models import (
    MODELS,
    ModelSpec,
    check_requirements,
    load_pipeline,
    model_key,
    resolve_device,
    resolve_geometry,
)
from dltb.models.environment import describe_environment
from dltb.models.loading import resolve_dtype
from dltb.models.profiles import check_profile
from dltb.models.report import ProfileReport
from dltb.runs.schedule import Schedule, ScheduledGenerate

# Options that only the denoiser looks at.
DENOISING = frozenset(
    {"strength", "num_inference_steps", "guidance_scale", "prompt", "negative_prompt", "seed", "fixed_seed"}
)


@dataclass(frozen=True)
class ModelChoice:
    """A model that passed every check, not loaded yet."""

    spec: ModelSpec
    settings: PassSettings
    device: str
    weights: str | None
    offload: bool
    given: frozenset[str]  # names of the options that the user set
    control: str | None = None  # what runs in the model's place, if anything
    profile: str = "exact"
    schedule: Schedule = field(default_factory=Schedule)  # what changes from pass to pass


def choose_model(
    options: ModelOptions,
    given: Collection[str] = (),
    *,
    klein_only: bool = False,
    control: str | None = None,
) -> ModelChoice:
    """Check options, geometry, access and device.

    Raises:
        UsageError: when the model cannot be run as asked; nothing has been loaded by then.
    """
    spec = MODELS[model_key(options.model)]
    if klein_only and not spec.edits_references:
        known = ", ".join(key for key, row in MODELS.items() if row.edits_references)
        raise UsageError(f"{spec.key} is no FLUX.2 klein model; known here: {known} (for others: dltb-continuous)")
    width, height = resolve_geometry(spec, options.width, options.height)
    check_requirements(
        spec,
        strength=options.strength,
        num_inference_steps=options.num_inference_steps,
        weights=options.weights,
        offload=options.offload,
        device=options.device,
    )
    _say_hello(spec)
    device = resolve_device(options.device, spec)
    if control is not None and options.profile != "exact":
        raise UsageError(f"--profile {options.profile} speeds the model up, which --control {control} leaves out")
    check_profile(options.profile, spec, device=device, offload=options.offload)
    settings = _pass_settings(options, width, height)
    return ModelChoice(
        spec, settings, device, options.weights, options.offload, frozenset(given), control, options.profile
    )


def _say_hello(spec: ModelSpec) -> None:
    """On a terminal, that something happens: what follows imports PyTorch, which takes seconds."""
    if sys.stderr.isatty():
        print(f"{spec.key}: starting PyTorch ...", file=sys.stderr, flush=True)


def _pass_settings(options: ModelOptions, width: int, height: int) -> PassSettings:
    named = {name: getattr(options, name) for name in PassSettings.__dataclass_fields__ if hasattr(options, name)}
    return replace(PassSettings(**named), width=width, height=height)


@dataclass(frozen=True)
class Generator:
    """``generate(images, index) -> Pass`` of a loaded model, with the report of its profile."""

    generate: Callable
    report: ProfileReport

    def __call__(self, images: Any, index: int) -> Pass:
        made = self.generate(images, index)
        self.report.steps_run = made.steps_run
        return made


def load_model(
    choice: ModelChoice, note: Callable[[str], None], *, open_pipeline: Callable[[ModelChoice], Any] | None = None
) -> Callable:
    """Load the weights and return ``generate(images, index) -> Pass``; ``note`` is told what has no effect.

    ``open_pipeline`` is asked for the pipeline; one that is loaded already may be lent, see dltb.runs.pool.
    """
    unused = sorted(choice.given & DENOISING) if choice.control else []
    if unused:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        note(
            f"{told} {'has' if len(unused) == 1 else 'have'} no effect with --control {choice.control}: no denoiser runs"
        )
    if choice.control == "identity":
        return make_identity(choice.settings)
    pipe = (open_pipeline or load_chosen)(choice)
    if choice.control == "vae":
        return make_vae_round_trip(pipe, choice.settings)
    for text in inert_settings(choice.spec, choice.settings, pipe=pipe, given=choice.given):
        note(text)
    for prompt in choice.schedule.prompts(choice.settings.prompt):
        for text in prompt_notes(pipe, choice.spec, prompt):
            note(text)
    return scheduled(pipe, choice) if choice.schedule.changes_passes else under_profile(pipe, choice)


def load_chosen(choice: ModelChoice) -> Any:
    """The pipeline itself, on its device; says so, as it may take a while."""
    print(f"loading {choice.spec.key} on {choice.device} ...", file=sys.stderr, flush=True)
    return load_pipeline(choice.spec, offload=choice.offload, device=choice.device, weights=choice.weights)


def under_profile(pipe: Any, choice: ModelChoice) -> Generator:
    """The passes of a loaded pipeline under the profile that was chosen."""
    settings = choice.settings
    engine = _engine(pipe, choice, settings.prompt)
    return Generator(make_generate(pipe, choice.spec, settings, choice.device, call=engine.call), engine.report)


def scheduled(pipe: Any, choice: ModelChoice) -> ScheduledGenerate:
    """The passes of a loaded pipeline under schedules: set up once for every prompt that comes."""
    report = ProfileReport(choice.profile, "direct")

    @lru_cache(1)  # a prompt seldom comes back, and the graphs of one hold memory
    def engine_of(prompt: str) -> Any:
        return _engine(pipe, choice, prompt, report)

    def make(settings: PassSettings) -> Generate:
        engine = engine_of(settings.prompt)
        call = engine.at_strength(settings.strength) if choice.spec.uses_strength else engine.call
        return Generator(make_generate(pipe, choice.spec, settings, choice.device, call=call), report)

    return ScheduledGenerate(make, choice.schedule, choice.settings, report)


def _engine(pipe: Any, choice: ModelChoice, prompt: str, report: ProfileReport | None = None) -> Any:
    from dltb.models.direct.engine import make_engine

    settings, spec = replace(choice.settings, prompt=prompt), choice.spec
    size = (settings.width or spec.native_size, settings.height or spec.native_size)
    options = call_options(spec, settings)
    with explained_memory(spec, *size):  # the prompt is encoded here
        return make_engine(
            pipe, spec, options, profile=choice.profile, offload=choice.offload, size=size, report=report
        )


def describe_choice(choice: ModelChoice) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that a resume must share, and the environment around them, for run.json."""
    environment = describe_environment(choice.device)
    settings = {"model": choice.spec.key, "weights": choice.weights and str(Path(choice.weights).resolve())}
    settings |= asdict(choice.settings) | {"control": choice.control, "profile": choice.profile}
    settings["guidance_scale"] = guidance_scale(choice.spec, choice.settings)
    settings |= {f"{name} version": version for name, version in environment["versions"].items()}
    settings |= {name: environment[name] for name in ("device", "device_name")}
    settings["dtype"] = str(resolve_dtype(choice.spec, choice.device)).removeprefix("torch.")
    if choice.device == "cpu":
        settings["torch_threads"] = environment["torch_threads"]  # the order of CPU sums depends on it
    return settings, environment
