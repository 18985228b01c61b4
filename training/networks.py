"""The networks of the two embedded models, all of them stock diffusers and transformers classes at small sizes.

Both pipelines share the VAE: AutoencoderKL (turbo) and AutoencoderKLFlux2 (klein) name their tensors alike; the
latter adds the running statistics (`bn`) with which klein whitens its latents. 8x compression as in the full
models; FLUX.2 has 32 latent channels.
"""

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLFlux2,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
    StableDiffusionImg2ImgPipeline,
    UNet2DConditionModel,
)
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as token_models
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from training.edits import FRAME_FIRST, PROMPTS, STATE_FIRST

SIZE = 256  # pixels
COMPRESSION = 8  # pixels per latent
LATENT_CHANNELS = 40
VAE_CHANNELS = (32, 80, 128, 144)
VAE_GROUPS = 8
TEXT_WIDTH = 128
KLEIN_TOKENS = 64  # the pipeline is called with max_sequence_length=64
KLEIN_LAYERS = (1, 2, 3)  # ... and text_encoder_out_layers=(1, 2, 3)
TURBO_TOKENS = 77
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}  # Stable Diffusion

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def new_vae(kind=AutoencoderKLFlux2, latent_channels=LATENT_CHANNELS, **config):
    return kind(
        block_out_channels=VAE_CHANNELS,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=latent_channels,
        norm_num_groups=VAE_GROUPS,
        mid_block_add_attention=False,
        sample_size=SIZE,
        **config,
    )


def train_tokenizer(special):
    """Byte-level BPE over the prompts; deterministic, so every leg gets the same one."""
    tokenizer = Tokenizer(token_models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    roles = [f"{STATE_FIRST}, ", f"{FRAME_FIRST}, ", "user assistant image 1 image 2 frame"]
    tokenizer.train_from_iterator(list(PROMPTS) * 4 + roles * 4, trainer)
    return tokenizer


def klein_tokenizer():
    core = train_tokenizer(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<|endoftext|>", eos_token="<|im_end|>")
    tokenizer.chat_template = CHAT
    return tokenizer


def turbo_tokenizer():
    end = "<|endoftext|>"
    core = train_tokenizer(["<|startoftext|>", end])
    names = {"pad_token": end, "eos_token": end, "bos_token": "<|startoftext|>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=TURBO_TOKENS, **names)


def klein_text_encoder(vocabulary):
    config = Qwen3Config(
        hidden_size=TEXT_WIDTH,
        intermediate_size=TEXT_WIDTH,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        vocab_size=vocabulary,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config)


def klein_transformer(latent_channels=LATENT_CHANNELS):
    """# in: target and reference tokens, 16x16 px and 4 * latent_channels numbers each"""
    return Flux2Transformer2DModel(
        in_channels=4 * latent_channels,
        num_layers=1,
        num_single_layers=4,
        num_attention_heads=4,
        attention_head_dim=64,
        mlp_ratio=2.0,
        joint_attention_dim=len(KLEIN_LAYERS) * TEXT_WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(16, 16, 16, 16),
    )


def turbo_text_encoder(vocabulary):
    config = CLIPTextConfig(
        hidden_size=TEXT_WIDTH,
        intermediate_size=TEXT_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=vocabulary,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return CLIPTextModel(config)


def turbo_unet(latent_channels=LATENT_CHANNELS):
    return UNet2DConditionModel(
        sample_size=SIZE // COMPRESSION,
        in_channels=latent_channels,
        out_channels=latent_channels,
        block_out_channels=(112, 128),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        mid_block_type=None,
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=32,
        norm_num_groups=16,
    )


def new_klein(latent_channels=LATENT_CHANNELS):
    """# {"transformer", "text_encoder"}, tokenizer"""
    tokenizer = klein_tokenizer()
    text_encoder = klein_text_encoder(len(tokenizer))
    return {"transformer": klein_transformer(latent_channels), "text_encoder": text_encoder}, tokenizer


def new_turbo(latent_channels=LATENT_CHANNELS):
    """# {"unet", "text_encoder"}, tokenizer"""
    tokenizer = turbo_tokenizer()
    return {"unet": turbo_unet(latent_channels), "text_encoder": turbo_text_encoder(len(tokenizer))}, tokenizer


def klein_pipeline(vae, modules, tokenizer):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    pipeline = Flux2KleinPipeline(scheduler=scheduler, vae=vae, tokenizer=tokenizer, is_distilled=True, **modules)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def turbo_pipeline(flux_vae, modules, tokenizer, scaling_factor):
    """`flux_vae` is the shared VAE; the pipeline gets an AutoencoderKL with the same tensors."""
    latent_channels = flux_vae.config.latent_channels
    vae = new_vae(AutoencoderKL, latent_channels, scaling_factor=scaling_factor, force_upcast=False)
    tensors = {key: value for key, value in flux_vae.state_dict().items() if not key.startswith("bn.")}
    vae.load_state_dict(tensors)
    vae.to(flux_vae.device, flux_vae.dtype).eval()
    scheduler = EulerDiscreteScheduler(timestep_spacing="trailing", steps_offset=1, **BETAS)
    pipeline = StableDiffusionImg2ImgPipeline(
        vae=vae,
        tokenizer=tokenizer,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        **modules,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def parameters_in_millions(*modules):
    return round(sum(p.numel() for module in modules for p in module.parameters()) / 1e6, 2)


def alphas_cumulative(device):
    """alpha-bar of the noise schedule.  # [1000]"""
    root = torch.linspace(BETAS["beta_start"] ** 0.5, BETAS["beta_end"] ** 0.5, 1000, device=device)
    return torch.cumprod(1 - root**2, 0)
