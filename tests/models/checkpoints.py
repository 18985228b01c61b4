"""Tiny random checkpoints of every pipeline class in the table, saved as the ordinary diffusers folders.

The weights mean nothing; what is real is the loading, the call signature and the flow of sizes and types.
"""

from pathlib import Path
from typing import Any

import torch

HIDDEN = 16  # width of the text encoders
LATENT_CHANNELS = 4
VAE_BLOCKS = {
    "block_out_channels": (8, 8, 8, 8),  # three halvings: 8x8 px a latent, as in the full models
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "latent_channels": LATENT_CHANNELS,
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


def save_checkpoint(class_name: str, folder: Path, **options: Any) -> None:
    """Save a random pipeline of ``class_name`` to ``folder``; options go to save_pretrained (``variant``)."""
    torch.manual_seed(0)
    pipe = _BUILDERS[class_name](class_name)
    with torch.no_grad():
        # A fresh decoder is almost uniformly grey; contrast makes a difference between latents visible in uint8.
        pipe.vae.decoder.conv_out.weight *= 2
    pipe.save_pretrained(folder, **options)


def _stable_diffusion(class_name: str) -> Any:
    import diffusers

    return getattr(diffusers, class_name)(
        vae=_vae(),
        text_encoder=_clip(),
        tokenizer=clip_tokenizer(),
        unet=_unet(cross_attention_dim=HIDDEN),
        scheduler=_turbo_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _stable_diffusion_xl(class_name: str) -> Any:
    import diffusers

    return getattr(diffusers, class_name)(
        vae=_vae(),
        text_encoder=_clip(),
        text_encoder_2=_clip(projection=True),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=_unet(
            cross_attention_dim=2 * HIDDEN,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=HIDDEN + 6 * 8,  # pooled text and six numbers about the size
        ),
        scheduler=_turbo_scheduler(),
        add_watermarker=False,
    )


def _flux(class_name: str) -> Any:
    import diffusers

    transformer = diffusers.FluxTransformer2DModel(
        in_channels=4 * LATENT_CHANNELS,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=HIDDEN,
        pooled_projection_dim=HIDDEN,
        axes_dims_rope=(4, 4, 8),
    )
    return getattr(diffusers, class_name)(
        vae=_vae(shift_factor=0.1),
        text_encoder=_clip(),
        tokenizer=clip_tokenizer(),
        text_encoder_2=_t5(),
        tokenizer_2=t5_tokenizer(),
        transformer=transformer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
    )


def _klein(class_name: str) -> Any:
    import diffusers

    transformer = diffusers.Flux2Transformer2DModel(
        in_channels=4 * LATENT_CHANNELS,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=3 * HIDDEN,  # three layers of the text encoder, stacked
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=False,
    )
    return getattr(diffusers, class_name)(
        vae=diffusers.AutoencoderKLFlux2(**VAE_BLOCKS),
        text_encoder=_qwen3(),
        tokenizer=qwen_tokenizer(),
        transformer=transformer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        is_distilled=True,
    )


def _vae(**options: Any) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(**VAE_BLOCKS, **options)


def _unet(**options: Any) -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        block_out_channels=(16, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        attention_head_dim=2,
        norm_num_groups=8,
        **options,
    )


def _turbo_scheduler() -> Any:
    from diffusers import EulerDiscreteScheduler

    return EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="trailing", steps_offset=1)


def _clip(*, projection: bool = False) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(clip_tokenizer()),
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        projection_dim=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def _t5() -> Any:
    from transformers import T5Config, T5EncoderModel

    size = len(t5_tokenizer())
    return T5EncoderModel(T5Config(vocab_size=size, d_model=HIDDEN, d_ff=16, d_kv=8, num_layers=1, num_heads=2))


def _qwen3() -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(qwen_tokenizer()),
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=27,  # the pipeline's default reads layers 9, 18 and 27
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        tie_word_embeddings=False,
    )
    return Qwen3ForCausalLM(config)


def _letters() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def clip_tokenizer() -> Any:
    from transformers import CLIPTokenizer

    words = ["<|startoftext|>", "<|endoftext|>", *_letters(), *(letter + "</w>" for letter in _letters())]
    return CLIPTokenizer(vocab={word: i for i, word in enumerate(words)}, merges=[], model_max_length=77)


def t5_tokenizer() -> Any:
    from transformers import T5TokenizerFast

    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    letters = [(letter, -3.0) for letter in "abcdefghijklmnopqrstuvwxyz"]
    return T5TokenizerFast(vocab=special + letters, extra_ids=0, model_max_length=512)


def qwen_tokenizer() -> Any:
    from transformers import Qwen2TokenizerFast

    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *_letters()]
    tokenizer = Qwen2TokenizerFast(vocab={word: i for i, word in enumerate(words)}, merges=[])
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return tokenizer


_BUILDERS = {
    "StableDiffusionPipeline": _stable_diffusion,
    "StableDiffusionXLPipeline": _stable_diffusion_xl,
    "FluxPipeline": _flux,
    "Flux2KleinPipeline": _klein,
    "Flux2KleinKVPipeline": _klein,
}
