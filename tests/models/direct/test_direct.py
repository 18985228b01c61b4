"""The direct path against ``pipe(...)``, bit for bit, for every row and every way a pass can be asked for."""

import dataclasses

import numpy as np
import pytest
import torch

from dltb.imaging import PassSettings, make_generator, run_pass
from dltb.imaging.passes import call_options, pipeline_call
from dltb.models import MODELS
from dltb.models.direct import embedded_options, make_direct

every_row = pytest.mark.parametrize("key", MODELS)
SETTINGS = PassSettings(prompt="an oil painting", num_inference_steps=4)
WAYS = {
    "default": {},
    "one of many steps": {"num_inference_steps": 5, "strength": 0.2},
    "all steps": {"strength": 1.0, "num_inference_steps": 3},
    "guided": {"guidance_scale": 3.0, "negative_prompt": "grey"},
    "no words": {"prompt": "", "guidance_scale": 1.0},
}


def _direct(model, settings):
    direct = make_direct(model.pipe, call_options(model.spec, settings))
    assert direct is not None
    return direct


def _frame(model, frames, settings, seed, call=None):
    made = run_pass(model.pipe, model.spec, frames, settings, make_generator("cpu", seed), call=call)
    return made.frame, made.steps_run, made.sigma_start


def _assert_same(one, other) -> None:
    assert np.array_equal(one[0], other[0])
    assert one[1:] == other[1:]


@pytest.mark.parametrize("way", WAYS)
@every_row
def test_the_direct_path_equals_the_pipeline(key, way, random_model, small_picture) -> None:
    """Catches any rounding, draw, constant or step that differs, also on the second pass and at another seed."""
    model, settings = random_model(key), dataclasses.replace(SETTINGS, **WAYS[way])
    direct = _direct(model, settings)
    for seed, frame in [(1, small_picture), (2, np.ascontiguousarray(small_picture[::-1]))]:
        _assert_same(_frame(model, [frame], settings, seed, direct), _frame(model, [frame], settings, seed))


@every_row
def test_another_size_in_between_changes_nothing(key, random_model, picture) -> None:
    """Catches constants of one frame size being used for another."""
    model = random_model(key)
    direct = _direct(model, SETTINGS)
    for height, width in [(64, 96), (96, 64), (64, 64), (64, 96)]:
        frame = np.ascontiguousarray(picture[:height, :width])
        _assert_same(_frame(model, [frame], SETTINGS, 3, direct), _frame(model, [frame], SETTINGS, 3))


@pytest.mark.parametrize("key", ["tiny-turbo", "tiny-klein"])
def test_the_embedded_models_too(key, request, picture) -> None:
    """Catches a difference that only trained weights and real sizes show."""
    model = request.getfixturevalue(key.replace("-", "_"))
    frames = [picture, np.ascontiguousarray(picture[:, ::-1])][: model.spec.max_references or 2]
    _assert_same(_frame(model, frames, SETTINGS, 7, _direct(model, SETTINGS)), _frame(model, frames, SETTINGS, 7))


@pytest.mark.parametrize("key", [key for key, spec in MODELS.items() if spec.edits_references])
def test_references_that_come_again_are_remembered_rightly(key, random_model, small_picture) -> None:
    """Catches latents of another frame being reused, and a count of references that changes."""
    model = random_model(key)
    direct = _direct(model, SETTINGS)
    flipped, turned = np.ascontiguousarray(small_picture[::-1]), np.ascontiguousarray(small_picture[:, ::-1])
    black = np.zeros_like(small_picture)
    encoded = []
    inner = direct.encode
    direct.encode = lambda pixels: (encoded.append(1), inner(pixels))[1]
    for frames in ([small_picture, flipped], [flipped, small_picture.copy()], [turned], [black, black]):
        _assert_same(_frame(model, frames, SETTINGS, 5, direct), _frame(model, frames, SETTINGS, 5))
    assert len(encoded) == 4  # four frames in seven places


def test_a_frame_that_stays_is_encoded_once(random_model, small_picture) -> None:
    """Catches a tail's fresh frame being forgotten because states came in between, and one that changed in place."""
    model = random_model("flux2-klein-4b")
    direct, fresh, encoded = _direct(model, SETTINGS), small_picture.copy(), []
    inner = direct.encode
    direct.encode = lambda pixels: (encoded.append(1), inner(pixels))[1]
    for step in range(1, 9):
        _frame(model, [np.roll(small_picture, step, axis=0), fresh], SETTINGS, 5, direct)
    assert len(encoded) == 8 + 1
    fresh[:] = fresh[::-1].copy()
    _assert_same(_frame(model, [fresh], SETTINGS, 5, direct), _frame(model, [fresh], SETTINGS, 5))


@every_row
def test_embeddings_in_place_of_prompts_change_nothing(key, random_model, small_picture) -> None:
    """Catches embeddings that a pipeline takes otherwise than its own; it is how an offloaded model is called."""
    model = random_model(key)
    for settings in (SETTINGS, dataclasses.replace(SETTINGS, **WAYS["guided"])):
        options = embedded_options(model.pipe, call_options(model.spec, settings))
        assert "prompt" not in options
        call = pipeline_call(model.pipe, model.spec, options)
        _assert_same(_frame(model, [small_picture], settings, 1, call), _frame(model, [small_picture], settings, 1))


@every_row
def test_the_text_encoder_runs_once(key, random_model, small_picture) -> None:
    """Catches a prompt that is encoded on every pass."""
    model = random_model(key)
    runs = []
    hook = model.pipe.text_encoder.register_forward_hook(lambda *_: runs.append(1))
    try:
        direct = _direct(model, SETTINGS)
        for seed in (1, 2, 3):
            _frame(model, [small_picture], SETTINGS, seed, direct)
    finally:
        hook.remove()
    assert len(runs) == 1


def test_a_pipeline_with_more_in_it_is_called_as_it_comes(random_model) -> None:
    """Catches a safety checker, a watermark or guidance that the direct path would leave out in silence."""
    turbo, klein, sdxl = (random_model(key) for key in ("sd-turbo", "flux2-klein-4b", "sdxl-turbo"))
    guided = call_options(klein.spec, PassSettings(guidance_scale=4.0))
    assert make_direct(klein.pipe, guided) is not None
    klein.pipe.register_to_config(is_distilled=False)
    turbo.pipe.safety_checker = torch.nn.Identity()
    sdxl.pipe.watermark = object()
    try:
        assert make_direct(klein.pipe, guided) is None
        assert make_direct(turbo.pipe, call_options(turbo.spec, SETTINGS)) is None
        assert make_direct(sdxl.pipe, call_options(sdxl.spec, SETTINGS)) is None
    finally:
        klein.pipe.register_to_config(is_distilled=True)
        turbo.pipe.safety_checker = sdxl.pipe.watermark = None


@pytest.mark.parametrize("name", ["EulerAncestralDiscreteScheduler", "DPMSolverMultistepScheduler"])
def test_the_scheduler_of_a_folder_is_followed(name, random_model, small_picture) -> None:
    """Catches noise that a scheduler draws in its steps being left out, and one with a memory being copied thinly."""
    import diffusers

    model = random_model("sdxl-turbo")
    before = model.pipe.scheduler
    model.pipe.scheduler = getattr(diffusers, name).from_config(before.config)
    settings = dataclasses.replace(SETTINGS, strength=1.0)
    try:
        direct = make_direct(model.pipe, call_options(model.spec, settings))
        if name.startswith("DPM"):
            assert direct is None
            return
        for seed in (1, 2):
            one = _frame(model, [small_picture], settings, seed, direct)
            _assert_same(one, _frame(model, [small_picture], settings, seed))
    finally:
        model.pipe.scheduler = before


@pytest.mark.gpu
@every_row
def test_on_an_accelerator_every_stage_is_a_graph_of_the_same_bits(key, checkpoint, small_picture) -> None:
    """Catches kernels that differ between a recorded and a launched stage, and stages that cannot be recorded."""
    from dltb.models import load_pipeline, resolve_device
    from dltb.models.direct.engine import make_engine

    spec = MODELS[key]
    device = resolve_device(None, spec)
    pipe = load_pipeline(spec, device=device, weights=checkpoint(spec.folder_classes[0]))
    engine = make_engine(pipe, spec, call_options(spec, SETTINGS), size=(64, 64))
    for seed, count in [(1, 1), (2, 2), (3, 2), (4, 1)]:
        frames = [np.roll(small_picture, seed + n, axis=0) for n in range(count)][: spec.max_references or 2]
        one, other = (
            run_pass(pipe, spec, frames, SETTINGS, make_generator(device, seed), call=call)
            for call in (engine.call, None)
        )
        assert np.array_equal(one.frame, other.frame)
    if device == "cuda":
        assert set(engine.report.stages.values()) == {"graph"}


def test_the_vae_is_cast_to_float32_once_a_run_and_not_on_every_pass(checkpoint, small_picture, monkeypatch) -> None:
    """Catches the pipeline's own four casts a pass; the values must be those that they give."""
    from diffusers import StableDiffusionXLImg2ImgPipeline

    spec, casts = MODELS["sdxl-turbo"], []
    pipe = StableDiffusionXLImg2ImgPipeline.from_pretrained(
        checkpoint(spec.folder_classes[0]), torch_dtype=torch.float16
    )
    pipe.vae.register_to_config(force_upcast=True)
    cast = type(pipe.vae).to

    def counted(self, *args, **kwargs):
        casts.append(args or kwargs)
        return cast(self, *args, **kwargs)

    monkeypatch.setattr(type(pipe.vae), "to", counted)
    options = call_options(spec, SETTINGS)

    def frame(call, seed):
        return run_pass(pipe, spec, [small_picture], SETTINGS, make_generator("cpu", seed), call=call).frame

    direct = make_direct(pipe, options)
    ours = [frame(direct, seed) for seed in (1, 2, 3)]
    assert len(casts) == 1
    plain = [frame(pipeline_call(pipe, spec, options), seed) for seed in (1, 2, 3)]
    assert len(casts) == 1 + 3 * 4
    assert all(np.array_equal(one, other) for one, other in zip(ours, plain, strict=True))
    assert pipe.vae.dtype == torch.float16
