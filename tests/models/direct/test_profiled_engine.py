"""A pipeline under a profile: which call is made, what is reported, and what stays as it was."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dltb.imaging import PassSettings, make_generator, run_pass
from dltb.imaging.passes import call_options
from dltb.models import MODELS, load_pipeline
from dltb.models.direct.engine import Compiled, make_engine
from dltb.models.report import ProfileReport

SETTINGS = PassSettings(prompt="an oil painting", num_inference_steps=2, strength=1.0)


def test_exact_is_direct_and_offload_is_the_pipeline(random_model, small_picture) -> None:
    """Catches an offloaded model whose parts are called behind the back of what moves them."""
    pipe, spec = random_model("flux2-klein-4b")
    options = call_options(spec, SETTINGS)
    engines = [make_engine(pipe, spec, options, offload=offload, size=(64, 64)) for offload in (False, True)]
    assert [engine.report.call for engine in engines] == ["direct", "pipeline"]
    frames = [
        run_pass(pipe, spec, small_picture, SETTINGS, make_generator("cpu", 1), call=engine.call).frame
        for engine in engines
    ]
    assert np.array_equal(*frames)


@pytest.mark.parametrize("key", ["sd-turbo", "sdxl-turbo", "flux-schnell"])
def test_one_engine_takes_every_strength(key, random_model, small_picture) -> None:
    """Catches steps of the strength before, and stages that still read what another strength's steps have replaced."""
    pipe, spec = random_model(key)
    for offload in (False, True):
        engine = make_engine(pipe, spec, call_options(spec, SETTINGS), offload=offload, size=(64, 64))
        for strength in (0.5, 1.0, 0.5):
            settings = replace(SETTINGS, strength=strength)
            plain = run_pass(pipe, spec, small_picture, settings, make_generator("cpu", 1))
            call = engine.at_strength(strength)
            made = run_pass(pipe, spec, small_picture, settings, make_generator("cpu", 1), call=call)
            assert np.array_equal(made.frame, plain.frame)
            assert (made.steps_run, made.sigma_start) == (plain.steps_run, plain.sigma_start)


def test_native_attention_is_set_too(monkeypatch) -> None:
    """Catches the kernel of the set-up before, left in place where PyTorch's own choice wins."""
    from dltb.models.direct import fast

    chosen = []
    transformer = SimpleNamespace(dtype=torch.float32, set_attention_backend=chosen.append)
    direct = SimpleNamespace(
        device=SimpleNamespace(type="cuda"),
        attention_shape=lambda height, width: (1, 2, 1, 8),
        pipe=SimpleNamespace(transformer=transformer),
    )
    monkeypatch.setattr(torch, "randn", lambda shape, **_: None)
    for quick in ("_native_flash", "native"):
        monkeypatch.setattr(fast, "_attention_ms", lambda name, _, quick=quick: 1.0 if name == quick else 2.0)
        fast.choose_attention(direct, 64, 64)
    assert chosen == ["_native_flash", "native"]


def test_the_first_call_of_every_shape_is_set_up(capsys) -> None:
    """Catches compile time that is not told, and time of later passes that is told as such."""
    report = ProfileReport("fast", "direct")
    stage = Compiled("decode", lambda tensor: tensor * 2, report)
    for size in (2, 2, 3):
        assert stage(torch.ones(size)).tolist() == [2] * size
    assert report.stages == {"decode": "compiled"}
    spent = report.setup_seconds
    assert spent > 0
    stage(torch.ones(3))
    assert report.setup_seconds == spent


def _norm(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(float) - other).mean())


@pytest.mark.slow
@pytest.mark.parametrize("key", ["sd-turbo", "sdxl-turbo", "flux-schnell", "flux2-klein-4b", "flux2-klein-9b-kv"])
def test_fast_compiles_every_family(key, checkpoint, small_picture) -> None:
    """Catches blocks that cannot be compiled whole, a second set-up that breaks, and another picture coming out."""
    spec = MODELS[key]
    plain, fast = (load_pipeline(spec, weights=checkpoint(spec.folder_classes[0])) for _ in range(2))
    expected = run_pass(plain, spec, small_picture, SETTINGS, make_generator("cpu", 1)).frame
    for _ in range(2):
        engine = make_engine(fast, spec, call_options(spec, SETTINGS), profile="fast", size=(64, 64))
        made = run_pass(fast, spec, small_picture, SETTINGS, make_generator("cpu", 1), call=engine.call).frame
        assert _norm(made, expected) < 0.1
    assert "compiled" in engine.report.stages.values()


@pytest.mark.gpu
@pytest.mark.parametrize("profile", ["fast", "fp8"])
@pytest.mark.parametrize("key", ["flux2-klein-4b", "sdxl-turbo"])
def test_changed_profiles_run_on_an_accelerator(key, profile, checkpoint, small_picture) -> None:
    """Catches compiled or float8 stages that cannot be recorded as a graph, and another picture coming out."""
    spec = MODELS[key]
    if profile == "fp8" and not spec.has_transformer:
        pytest.skip("a model of convolutions")
    folder = checkpoint(spec.folder_classes[0])
    plain, changed = (load_pipeline(spec, device="cuda", weights=folder) for _ in range(2))
    expected = run_pass(plain, spec, small_picture, SETTINGS, make_generator("cuda", 1)).frame
    engine = make_engine(changed, spec, call_options(spec, SETTINGS), profile=profile, size=(64, 64))
    for _ in range(2):
        made = run_pass(changed, spec, small_picture, SETTINGS, make_generator("cuda", 1), call=engine.call).frame
    assert _norm(made, expected) < 8
    assert set(engine.report.stages.values()) == {"graph"}
