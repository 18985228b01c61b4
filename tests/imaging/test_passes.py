"""One pass through the real pipelines: shapes, bytes, seeds, and what is refused or said."""

import dataclasses
import logging

import numpy as np
import pytest
import torch

from dltb import RunError, UsageError
from dltb.imaging import PassSettings, make_generate, make_generator, run_pass
from dltb.imaging.passes import (
    call_arguments,
    check_not_flat,
    inert_settings,
    prompt_notes,
    seed_for,
    to_uint8,
)
from dltb.models import MODELS

every_row = pytest.mark.parametrize("key", MODELS)
KLEIN = [key for key, spec in MODELS.items() if spec.edits_references]
IMG2IMG = [key for key, spec in MODELS.items() if spec.uses_strength]
EMBEDDED = [key for key, spec in MODELS.items() if spec.embedded]
SETTINGS = PassSettings(prompt="an oil painting")


def _pass(model, images, settings=SETTINGS, seed=1234):
    return run_pass(model.pipe, model.spec, images, settings, make_generator("cpu", seed))


@every_row
def test_a_pass_gives_a_frame_and_repeats_itself(key, random_model, small_picture) -> None:
    """Catches wrong call arguments, another size or type coming out, and noise that the seed does not decide."""
    model = random_model(key)
    first, again, other = (_pass(model, small_picture, seed=seed) for seed in (1, 1, 2))
    assert first.frame.shape == small_picture.shape
    assert first.frame.dtype == np.uint8
    assert np.array_equal(first.frame, again.frame)
    assert not np.array_equal(first.frame, other.frame)
    assert (first.seed, other.seed) == (1, 2)
    assert first.seconds > 0


@every_row
def test_width_and_height_are_not_swapped(key, random_model, picture) -> None:
    """Catches a frame that comes out transposed or square."""
    frame = np.ascontiguousarray(picture[:64, :96])
    assert _pass(random_model(key), frame).frame.shape == (64, 96, 3)


@pytest.mark.parametrize("key", KLEIN)
def test_two_references_are_seen_and_their_order_counts(key, random_model, small_picture) -> None:
    """Catches a second reference that is dropped, and an order that is lost on the way."""
    model, other = random_model(key), np.ascontiguousarray(small_picture[::-1])
    one, two, swapped = (
        _pass(model, images).frame for images in ([small_picture], [small_picture, other], [other, small_picture])
    )
    assert not np.array_equal(one, two)
    assert not np.array_equal(two, swapped)
    assert np.array_equal(one, _pass(model, small_picture).frame)


@pytest.mark.parametrize(
    ("key", "steps", "strength", "run"),
    [
        ("tiny-turbo", 4, 0.4, 1),
        ("sdxl-turbo", 4, 0.4, 1),
        ("flux-schnell", 4, 0.4, 2),
        ("tiny-turbo", 4, 1.0, 4),
        ("tiny-turbo", 5, 0.2, 1),
        ("tiny-klein", 3, 0.4, 3),
    ],
)
def test_what_really_ran_is_recorded(key, steps, strength, run, random_model, small_picture) -> None:
    """Catches equal flags being taken for equal noise: SD rounds steps x strength down, FLUX.1 up, klein runs all."""
    model = random_model(key)
    made = _pass(model, small_picture, PassSettings(strength=strength, num_inference_steps=steps))
    assert made.steps_run == run
    assert made.sigma_start == float(model.pipe.scheduler.sigmas[steps - run])


def test_a_partial_pass_starts_from_less_noise(random_model, small_picture) -> None:
    """Catches a sigma that is read from the start of the schedule whatever the strength."""
    low, full = (
        _pass(random_model("flux-schnell"), small_picture, PassSettings(strength=s)).sigma_start for s in (0.25, 1.0)
    )
    assert (low, full) == (0.25, 1.0)


@pytest.mark.parametrize("key", EMBEDDED)
def test_embedded_models_give_the_bytes_of_a_plain_call(key, request, picture) -> None:
    """Catches any difference to what a user of diffusers would get from the same model."""
    model = request.getfixturevalue(key.replace("-", "_"))
    frames = [picture, np.ascontiguousarray(picture[::-1])][: model.spec.max_references or 2]
    arguments = call_arguments(model.spec, frames, SETTINGS)
    plain = model.pipe(**arguments, generator=torch.Generator("cpu").manual_seed(1234)).images[0]
    assert np.array_equal(np.asarray(plain), _pass(model, frames).frame)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_quantising_equals_the_pil_path(dtype) -> None:
    """Catches truncation in place of rounding, and half-way values that are rounded the other way."""
    from diffusers.image_processor import VaeImageProcessor

    halves = torch.arange(0.5, 256, 1) / 255
    noise = torch.rand(3 * 32 * 32 - len(halves), generator=make_generator("cpu", 0))
    image = torch.cat([halves, noise]).reshape(1, 3, 32, 32).to(dtype)
    processor = VaeImageProcessor()
    expected = processor.numpy_to_pil(processor.pt_to_numpy(image.clamp(0, 1)))[0]
    assert np.array_equal(to_uint8(image.clamp(0, 1)), np.asarray(expected))


@pytest.mark.gpu
@pytest.mark.parametrize("key", EMBEDDED)
def test_on_an_accelerator_the_bytes_are_those_of_a_plain_call(key, picture) -> None:
    """Catches quantising that rounds otherwise on the device, and a generator that is not the device's own."""
    from dltb.models import load_pipeline, resolve_device

    spec = MODELS[key]
    device = resolve_device(None, spec)
    assert device != "cpu"
    pipe = load_pipeline(spec, device=device)
    arguments = call_arguments(spec, [picture], SETTINGS)
    plain = pipe(**arguments, generator=torch.Generator(device).manual_seed(1234)).images[0]
    assert np.array_equal(np.asarray(plain), make_generate(pipe, spec, SETTINGS, device)(picture, 1).frame)


@pytest.mark.gpu
@pytest.mark.parametrize("offload", [False, True])
@every_row
def test_every_row_runs_in_its_own_dtype_on_an_accelerator(key, offload, checkpoint, small_picture) -> None:
    """Catches modules of mixed types in half precision, which the CPU never shows, and offloading to the wrong device."""
    from dltb.models import load_pipeline, resolve_device

    spec = MODELS[key]
    device = resolve_device(None, spec)
    assert device != "cpu"
    pipe = load_pipeline(spec, offload=offload, device=device, weights=checkpoint(spec.folder_classes[0]))
    generate = make_generate(pipe, spec, SETTINGS, device)
    assert pipe.dtype is getattr(torch, spec.dtype)
    assert np.array_equal(generate(small_picture, 1).frame, generate(small_picture, 2).frame)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_stops_the_pass(value) -> None:
    """Catches NaN being quantised to black, which would end a loop for ever without a word."""
    image = torch.zeros(1, 3, 8, 8)
    image[0, 1, 2, 3] = value
    with pytest.raises(RunError, match=r"NaN instead of pixels.*--seed"):
        to_uint8(image)


def test_nan_inside_a_real_pipeline_names_the_pass(checkpoint, small_picture) -> None:
    """Catches a check that sits where the pipeline has already hidden the NaN, and a message without the step."""
    from dltb.models import load_pipeline

    pipe = load_pipeline(MODELS["sd-turbo"], weights=checkpoint("StableDiffusionPipeline"))
    with torch.no_grad():
        pipe.vae.decoder.conv_in.weight[0] = float("nan")
    with pytest.raises(RunError, match=r"^pass 7: the model gave NaN"):
        make_generate(pipe, MODELS["sd-turbo"], SETTINGS, "cpu")(small_picture, 7)


def test_flat_output_inside_a_real_pipeline_stops_the_run(checkpoint, small_picture) -> None:
    """Catches a run that goes on from a black frame; a flat input, as in a black tail, may give a flat output."""
    from dltb.models import load_pipeline

    pipe = load_pipeline(MODELS["sd-turbo"], weights=checkpoint("StableDiffusionPipeline"))
    with torch.no_grad():
        pipe.vae.decoder.conv_out.weight.zero_()
        pipe.vae.decoder.conv_out.bias.fill_(-1)
    generate = make_generate(pipe, MODELS["sd-turbo"], SETTINGS, "cpu")
    with pytest.raises(RunError, match=r"^pass 3: flat output: every pixel is \(0, 0, 0\)"):
        generate(small_picture, 3)
    assert not generate(np.zeros_like(small_picture), 4).frame.any()


def test_almost_flat_frames_are_not_mistaken() -> None:
    """Catches a check that stops on a dark frame, or that trusts one reference of two."""
    black = np.zeros((8, 8, 3), np.uint8)
    dark, contrast = black.copy(), black.copy()
    dark[0, 0] = 1
    contrast[0, 0] = 255
    check_not_flat(dark, [contrast])
    check_not_flat(black, [dark])
    check_not_flat(black, [black, black])
    with pytest.raises(RunError, match="flat output"):
        check_not_flat(black, [black, contrast])


@pytest.mark.parametrize(("fixed", "seeds"), [(True, [1234, 1234, 1234]), (False, [1235, 1236, 1237])])
def test_seeds_count_from_one(fixed, seeds) -> None:
    """Catches an index from 0, which would make the first pass of a moving seed equal a fixed one."""
    settings = PassSettings(fixed_seed=fixed)
    assert [seed_for(settings, index) for index in (1, 2, 3)] == seeds


def test_generate_makes_fresh_noise_for_every_pass(random_model, small_picture) -> None:
    """Catches one generator carried through the run: pass 5 would then depend on the four before it."""
    pipe, spec = random_model("sd-turbo")
    generate = make_generate(pipe, spec, dataclasses.replace(SETTINGS, fixed_seed=False), "cpu")
    direct = generate(small_picture, 5)
    generate(small_picture, 1)
    assert np.array_equal(direct.frame, generate(small_picture, 5).frame)
    assert direct.seed == 1239


@pytest.mark.parametrize(
    ("key", "shapes", "text"),
    [
        ("sd-turbo", [(64, 64), (64, 64)], "2 input images: sd-turbo takes 1"),
        ("tiny-klein", [], "0 input images: tiny-klein takes at least 1"),
        ("tiny-klein", [(64, 64), (64, 80)], r"unequal size \(64x64, 80x64 px\)"),
        ("tiny-klein", [(64, 72)], "frame width 72"),
        ("tiny-klein", [(48, 64)], "at least 64 px"),
        ("flux2-klein-4b", [(1024, 1040)], "shrinks references above"),
        ("sd-turbo", [(60, 64)], "frame height 60"),
    ],
)
def test_frames_that_would_be_changed_silently_are_refused(key, shapes, text) -> None:
    """Catches pipelines cropping or shrinking a frame without a word; the pipeline is never reached here."""
    frames = [np.zeros((*shape, 3), np.uint8) for shape in shapes]
    with pytest.raises(UsageError, match=text):
        run_pass(None, MODELS[key], frames, SETTINGS, make_generator("cpu", 0))


def test_a_frame_of_another_kind_is_refused() -> None:
    """Catches float frames, which PIL would misread, and frames of another size than the settings say."""
    generator = make_generator("cpu", 0)
    with pytest.raises(UsageError, match=r"uint8 \[H, W, 3\], not float32 \[64, 64, 3\]"):
        run_pass(None, MODELS["sd-turbo"], np.zeros((64, 64, 3), np.float32), SETTINGS, generator)
    with pytest.raises(UsageError, match="is 64x64 px, the settings say 128x64"):
        run_pass(None, MODELS["sd-turbo"], np.zeros((64, 64, 3), np.uint8), PassSettings(width=128), generator)


@pytest.mark.parametrize(
    ("key", "settings", "notes"),
    [
        ("sd-turbo", {}, []),
        ("tiny-klein", {}, []),
        ("sd-turbo", {"negative_prompt": "x"}, ["needs a --guidance-scale above 1, which is 0 here"]),
        ("sd-turbo", {"negative_prompt": "x", "guidance_scale": 2.0}, []),
        ("sd-turbo", {"guidance_scale": 2.0}, []),
        ("flux-schnell", {"negative_prompt": "x", "guidance_scale": 2.0}, ["guidance-scale 2 has no", "takes none"]),
        ("flux2-klein-4b", {"guidance_scale": 4.0}, ["--guidance-scale 4 has no effect"]),
        ("flux2-klein-4b", {"strength": 0.7}, ["--strength 0.7 has no effect"]),
        ("flux2-klein-9b-kv", {"guidance_scale": 2.0, "negative_prompt": "x"}, ["guidance-scale", "negative-prompt"]),
    ],
)
def test_settings_without_effect_are_said(key, settings, notes) -> None:
    """Catches a sweep over a setting that changes nothing, and a note about one that works."""
    said = inert_settings(MODELS[key], PassSettings(**settings))
    assert len(said) == len(notes)
    assert all(text in line for text, line in zip(notes, said, strict=True))


@every_row
def test_the_notes_about_guidance_are_true(key, random_model, small_picture) -> None:
    """Catches a row that says a setting works, or does not, when the pipeline does otherwise."""
    model = random_model(key)
    plain, guided, negative = (
        _pass(model, small_picture, PassSettings(prompt="a cat", guidance_scale=scale, negative_prompt=words)).frame
        for scale, words in [(1.0, ""), (30.0, ""), (30.0, "zzz qqq")]
    )
    assert np.array_equal(plain, guided) != model.spec.uses_guidance
    assert np.array_equal(guided, negative) != (model.spec.uses_guidance and model.spec.takes_negative_prompt)


def test_an_undistilled_folder_obeys_guidance(random_model) -> None:
    """Catches a false note for --weights folders of klein's base models, where guidance works."""
    pipe, spec = random_model("flux2-klein-4b")
    distilled = inert_settings(spec, PassSettings(guidance_scale=4.0), pipe=pipe)
    pipe.register_to_config(is_distilled=False)
    try:
        assert len(distilled) == 1
        assert inert_settings(spec, PassSettings(guidance_scale=4.0), pipe=pipe) == []
    finally:
        pipe.register_to_config(is_distilled=True)


def test_a_strength_that_was_given_is_said_even_at_its_default() -> None:
    """Catches `--strength 0.4` on a model without strength being ignored silently."""
    assert inert_settings(MODELS["tiny-klein"], PassSettings(), given={"strength"}) != []
    assert inert_settings(MODELS["tiny-turbo"], PassSettings(), given={"strength"}) == []


@every_row
def test_a_prompt_that_is_cut_is_said(key, random_model) -> None:
    """Catches the end of a long prompt being dropped silently, and a note about a short one."""
    pipe, spec = random_model(key)
    assert prompt_notes(pipe, spec, "a cat") == []
    said = prompt_notes(pipe, spec, "long " * 600)
    assert all("tokens" in line and spec.key in line for line in said)
    assert len(said) == (2 if hasattr(pipe, "tokenizer_2") else 1)


def test_the_limit_in_the_note_is_where_the_encoder_stops(tiny_klein, tiny_turbo, picture) -> None:
    """Catches a limit that is off: words beyond it must change nothing, words before it must."""
    for pipe, spec in (tiny_klein, tiny_turbo):
        long = "watercolor " * 60
        assert prompt_notes(pipe, spec, long) != []
        frames = [
            _pass((tiny_klein if spec.edits_references else tiny_turbo), picture, PassSettings(prompt=prompt)).frame
            for prompt in (long, long + "night", "night " + long)
        ]
        assert np.array_equal(frames[0], frames[1])
        assert not np.array_equal(frames[0], frames[2])


def test_a_warning_of_the_pipeline_is_said_once(random_model, small_picture, caplog) -> None:
    """Catches one identical line for every pass, thousands in a run, and a filter that drops the first one too."""
    model = random_model("flux2-klein-4b")
    log = logging.getLogger("diffusers")
    log.addHandler(caplog.handler)
    try:
        for _ in range(2):
            _pass(model, small_picture, PassSettings(guidance_scale=7.125))
    finally:
        log.removeHandler(caplog.handler)
    assert len([text for text in caplog.messages if "7.125" in text]) == 1


@pytest.mark.gpu
def test_a_frame_holds_no_pinned_memory() -> None:
    """Catches frames in the writer's queue that make every pass pin new memory."""
    frame = to_uint8(torch.rand(1, 3, 64, 64, device="cuda"))
    assert not torch.from_numpy(frame).is_pinned()
