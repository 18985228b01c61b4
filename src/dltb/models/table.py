"""The model table: one row per model, and everything in which models differ.

Knows names, numbers and call conventions; imports only the standard library, so that every tool can read it before
anything heavy is imported. Adding a model is adding a row to ``MODELS``.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dltb import UsageError

WEIGHTS_DIR = Path(__file__).parent / "weights"


def _no_arguments() -> Any:
    """A dataclass field with no extra arguments; left out of the row's hash, since mappings have none."""
    return field(default_factory=lambda: MappingProxyType({}), hash=False)


@dataclass(frozen=True)
class ModelSpec:
    """One model: where its weights are, which pipeline runs them and how that pipeline wants to be called."""

    key: str
    repo: str  # on the hub; for an embedded model the name of its folder in WEIGHTS_DIR
    pipeline: str  # the diffusers class whose from_pretrained loads it
    folder_classes: tuple[str, ...]  # what `_class_name` in the model_index.json of a --weights folder may be
    dtype: str  # on an accelerator; on the CPU half precision becomes float32
    native_size: int  # px, width and height
    guidance_scale: float  # the model's own default
    uses_strength: bool  # img2img with partial noise; the others start from pure noise
    pass_size: bool  # the pipeline is told width and height
    variant: str | None = None
    gated: bool = False  # its licence has to be accepted on the hub first
    embedded: bool = False  # its weights are part of this package
    edits_references: bool = False  # the klein family: images are references to look at, not a start to repaint
    max_references: int | None = 1  # None: the pipeline sets no limit
    takes_guidance: bool = True  # the call has a guidance_scale argument
    uses_guidance: bool = False  # ... and a value above 1 changes the result
    takes_negative_prompt: bool = False  # the call has a negative_prompt that guidance_scale > 1 brings to bear
    load_arguments: Mapping[str, Any] = _no_arguments()
    call_arguments: Mapping[str, Any] = _no_arguments()
    disk_gb: float | None = None  # of the files that are downloaded; None: not measured
    vram_gb: int | None = None  # card on which it fits without --offload, as reported; None: not measured

    @property
    def has_transformer(self) -> bool:
        """Whether the denoiser is a transformer rather than a UNet."""
        return not any("StableDiffusion" in name for name in self.folder_classes)

    @property
    def folder(self) -> Path | None:
        """Where an embedded model's files are."""
        return WEIGHTS_DIR / self.repo if self.embedded else None

    @property
    def license_page(self) -> str:
        """The page on which the model's terms stand and, if it is gated, are accepted."""
        return f"https://huggingface.co/{self.repo}"


def _img2img(key: str, repo: str, **differences: Any) -> ModelSpec:
    """A row of the img2img family: one start image, repainted from a partial noise level."""
    common: dict[str, Any] = {
        "pipeline": "AutoPipelineForImage2Image",
        "guidance_scale": 0.0,
        "uses_strength": True,
        "pass_size": False,
    }
    return ModelSpec(key=key, repo=repo, **(common | differences))


def _klein(key: str, repo: str, **differences: Any) -> ModelSpec:
    """A row of the klein family: regenerates the frame while looking at reference images.

    Convention: references are numbered from 1 in the order in which they are passed.
    """
    common: dict[str, Any] = {
        "pipeline": "Flux2KleinPipeline",
        "folder_classes": ("Flux2KleinPipeline",),
        "dtype": "bfloat16",
        "native_size": 768,
        "guidance_scale": 1.0,
        "uses_strength": False,
        "pass_size": True,
        "edits_references": True,
        "max_references": None,
    }
    return ModelSpec(key=key, repo=repo, **(common | differences))


_STABLE_DIFFUSION = ("StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline")
_STABLE_DIFFUSION_XL = ("StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline")
_FLUX_1 = ("FluxPipeline", "FluxImg2ImgPipeline")

_ROWS = (
    _img2img(
        "tiny-turbo",
        "tiny-turbo",
        pipeline="StableDiffusionImg2ImgPipeline",
        folder_classes=_STABLE_DIFFUSION,
        dtype="float32",
        native_size=256,
        embedded=True,
        uses_guidance=True,
        takes_negative_prompt=True,
    ),
    _klein(
        "tiny-klein",
        "tiny-klein",
        dtype="float32",
        native_size=256,
        embedded=True,
        # Its text encoder has 3 layers (the full models': 36) and was trained on prompts of at most 64 tokens.
        call_arguments=MappingProxyType({"max_sequence_length": 64, "text_encoder_out_layers": (1, 2, 3)}),
    ),
    _img2img(
        "sd-turbo",
        "stabilityai/sd-turbo",
        folder_classes=_STABLE_DIFFUSION,
        dtype="float16",
        variant="fp16",
        native_size=512,
        uses_guidance=True,
        takes_negative_prompt=True,
        disk_gb=2.4,
        vram_gb=24,
    ),
    _img2img(
        "sdxl-turbo",
        "stabilityai/sdxl-turbo",
        folder_classes=_STABLE_DIFFUSION_XL,
        dtype="float16",
        variant="fp16",
        native_size=768,
        uses_guidance=True,
        takes_negative_prompt=True,
        # Else the pixels would depend on whether the invisible-watermark package happens to be installed.
        load_arguments=MappingProxyType({"add_watermarker": False}),
        disk_gb=6.5,
        vram_gb=24,
    ),
    _img2img(
        "flux-schnell",
        "black-forest-labs/FLUX.1-schnell",
        folder_classes=_FLUX_1,
        dtype="bfloat16",
        native_size=768,
        # schnell has no guidance embedding, and negative prompts belong to true_cfg_scale, which is not used here.
        pass_size=True,
        disk_gb=31.4,
        vram_gb=48,
    ),
    _klein("flux2-klein-4b", "black-forest-labs/FLUX.2-klein-4B", disk_gb=14.9, vram_gb=24),
    _klein("flux2-klein-9b", "black-forest-labs/FLUX.2-klein-9B", gated=True, disk_gb=32.3, vram_gb=48),
    _klein(
        "flux2-klein-9b-kv",
        "black-forest-labs/FLUX.2-klein-9b-kv",
        pipeline="Flux2KleinKVPipeline",
        # Both pipelines take the same components, and a folder does not say which the weights were trained for.
        folder_classes=("Flux2KleinKVPipeline", "Flux2KleinPipeline"),
        gated=True,
        takes_guidance=False,
    ),
)

MODELS: Mapping[str, ModelSpec] = MappingProxyType({row.key: row for row in _ROWS})


def model_key(text: str) -> str:
    """The table's key for what a user typed: ``sd_turbo`` and ``SD-Turbo`` are ``sd-turbo``."""
    key = text.strip().lower().replace("_", "-")
    if key in MODELS:
        return key
    close = difflib.get_close_matches(key, MODELS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UsageError(f"unknown model {text!r}{hint}; known: {', '.join(MODELS)}")
