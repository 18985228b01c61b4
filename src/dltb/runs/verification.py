"""A model's reference pass, captured or read, and replayed through the same model under a profile."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dltb import RunError, UsageError
from dltb.args.options import ModelOptions, VerifyOptions
from dltb.imaging import PassSettings, make_generator, prepare_frame, run_pass
from dltb.imaging.frames import read_image
from dltb.imaging.passes import call_arguments, call_options
from dltb.models.environment import describe_environment
from dltb.output.files import check_report, write_json
from dltb.runs.inputs import find_input
from dltb.runs.model import ModelChoice, choose_model, load_chosen

TOOL = "dltb-verify"


def run_verify(input_text: str, model: ModelOptions, verify: VerifyOptions, *, given: Collection[str] = ()) -> int:
    """Capture, or replay and judge; returns the exit code, 1 when a check failed or none ran."""
    from dltb.models.verification.reference import Reference

    _check_flags(model, verify)
    report = check_report(verify.report, tool=TOOL, flag="--report")
    choice = choose_model(model, given)
    reference = Reference.load(Path(verify.reference)) if verify.reference else None
    if reference is not None:
        choice = _as_captured(choice, reference.about, given)
    pipe = load_chosen(choice)
    if reference is None:
        reference = capture_reference(pipe, choice, _pictures(choice, input_text))
    if verify.capture:
        reference.save(Path(verify.capture))
        print(f"reference: {Path(verify.capture).resolve()}, {reference.about['steps']} steps")
        return 0
    return _judge(replay_reference(reference, pipe, choice), report)


def _check_flags(model: ModelOptions, verify: VerifyOptions) -> None:
    if verify.capture and verify.reference:
        raise UsageError("--capture makes a reference and --reference reads one: give one of the two")
    if verify.capture and model.profile != "exact":
        raise UsageError(f"--capture records the model as it comes: give --profile {model.profile} with --reference")
    if verify.capture and verify.report is not None:
        raise UsageError("--capture judges nothing: give --report with --reference")
    if model.offload:
        raise UsageError("verification replays the parts of a model by themselves: leave --offload away")


def _judge(found: Any, report: Path | None) -> int:
    print(found.table())
    if report is not None:
        write_json(report, {"tool": TOOL, **found.as_dict()})
        print(f"report: {report}")
    if found.failures:
        raise RunError(f"not verified: {'; '.join(found.failures)}")
    print("verified")
    return 0


def _pictures(choice: ModelChoice, input_text: str) -> list[np.ndarray]:
    """The input, and its mirror image as a second reference for a model that takes several."""
    frame = prepare_frame(read_image(find_input(input_text)), choice.settings.width, choice.settings.height)
    return [frame] if choice.spec.max_references == 1 else [frame, np.ascontiguousarray(frame[:, ::-1])]


def capture_reference(pipe: Any, choice: ModelChoice, frames: Sequence[np.ndarray]) -> Any:
    """Run the pipeline as it comes, once, and record it with its input ``frames``."""
    import torch

    from dltb.models.verification.reference import capture

    about = {
        "model": choice.spec.key,
        "weights": choice.weights and str(Path(choice.weights).resolve()),
        "settings": asdict(choice.settings),
        "environment": describe_environment(choice.device),
        "inputs": len(frames),
    }
    generator = make_generator(choice.device, choice.settings.seed)
    reference = capture(pipe, call_arguments(choice.spec, frames, choice.settings), about, generator)
    reference.tensors |= {f"input.{n}": torch.from_numpy(np.array(frame)) for n, frame in enumerate(frames)}
    return reference


def replay_reference(reference: Any, pipe: Any, choice: ModelChoice) -> Any:
    """All checks of a model under the chosen profile; fast and fp8 change ``pipe`` in place."""
    from dltb.models.direct.engine import make_engine
    from dltb.models.verification.checks import Report
    from dltb.models.verification.replay import Replay, check_frame

    options = call_options(choice.spec, choice.settings)
    size = (choice.settings.width or 0, choice.settings.height or 0)
    engine = make_engine(pipe, choice.spec, options, profile=choice.profile, size=size)
    checked = Replay(reference, pipe, vae=getattr(engine.call, "vae", pipe.vae), options=options).run()
    names = [f"input.{n}" for n in range(reference.about.get("inputs", 0))]
    frames = [reference.tensors[name].numpy() for name in names if name in reference.tensors]
    if frames and checked[0].status == "pass":
        generator = make_generator(choice.device, choice.settings.seed)
        made = run_pass(pipe, choice.spec, frames, choice.settings, generator, call=engine.call)
        same_noise = reference.about["environment"]["device"] == choice.device
        checked.append(check_frame(reference, made.frame, same_noise=same_noise))
    about = {"model": choice.spec.key, "weights": choice.weights, "profile": engine.report.as_dict()}
    about |= {"captured": reference.about["environment"], "replayed": describe_environment(choice.device)}
    return Report(about, checked)


def _as_captured(choice: ModelChoice, about: dict[str, Any], given: Collection[str]) -> ModelChoice:
    """The choice with the settings of the reference; a flag that says otherwise is refused."""
    if about.get("model") != choice.spec.key:
        raise UsageError(f"the reference is of {about.get('model')}, --model is {choice.spec.key}")
    settings = PassSettings(**about["settings"])
    for name in set(given) & set(asdict(settings)):
        there, here = getattr(settings, name), getattr(choice.settings, name)
        if there != here:
            raise UsageError(f"--{name.replace('_', '-')} {here}: the reference was captured with {there}")
    return replace(choice, settings=settings)
