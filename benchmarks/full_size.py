"""Pipelines of full size from their published layouts alone: random weights, nothing downloaded.

Speed and memory depend on shapes and number formats, not on what the weights are, so these stand for the real models there
and nowhere else. The tokenizers are stand-ins of a few hundred words (those of the tests); the text encoders behind them
have their real size, with a smaller vocabulary. Decoders are scaled so that pictures have contrast to be encoded.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.models.checkpoints import clip_tokenizer, qwen_tokenizer, t5_tokenizer

CONTRAST = 0.5  # standard deviation of a decoded picture in -1..1
_KLEIN = {"4b": (5, 20, 24, 2560, 9728), "9b": (8, 24, 32, 4096, 12288)}


@contextlib.contextmanager
def created_on(device: str, dtype: torch.dtype) -> Iterator[None]:
    """New modules are made on ``device`` in ``dtype``: in seconds, and without a copy in main memory."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def build(key: str, device: str, dtype: torch.dtype) -> Any:
    """The pipeline of a row of the model table, ready to run; the same weights on every call."""
    torch.manual_seed(0)
    with created_on(device, dtype):
        parts = _BUILDERS[key]()
    pipe = parts.to(device=device, dtype=dtype)
    _add_contrast(pipe, device, dtype)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _add_contrast(pipe: Any, device: str, dtype: torch.dtype) -> None:
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    last = pipe.vae.decoder.conv_out
    latents = torch.randn(1, pipe.vae.config.latent_channels, 16, 16, device=device, dtype=dtype)
    with torch.no_grad():
        last.weight *= CONTRAST / pipe.vae.decode(latents, return_dict=False)[0].float().std().item()


def _sd_turbo() -> Any:
    from diffusers import StableDiffusionImg2ImgPipeline, UNet2DConditionModel

    unet = UNet2DConditionModel(
        sample_size=64, cross_attention_dim=1024, attention_head_dim=(5, 10, 20, 20), use_linear_projection=True
    )
    return StableDiffusionImg2ImgPipeline(
        vae=_vae(),
        text_encoder=_clip(1024, 23, 16, 4096, "gelu"),
        tokenizer=clip_tokenizer(),
        unet=unet,
        scheduler=_turbo_scheduler("EulerDiscreteScheduler"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _sdxl_turbo() -> Any:
    from diffusers import StableDiffusionXLImg2ImgPipeline, UNet2DConditionModel

    unet = UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )
    return StableDiffusionXLImg2ImgPipeline(
        vae=_vae(scaling_factor=0.13025, force_upcast=True),
        text_encoder=_clip(768, 12, 12, 3072, "quick_gelu"),
        text_encoder_2=_clip(1280, 32, 20, 5120, "gelu", projection=True),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=unet,
        scheduler=_turbo_scheduler("EulerAncestralDiscreteScheduler"),
        add_watermarker=False,
    )


def _flux_schnell() -> Any:
    from diffusers import FluxImg2ImgPipeline, FluxTransformer2DModel
    from transformers import T5Config, T5EncoderModel

    vocabulary = {"vocab_size": len(t5_tokenizer()), "feed_forward_proj": "gated-gelu"}
    return FluxImg2ImgPipeline(
        vae=_vae(
            latent_channels=16,
            scaling_factor=0.3611,
            shift_factor=0.1159,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=_clip(768, 12, 12, 3072, "quick_gelu"),
        tokenizer=clip_tokenizer(),
        text_encoder_2=T5EncoderModel(
            T5Config(d_model=4096, d_ff=10240, d_kv=64, num_layers=24, num_heads=64, **vocabulary)
        ),
        tokenizer_2=t5_tokenizer(),
        transformer=FluxTransformer2DModel(guidance_embeds=False),  # the rest is the class's default
        scheduler=_flow_scheduler(),
    )


def _klein(size: str) -> Callable[[], Any]:
    def make() -> Any:
        from diffusers import AutoencoderKLFlux2, Flux2KleinPipeline, Flux2Transformer2DModel

        layers, single_layers, heads, width, _ = _KLEIN[size]
        return Flux2KleinPipeline(
            vae=AutoencoderKLFlux2(),
            text_encoder=_qwen3(size),
            tokenizer=qwen_tokenizer(),
            transformer=Flux2Transformer2DModel(
                num_layers=layers,
                num_single_layers=single_layers,
                num_attention_heads=heads,
                joint_attention_dim=3 * width,
                guidance_embeds=False,
            ),
            scheduler=_flow_scheduler(shift=3.0, use_dynamic_shifting=True),
            is_distilled=True,
        )

    return make


def _qwen3(size: str) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    *_, width, inner = _KLEIN[size]
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(qwen_tokenizer()),
            hidden_size=width,
            intermediate_size=inner,
            num_hidden_layers=36,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
        )
    )


def _vae(**differences: Any) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        **({"latent_channels": 4} | differences),
    )


def _clip(width: int, layers: int, heads: int, inner: int, activation: str, *, projection: bool = False) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(clip_tokenizer()),
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_act=activation,
        projection_dim=width,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def _turbo_scheduler(name: str) -> Any:
    import diffusers

    schedule = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    with created_on("cpu", torch.float32):  # a schedule is kept in float32 whatever the model's format
        return getattr(diffusers, name)(**schedule, timestep_spacing="trailing", steps_offset=1)


def _flow_scheduler(**options: Any) -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    with created_on("cpu", torch.float32):
        return FlowMatchEulerDiscreteScheduler(**options)


_BUILDERS = {
    "sd-turbo": _sd_turbo,
    "sdxl-turbo": _sdxl_turbo,
    "flux-schnell": _flux_schnell,
    "flux2-klein-4b": _klein("4b"),
    "flux2-klein-9b": _klein("9b"),
}
