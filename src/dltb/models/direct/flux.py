"""FluxImg2ImgPipeline (FLUX.1), written out for one image and one prompt, after diffusers 0.42."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from diffusers.pipelines.flux.pipeline_flux_img2img import calculate_shift, retrieve_timesteps
from diffusers.utils.torch_utils import randn_tensor

from dltb.models.direct.base import Direct, Wrap, unwrapped


class FluxImg2Img(Direct):
    """FluxImg2ImgPipeline without true classifier-free guidance."""

    def __init__(self, pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> None:
        super().__init__(pipe, options, wrap=wrap)
        text = self.embedded(pipe, options)
        self.embeds, self.pooled = text["prompt_embeds"], text["pooled_prompt_embeds"]
        # As encode_prompt makes them.
        self.text_ids = torch.zeros(self.embeds.shape[1], 3).to(device=self.device, dtype=self.embeds.dtype)

    def attention_shape(self, height: int, width: int) -> tuple[int, int, int, int]:
        config, side = self.pipe.transformer.config, self.pipe.vae_scale_factor * 2
        tokens = self.embeds.shape[1] + (height // side) * (width // side)
        return (1, tokens, config.num_attention_heads, config.attention_head_dim)

    @staticmethod
    @torch.no_grad()
    def embedded(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in options.items() if name != "prompt"}
        device, most = pipe._execution_device, options.get("max_sequence_length", 512)
        encoded = pipe.encode_prompt(prompt=options["prompt"], prompt_2=None, device=device, max_sequence_length=most)
        return {**kept, "prompt_embeds": encoded[0], "pooled_prompt_embeds": encoded[1]}

    def prepare(self, height: int, width: int) -> None:
        pipe, dtype = self.pipe, self.embeds.dtype
        side = pipe.vae_scale_factor * 2
        self._latent_size = height, width = 2 * (height // side), 2 * (width // side)
        self.image_ids = pipe._prepare_latent_image_ids(1, height // 2, width // 2, self.device, dtype)
        self.guidance = None
        if pipe.transformer.config.guidance_embeds:
            self.guidance = torch.full([1], self.options["guidance_scale"], device=self.device, dtype=torch.float32)

    def set_steps(self, height: int, width: int) -> None:
        pipe, steps = self.pipe, self.options["num_inference_steps"]
        scale, config = pipe.vae_scale_factor, pipe.scheduler.config
        mu = calculate_shift(
            (height // scale // 2) * (width // scale // 2),
            config.get("base_image_seq_len", 256),
            config.get("max_image_seq_len", 4096),
            config.get("base_shift", 0.5),
            config.get("max_shift", 1.15),
        )
        sigmas = np.linspace(1.0, 1 / steps, steps)
        retrieve_timesteps(pipe.scheduler, steps, self.device, sigmas=sigmas, mu=mu)
        timesteps, _ = pipe.get_timesteps(steps, self.options["strength"], self.device)
        self.keep_schedule(timesteps)
        self.times = [step.expand(1).to(self.embeds.dtype) / 1000 for step in timesteps]

    def run(self, frames: Sequence[np.ndarray], generator: torch.Generator) -> torch.Tensor:
        pipe, vae, dtype = self.pipe, self.pipe.vae, self.embeds.dtype
        scheduler, steps = self.schedule.start(), self.schedule.timesteps
        latents = DiagonalGaussianDistribution(self.encode(self.upload(frames[0]))).sample(generator)
        latents = (latents - vae.config.shift_factor) * vae.config.scaling_factor
        channels = pipe.transformer.config.in_channels // 4
        shape = (1, channels, *self._latent_size)
        noise = randn_tensor(shape, generator=generator, device=self.device, dtype=dtype)
        latents = scheduler.scale_noise(latents, steps[0].reshape(1), noise)
        latents = pipe._pack_latents(latents, 1, channels, *self._latent_size)
        for step, time in zip(steps, self.times, strict=True):
            predicted = self.denoise(latents, time)
            latents = scheduler.step(predicted, step, latents, return_dict=False)[0]
        return self.decode(latents)

    def _encode(self, pixels: torch.Tensor) -> torch.Tensor:
        image = self.model_range(pixels, self.embeds.dtype)
        return self.pipe.vae.encode(image).latent_dist.parameters

    def _denoise(self, latents: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.pipe.transformer(
            hidden_states=latents,
            timestep=time,
            guidance=self.guidance,
            pooled_projections=self.pooled,
            encoder_hidden_states=self.embeds,
            txt_ids=self.text_ids,
            img_ids=self.image_ids,
            joint_attention_kwargs={},
            return_dict=False,
        )[0]

    def _decode(self, latents: torch.Tensor) -> torch.Tensor:
        pipe, config = self.pipe, self.pipe.vae.config
        size = [side * pipe.vae_scale_factor for side in self._latent_size]
        latents = pipe._unpack_latents(latents, *size, pipe.vae_scale_factor)
        latents = (latents / config.scaling_factor) + config.shift_factor
        return self.packed(pipe.vae.decode(latents, return_dict=False)[0])
