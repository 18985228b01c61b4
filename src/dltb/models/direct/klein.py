"""Flux2KleinPipeline and Flux2KleinKVPipeline, written out for one prompt and any number of references (diffusers 0.42).

A reference's latents are the mode of the posterior, so nothing is drawn for them: those of a frame that comes again, as in
the tails, are taken from the passes before.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from diffusers import Flux2KleinPipeline
from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu, retrieve_timesteps
from diffusers.utils.torch_utils import randn_tensor

from dltb.models.direct.base import Direct, Wrap, unwrapped

KEPT_REFERENCES = 4  # the two of this pass and of the one before


class Klein(Direct):
    """Flux2KleinPipeline without classifier-free guidance, which distilled models never run."""

    def __init__(self, pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> None:
        super().__init__(pipe, options, wrap=wrap)
        self.embeds = self.embedded(pipe, options)["prompt_embeds"]
        self.text_ids = pipe._prepare_text_ids(self.embeds).to(self.device)
        self._known: deque[tuple[np.ndarray, torch.Tensor]] = deque(maxlen=KEPT_REFERENCES)
        self._reference_ids: dict[int, torch.Tensor] = {}

    def attention_shape(self, height: int, width: int) -> tuple[int, int, int, int]:
        config, side = self.pipe.transformer.config, self.pipe.vae_scale_factor * 2
        tokens = self.embeds.shape[1] + 3 * (height // side) * (width // side)  # the frame and two references
        return (1, tokens, config.num_attention_heads, config.attention_head_dim)

    @classmethod
    def covers(cls, pipe: Any, options: Mapping[str, Any]) -> bool:
        guided = options.get("guidance_scale", 1) > 1 and not pipe.config.get("is_distilled", True)
        return not guided and super().covers(pipe, options)

    @staticmethod
    @torch.no_grad()
    def embedded(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in options.items() if name != "prompt"}
        wanted = {name: kept[name] for name in ("max_sequence_length", "text_encoder_out_layers") if name in kept}
        embeds, _ = pipe.encode_prompt(prompt=options["prompt"], device=pipe._execution_device, **wanted)
        return {**kept, "prompt_embeds": embeds}

    def prepare(self, height: int, width: int) -> None:
        pipe = self.pipe
        self._grid = tuple(side // (pipe.vae_scale_factor * 2) for side in (height, width))
        self._known.clear()
        self._reference_ids.clear()
        channels = pipe.transformer.config.in_channels  # of a latent with 2x2 pixels of it stacked
        self._shape = (1, channels, *self._grid)
        empty = torch.empty(self._shape)
        self.latent_ids = pipe._prepare_latent_ids(empty).to(self.device)

    def set_steps(self, height: int, width: int) -> None:
        pipe, steps = self.pipe, self.options["num_inference_steps"]
        sigmas = np.linspace(1.0, 1 / steps, steps)
        if getattr(pipe.scheduler.config, "use_flow_sigmas", False):
            sigmas = None
        mu = compute_empirical_mu(image_seq_len=self._grid[0] * self._grid[1], num_steps=steps)
        timesteps, _ = retrieve_timesteps(pipe.scheduler, steps, self.device, sigmas=sigmas, mu=mu)
        pipe.scheduler.set_begin_index(0)
        self.keep_schedule(timesteps)
        self.times = [step.expand(1).to(self.embeds.dtype) / 1000 for step in timesteps]

    def run(self, frames: Sequence[np.ndarray], generator: torch.Generator) -> torch.Tensor:
        noise = randn_tensor(self._shape, generator=generator, device=self.device, dtype=self.embeds.dtype)
        latents = self.pipe._pack_latents(noise)
        references = torch.cat([self.reference(frame) for frame in frames], dim=1)
        return self.decode(self.walk(latents, references, self.reference_ids(len(frames))))

    def walk(self, latents: torch.Tensor, references: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """All steps, from noise [1, L, C] to latents; ``references`` [1, R, C] and their position ``ids`` stay."""
        scheduler, dtype = self.schedule.start(), self.pipe.transformer.dtype
        all_ids = torch.cat([self.latent_ids, ids], dim=1)
        for step, time in zip(self.schedule.timesteps, self.times, strict=True):
            seen = torch.cat([latents, references], dim=1).to(dtype)
            predicted = self.denoise(seen, time, all_ids)[:, : latents.size(1)]
            latents = scheduler.step(predicted, step, latents, return_dict=False)[0]
        return latents

    def reference(self, frame: np.ndarray) -> torch.Tensor:
        """The latents of one reference, packed [1, L, C]; those of the frames used last are remembered."""
        for place, (known, latents) in enumerate(self._known):
            if np.array_equal(known, frame):
                del self._known[place]
                self._known.append((known, latents))  # now the last to be forgotten
                return latents
        # Copies, as a stage may use the memory of its result again, and a caller that of a frame.
        latents = self.encode(self.upload(frame)).clone()
        self._known.append((frame.copy(), latents))
        return latents

    def reference_ids(self, count: int) -> torch.Tensor:
        """Position ids [1, R, 4] of so many references."""
        if count not in self._reference_ids:
            empty = [torch.empty(self._shape)] * count
            self._reference_ids[count] = self.pipe._prepare_image_ids(empty).to(self.device)
        return self._reference_ids[count]

    def _encode(self, pixels: torch.Tensor) -> torch.Tensor:
        image = self.model_range(pixels, self.pipe.vae.dtype)
        return self.pipe._pack_latents(self.pipe._encode_vae_image(image=image, generator=None))

    def _denoise(self, seen: torch.Tensor, time: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return self.pipe.transformer(**self._denoiser_arguments(seen, time, ids))[0]

    def _denoiser_arguments(self, seen: torch.Tensor, time: torch.Tensor, ids: torch.Tensor) -> dict[str, Any]:
        return {
            "hidden_states": seen,
            "timestep": time,
            "guidance": None,
            "encoder_hidden_states": self.embeds,
            "txt_ids": self.text_ids,
            "img_ids": ids,
            "joint_attention_kwargs": None,
            "return_dict": False,
        }

    def _decode(self, latents: torch.Tensor) -> torch.Tensor:
        pipe, vae = self.pipe, self.pipe.vae
        # The KV pipeline's own unpacking asks the device for the size; the result is the same.
        latents = Flux2KleinPipeline._unpack_latents_with_ids(latents, self.latent_ids, *self._grid)
        mean = vae.bn.running_mean.view(1, -1, 1, 1).to(latents.device, latents.dtype)
        deviation = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps)
        latents = latents * deviation.to(latents.device, latents.dtype) + mean
        return self.packed(vae.decode(pipe._unpatchify_latents(latents), return_dict=False)[0])


class KleinKV(Klein):
    """Flux2KleinKVPipeline: keys and values of the references come from the first step and are used in the others.

    The cache that the transformer hands on is no tensor, so its steps are not a stage: no profile wraps them.
    """

    compiles_denoiser = False

    def walk(self, latents: torch.Tensor, references: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        scheduler, cache = self.schedule.start(), None
        for step, time in zip(self.schedule.timesteps, self.times, strict=True):
            if cache is None:
                predicted, cache = self._first_step(latents, time, references, ids)
            else:
                predicted = self._later_step(latents, time, cache)
            latents = scheduler.step(predicted, step, latents, return_dict=False)[0]
        cache.clear()
        return latents

    def _first_step(
        self, latents: torch.Tensor, time: torch.Tensor, references: torch.Tensor, ids: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        seen, all_ids = torch.cat([references, latents], dim=1), torch.cat([ids, self.latent_ids], dim=1)
        arguments = self._denoiser_arguments(seen.to(self.pipe.transformer.dtype), time, all_ids)
        return self.pipe.transformer(**arguments, kv_cache_mode="extract", num_ref_tokens=references.shape[1])

    def _later_step(self, latents: torch.Tensor, time: torch.Tensor, cache: Any) -> torch.Tensor:
        arguments = self._denoiser_arguments(latents.to(self.pipe.transformer.dtype), time, self.latent_ids)
        return self.pipe.transformer(**arguments, kv_cache=cache, kv_cache_mode="cached")[0]
