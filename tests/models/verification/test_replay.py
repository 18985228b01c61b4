"""Capture and replay for every family: the parts of a model against a record of themselves."""

from dataclasses import replace

import numpy as np
import pytest

from dltb.imaging import PassSettings
from dltb.models import MODELS
from dltb.models.verification.reference import Reference
from dltb.runs.model import ModelChoice
from dltb.runs.verification import capture_reference, replay_reference

SETTINGS = PassSettings(prompt="an oil painting", width=64, height=64)


def _choice(key: str, **settings) -> ModelChoice:
    return ModelChoice(MODELS[key], replace(SETTINGS, **settings), "cpu", None, False, frozenset())


@pytest.mark.parametrize(
    ("key", "settings", "steps"),
    [
        ("sd-turbo", {}, 1),
        ("sd-turbo", {"guidance_scale": 3.0, "negative_prompt": "grey", "strength": 1.0}, 4),
        ("sdxl-turbo", {"guidance_scale": 3.0}, 1),
        ("flux-schnell", {}, 2),
        ("flux2-klein-4b", {}, 4),
        ("flux2-klein-9b-kv", {}, 4),
    ],
)
def test_a_model_is_the_same_as_itself(key, settings, steps, random_model, small_picture, tmp_path) -> None:
    """Catches inputs that a family hands over in another way and that are lost on the way to the replay."""
    pipe, spec = random_model(key)
    frames = [small_picture, np.ascontiguousarray(small_picture[::-1])][: spec.max_references or 2]
    choice = _choice(key, **settings)
    capture_reference(pipe, choice, frames).save(tmp_path)
    report = replay_reference(Reference.load(tmp_path), pipe, choice)
    checks = {check.name: check for check in report.checks}
    exact = ["text", "vae encode"] if key.endswith("-kv") else ["text", "steps", "vae encode"]
    for name in exact:
        assert checks[name].status == "pass", checks[name]
        assert checks[name].value > 0.999999
    assert checks["frame"].value == 99
    assert checks["vae decode"].value > 80  # a file keeps values, not strides, and convolutions round by those
    if key.endswith("-kv"):
        assert (checks["steps"].status, "cache" in checks["steps"].reason) == ("skip", True)
    else:
        assert checks["steps"].compared == steps
    assert len(checks["text"].reason) == 0


def test_capturing_leaves_the_pipeline_as_it_was(random_model, small_picture) -> None:
    """Catches hooks that stay behind and record, or slow down, every later pass."""
    pipe, _ = random_model("flux2-klein-4b")
    capture_reference(pipe, _choice("flux2-klein-4b"), [small_picture])
    assert not pipe.transformer._forward_hooks
    assert "encode_prompt" not in vars(pipe)
    assert not {"encode", "decode"} & set(vars(pipe.vae))


def test_noise_of_another_device_is_not_compared(random_model, small_picture) -> None:
    """Catches a frame check that fails for what no model can help, and one that is left out without a word."""
    pipe, _ = random_model("sd-turbo")
    reference = capture_reference(pipe, _choice("sd-turbo"), [small_picture])
    reference.about["environment"]["device"] = "cuda"
    (frame,) = [
        check for check in replay_reference(reference, pipe, _choice("sd-turbo")).checks if check.name == "frame"
    ]
    assert (frame.status, "noise" in frame.reason) == ("skip", True)
