"""StableDiffusionImg2ImgPipeline and its XL form, written out for one image and one prompt.

Follows diffusers 0.42 line by line where rounding or the order of random draws depends on it: posterior noise, then latent
noise, then whatever the scheduler draws.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from diffusers.utils.torch_utils import randn_tensor

from dltb.models.direct.base import Direct, Wrap, unwrapped


def _is_guided(options: Mapping[str, Any]) -> bool:
    return options["guidance_scale"] > 1


class StableDiffusion(Direct):
    """StableDiffusionImg2ImgPipeline."""

    def __init__(self, pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> None:
        super().__init__(pipe, options, wrap=wrap)
        self.guided = _is_guided(options)
        self.conditions: tuple[torch.Tensor, ...] = self._conditions()

    @classmethod
    def covers(cls, pipe: Any, options: Mapping[str, Any]) -> bool:
        plain = getattr(pipe, "safety_checker", None) is None and pipe.unet.config.time_cond_proj_dim is None
        return plain and super().covers(pipe, options)

    @staticmethod
    @torch.no_grad()
    def embedded(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in options.items() if name not in ("prompt", "negative_prompt")}
        pipe._clip_skip = None
        embeds, negative = pipe.encode_prompt(
            options["prompt"], pipe._execution_device, 1, _is_guided(options), options["negative_prompt"]
        )
        return {**kept, "prompt_embeds": embeds, "negative_prompt_embeds": negative}

    def _conditions(self) -> tuple[torch.Tensor, ...]:
        """Text embeddings [1 or 2, L, C]; under guidance the negative ones first."""
        text = self.embedded(self.pipe, self.options)
        embeds = text["prompt_embeds"]
        return (torch.cat([text["negative_prompt_embeds"], embeds]) if self.guided else embeds,)

    def set_steps(self, height: int, width: int) -> None:
        steps = self.options["num_inference_steps"]
        self.pipe.scheduler.set_timesteps(steps, device=self.device)
        timesteps, _ = self.pipe.get_timesteps(steps, self.options["strength"], self.device)
        self.keep_schedule(timesteps)

    def run(self, frames: Sequence[np.ndarray], generator: torch.Generator) -> torch.Tensor:
        dtype = self.conditions[0].dtype
        scheduler, steps = self.schedule.start(), self.schedule.timesteps
        moments = self.encode(self.upload(frames[0]))
        latents = DiagonalGaussianDistribution(moments).sample(generator).to(dtype)
        latents = self.vae.config.scaling_factor * latents
        noise = randn_tensor(latents.shape, generator=generator, device=self.device, dtype=dtype)
        latents = scheduler.add_noise(latents, noise, steps[0].reshape(1))
        extra = self.pipe.prepare_extra_step_kwargs(generator, 0.0)
        for step in steps:
            scaled = scheduler.scale_model_input(torch.cat([latents] * 2) if self.guided else latents, step)
            predicted = self.denoise(scaled, step, *self.conditions)
            if self.guided:
                without, given = predicted.chunk(2)
                predicted = without + self.options["guidance_scale"] * (given - without)
            latents = scheduler.step(predicted, step, latents, **extra, return_dict=False)[0]
        return self.decode(latents)

    def _encode(self, pixels: torch.Tensor) -> torch.Tensor:
        image = self.model_range(pixels, self.conditions[0].dtype).to(self.vae.dtype)
        return self.vae.encode(image).latent_dist.parameters

    def _denoise(self, latents: torch.Tensor, step: torch.Tensor, embeds: torch.Tensor) -> torch.Tensor:
        return self.pipe.unet(latents, step, encoder_hidden_states=embeds, return_dict=False)[0]

    def _decode(self, latents: torch.Tensor) -> torch.Tensor:
        latents = latents.to(self.vae.dtype) / self.vae.config.scaling_factor
        return self.packed(self.vae.decode(latents, return_dict=False)[0])


class StableDiffusionXL(StableDiffusion):
    """StableDiffusionXLImg2ImgPipeline."""

    def __init__(self, pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> None:
        super().__init__(pipe, options, wrap=wrap)
        self._upcasts = pipe.vae.config.force_upcast and pipe.unet.dtype == torch.float16
        if self._upcasts and self.vae.dtype == torch.float16:
            # The pipeline casts its VAE to float32 and back on every call. A copy is cast once and gives the same values.
            self.vae = copy.deepcopy(self.vae).to(torch.float32)
        # The type in which the posterior is sampled decides the noise.
        self._drawn = torch.float32 if self._upcasts else self.vae.dtype

    def relax(self) -> None:
        if self._upcasts:
            # It has the range of float32, which is what the cast is for.
            self.vae = self.pipe.vae.to(torch.bfloat16)

    def _encode(self, pixels: torch.Tensor) -> torch.Tensor:
        return super()._encode(pixels).to(self._drawn)

    @classmethod
    def covers(cls, pipe: Any, options: Mapping[str, Any]) -> bool:
        whitened = getattr(pipe.vae.config, "latents_mean", None) is not None
        return pipe.watermark is None and not whitened and super().covers(pipe, options)

    @staticmethod
    @torch.no_grad()
    def embedded(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in options.items() if name not in ("prompt", "negative_prompt")}
        names = ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds")
        encoded = pipe.encode_prompt(
            prompt=options["prompt"],
            device=pipe._execution_device,
            do_classifier_free_guidance=_is_guided(options),
            negative_prompt=options["negative_prompt"],
        )
        return {**kept, **dict(zip(names, encoded, strict=True))}

    def _conditions(self) -> tuple[torch.Tensor, ...]:
        """Text embeddings, pooled embeddings, and the numbers about the size, which ``prepare`` fills in."""
        self._text = text = self.embedded(self.pipe, self.options)
        embeds, pooled = text["prompt_embeds"], text["pooled_prompt_embeds"]
        if self.guided:
            embeds = torch.cat([text["negative_prompt_embeds"], embeds])
            pooled = torch.cat([text["negative_pooled_prompt_embeds"], pooled])
        return (embeds, pooled)

    def prepare(self, height: int, width: int) -> None:
        self.conditions = (*self.conditions[:2], self._size_numbers(height, width))

    def _size_numbers(self, height: int, width: int) -> torch.Tensor:
        size, corner = (height, width), (0, 0)
        projection = self.pipe.text_encoder_2.config.projection_dim
        given, negative = self.pipe._get_add_time_ids(
            size,
            corner,
            size,
            6.0,  # the call's default aesthetic scores, which only refiners read
            2.5,
            size,
            corner,
            size,
            dtype=self.conditions[0].dtype,
            text_encoder_projection_dim=projection,
        )
        return (torch.cat([negative, given]) if self.guided else given).to(self.device)

    def _denoise(
        self,
        latents: torch.Tensor,
        step: torch.Tensor,
        embeds: torch.Tensor,
        pooled: torch.Tensor,
        numbers: torch.Tensor,
    ) -> torch.Tensor:
        added = {"text_embeds": pooled, "time_ids": numbers}
        return self.pipe.unet(latents, step, encoder_hidden_states=embeds, added_cond_kwargs=added, return_dict=False)[
            0
        ]
