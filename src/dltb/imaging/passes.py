"""One pass: a frame, or several as references, through a model's pipeline and back to a uint8 frame.

Knows how a pipeline is called (from the model's row) and what its output must look like. Frames are uint8 RGB
[H, W, 3]; what leaves this module is bit for bit what diffusers' own ``output_type="pil"`` would give. How the pass
itself is made is a ``Call``: here the pipeline as it comes, in ``dltb.models.direct`` the same without its overhead.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from dltb import RunError, UsageError
from dltb.imaging.limits import check_reference_size, check_side

if TYPE_CHECKING:
    import torch

    from dltb.models.table import ModelSpec

FLAT_SPREAD = 16  # grey levels; an input with less contrast than this may rightly give a flat output


@dataclass(frozen=True)
class PassSettings:
    """What every pass of a run has in common."""

    prompt: str = ""
    negative_prompt: str = ""
    strength: float = 0.4  # share of the noise schedule that is run; only for models that use it
    num_inference_steps: int = 4  # length of the schedule
    guidance_scale: float | None = None  # None: the model's own
    width: int | None = None  # px; None: the frame's own
    height: int | None = None
    seed: int = 1234
    fixed_seed: bool = True


@dataclass(frozen=True)
class Pass:
    """What one pass made, and what really ran."""

    frame: np.ndarray  # [H, W, 3] uint8 RGB
    seconds: float  # from frames in to frame out, conversions included
    steps_run: int  # steps x strength, rounded down by the SD pipelines and up by FLUX.1's
    sigma_start: float | None  # noise level the pass started from, in the scheduler's unit; None if it has none
    seed: int


Generate = Callable[[np.ndarray | Sequence[np.ndarray], int], Pass]


@dataclass(frozen=True)
class Made:
    """What a pass made, still on its device."""

    pixels: "torch.Tensor"  # as `quantise` packs them
    steps_run: int
    sigma_start: float | None


Call = Callable[[Sequence[np.ndarray], "torch.Generator"], Made]


def make_generate(
    pipe: Any, spec: "ModelSpec", settings: PassSettings, device: str, *, call: Call | None = None
) -> Generate:
    """The callable that a loop gets: ``generate(images, index) -> Pass``, with the index counted from 1.

    ``call`` makes the pass in the pipeline's place.
    """

    def generate(images: np.ndarray | Sequence[np.ndarray], index: int) -> Pass:
        generator = make_generator(device, seed_for(settings, index))
        try:
            made = run_pass(pipe, spec, images, settings, generator, call=call)
            check_not_flat(made.frame, _as_list(images))
        except RunError as error:
            raise RunError(f"pass {index}: {error}") from error
        return made

    return generate


def make_generator(device: str, seed: int) -> "torch.Generator":
    """A seeded noise source on the device itself: CUDA, MPS and CPU give different noise for one seed."""
    import torch

    return torch.Generator(device=device).manual_seed(seed)


def seed_for(settings: PassSettings, index: int) -> int:
    """The seed of pass ``index`` (from 1): always the same one, or another for every pass."""
    return settings.seed if settings.fixed_seed else settings.seed + index


def run_pass(
    pipe: Any,
    spec: "ModelSpec",
    images: np.ndarray | Sequence[np.ndarray],
    settings: PassSettings,
    generator: "torch.Generator",
    *,
    call: Call | None = None,
) -> Pass:
    """Run the pipeline, or ``call`` in its place, once over one frame, or over several as references in their order."""
    frames = _as_list(images)
    check_frames(spec, frames, settings)
    started = time.perf_counter()
    height, width = frames[0].shape[:2]
    with explained_memory(spec, width, height):
        made = (call or pipeline_call(pipe, spec, call_options(spec, settings)))(frames, generator)
        frame = fetch(made.pixels, frames[0].shape)
    return Pass(
        frame=frame,
        seconds=time.perf_counter() - started,
        steps_run=made.steps_run,
        sigma_start=made.sigma_start,
        seed=generator.initial_seed(),
    )


def pipeline_call(pipe: Any, spec: "ModelSpec", options: Mapping[str, Any]) -> Call:
    """The pipeline as it comes, with ``options`` (see ``call_options``) on every call."""

    def call(frames: Sequence[np.ndarray], generator: "torch.Generator") -> Made:
        arguments = {**options, **image_arguments(spec, frames)}
        image = pipe(**arguments, generator=generator, output_type="pt").images
        return Made(quantise(image), int(pipe.num_timesteps), first_sigma(pipe.scheduler))

    return call


def call_arguments(spec: "ModelSpec", frames: Sequence[np.ndarray], settings: PassSettings) -> dict[str, Any]:
    """The pipeline's arguments as the model's row wants them; generator and output type are the caller's."""
    return {**call_options(spec, settings), **image_arguments(spec, frames)}


def call_options(spec: "ModelSpec", settings: PassSettings) -> dict[str, Any]:
    """The arguments that are the same on every pass."""
    options: dict[str, Any] = {
        "prompt": settings.prompt,
        "num_inference_steps": settings.num_inference_steps,
        **spec.call_arguments,
    }
    if spec.uses_strength:
        options["strength"] = settings.strength
    if spec.takes_guidance:
        options["guidance_scale"] = guidance_scale(spec, settings)
    if spec.takes_negative_prompt:
        # Not "": SDXL zeroes the embedding when there is no negative prompt, and encodes an empty one.
        options["negative_prompt"] = settings.negative_prompt or None
    return options


def image_arguments(spec: "ModelSpec", frames: Sequence[np.ndarray]) -> dict[str, Any]:
    """The arguments that hold or follow from the frames."""
    pictures = [Image.fromarray(frame) for frame in frames]
    arguments: dict[str, Any] = {"image": pictures if spec.edits_references else pictures[0]}
    if spec.pass_size:
        arguments["height"], arguments["width"] = frames[0].shape[:2]
    return arguments


def guidance_scale(spec: "ModelSpec", settings: PassSettings) -> float:
    """The guidance scale in force: the one asked for, else the model's own."""
    return spec.guidance_scale if settings.guidance_scale is None else settings.guidance_scale


def to_uint8(image: "torch.Tensor") -> np.ndarray:
    """Quantise a pipeline's float image [1, 3, H, W], 0..1, any device, to [H, W, 3] uint8; RunError on NaN."""
    return fetch(quantise(image), (*image.shape[2:], 3))


def quantise(image: "torch.Tensor") -> "torch.Tensor":
    """A float image [1, 3, H, W], 0..1, as [H * W * 3 + 1] uint8 on its device; the last value is 0 if one was NaN.

    The arithmetic of diffusers' ``numpy_to_pil`` (float32, half to even). Done on the device a quarter of the bytes are
    copied, and packed so the copy is the only time that the host waits.
    """
    import torch

    pixels = image[0].permute(1, 2, 0).float()
    levels = (pixels * 255).round().to(torch.uint8)
    return torch.cat([levels.flatten(), torch.isfinite(pixels).all().to(torch.uint8).reshape(1)])


def fetch(packed: "torch.Tensor", shape: tuple[int, ...]) -> np.ndarray:
    """What ``quantise`` packed, as a [H, W, 3] uint8 frame.

    The pipeline has clamped the image already, so an infinite value shows only as the NaN that the decoder's
    normalisations make of it.
    """
    levels = _to_host(packed)
    if not levels[-1]:
        raise RunError(
            "the model gave NaN instead of pixels: its number format overflowed or its weights are damaged. Fed back, "
            "it would spoil every later frame; try another --seed, a lower --guidance-scale or --strength, or another "
            "--device"
        )
    return levels[:-1].reshape(shape)


def _to_host(tensor: "torch.Tensor") -> np.ndarray:
    import torch

    if tensor.device.type != "cuda":
        return tensor.cpu().numpy()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    pinned.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    # A copy: readers hold a frame for many passes, and while they held pinned memory each pass would pin more.
    return pinned.numpy().copy()


def check_not_flat(frame: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    """Stop on a frame of one colour made from inputs that had contrast. All frames are [H, W, 3] uint8."""
    if not _is_flat(frame) or all(_spread(image) <= FLAT_SPREAD for image in inputs):
        return
    raise RunError(
        f"flat output: every pixel is {tuple(int(level) for level in frame[0, 0])}; one flat frame fed back ends a "
        "loop for ever. Black from half precision is an overflow: try another --seed or --device"
    )


def _is_flat(frame: np.ndarray) -> bool:
    # The first row tells nearly always, at a thousandth of the cost.
    return bool((frame[0] == frame[0, 0]).all() and (frame == frame[0, 0]).all())


def _spread(image: np.ndarray) -> int:
    """Largest difference between two pixels in one channel, in grey levels."""
    return int(np.ptp(image, axis=(0, 1)).max())


def check_frames(spec: "ModelSpec", frames: Sequence[np.ndarray], settings: PassSettings) -> None:
    """Refuse frames that a pipeline would crop, resize or misread without a word."""
    most = spec.max_references
    if not frames or (most is not None and len(frames) > most):
        raise UsageError(f"{len(frames)} input images: {spec.key} takes {'at least 1' if most is None else most}")
    for frame in frames:
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise UsageError(f"a frame is uint8 [H, W, 3], not {frame.dtype} {list(frame.shape)}")
    sizes = [(frame.shape[1], frame.shape[0]) for frame in frames]
    if len(set(sizes)) > 1:
        given = ", ".join(f"{width}x{height}" for width, height in sizes)
        raise UsageError(f"references of unequal size ({given} px): bring them to one size first")
    _check_size(spec, *sizes[0], settings)


def _check_size(spec: "ModelSpec", width: int, height: int, settings: PassSettings) -> None:
    wanted = (settings.width or width, settings.height or height)
    if wanted != (width, height):
        raise UsageError(f"the frame is {width}x{height} px, the settings say {wanted[0]}x{wanted[1]}: resize it first")
    check_side("frame width", width)
    check_side("frame height", height)
    if spec.edits_references:
        check_reference_size(spec.key, width, height)


def inert_settings(
    spec: "ModelSpec", settings: PassSettings, *, pipe: Any = None, given: Collection[str] = ()
) -> list[str]:
    """One line for every setting that this model ignores.

    ``given`` names the fields that the user set, even if to the default. With the loaded ``pipe`` the answer also
    holds for a ``--weights`` folder whose checkpoint, unlike the row's, is not distilled.
    """
    notes = []
    scale = guidance_scale(spec, settings)
    obeys = _obeys_guidance(spec, pipe)
    if not obeys and (scale > 1 or "guidance_scale" in given):
        notes.append(f"--guidance-scale {scale:g} has no effect: {spec.key} is distilled and ignores guidance")
    if settings.negative_prompt and not spec.takes_negative_prompt:
        notes.append(f"--negative-prompt has no effect: {spec.key} takes none")
    elif settings.negative_prompt and scale <= 1:
        notes.append(f"--negative-prompt has no effect: it needs a --guidance-scale above 1, which is {scale:g} here")
    if not spec.uses_strength and ("strength" in given or settings.strength != PassSettings.strength):
        notes.append(f"--strength {settings.strength:g} has no effect: {spec.key} always starts from pure noise")
    return notes


def _obeys_guidance(spec: "ModelSpec", pipe: Any) -> bool:
    if spec.uses_guidance or pipe is None:
        return spec.uses_guidance
    embeds = getattr(pipe.transformer.config, "guidance_embeds", False)
    return spec.takes_guidance and (embeds or not pipe.config.get("is_distilled", True))


def prompt_notes(pipe: Any, spec: "ModelSpec", prompt: str) -> list[str]:
    """One line for every text encoder that does not read the whole prompt."""
    notes = []
    for name, tokens, limit in _prompt_lengths(pipe, spec, prompt):
        if tokens > limit:
            notes.append(f"the prompt has {tokens} tokens, {name} of {spec.key} reads the first {limit}")
    return notes


def _prompt_lengths(pipe: Any, spec: "ModelSpec", prompt: str) -> list[tuple[str, int, int]]:
    """Name, tokens in the prompt with its special tokens, and limit of every text encoder."""
    most = spec.call_arguments.get("max_sequence_length", 512)  # the default of every FLUX pipeline's call
    if spec.edits_references:
        text = pipe.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return [("the text encoder", _token_count(pipe.tokenizer, text), most)]
    names = [name for name in ("tokenizer", "tokenizer_2") if getattr(pipe, name, None) is not None]
    tokenizers = [getattr(pipe, name) for name in names]
    labels = ["the text encoder"] if len(names) == 1 else ["text encoder 1", "text encoder 2"]
    return [
        (label, _token_count(tokenizer, prompt), min(tokenizer.model_max_length, most))
        for label, tokenizer in zip(labels, tokenizers, strict=True)
    ]


def _token_count(tokenizer: Any, text: str) -> int:
    # Not verbose: too long a text is what is being looked for here.
    return len(tokenizer(text, verbose=False).input_ids)


def _as_list(images: np.ndarray | Sequence[np.ndarray]) -> list[np.ndarray]:
    return [images] if isinstance(images, np.ndarray) else list(images)


def first_sigma(scheduler: Any) -> float | None:
    """The first sigma of the steps that ran: img2img pipelines skip the start of the schedule by its begin index."""
    sigmas, begin = getattr(scheduler, "sigmas", None), getattr(scheduler, "begin_index", None)
    return None if sigmas is None or begin is None else float(sigmas[begin])


@contextlib.contextmanager
def explained_memory(spec: "ModelSpec", width: int, height: int) -> Iterator[None]:
    """A full device, in whatever a pass of this size (px) needs, becomes a RunError that says what to do."""
    try:
        yield
    except RuntimeError as error:
        # torch.OutOfMemoryError is one of these; MPS raises a plain RuntimeError that says so in words.
        if "out of memory" not in str(error).lower():
            raise
        known = f"; reported to fit in {spec.vram_gb} GB at {spec.native_size} px" if spec.vram_gb else ""
        advice = "Use --offload, or a smaller --width and --height"
        raise RunError(f"out of memory: {spec.key} at {width}x{height} px{known}. {advice}") from error
