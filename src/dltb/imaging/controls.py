"""Passes without the model, to tell how much of a loop's drift is the model's own.

``identity`` hands the input on: what drifts then is the loop (blend, warp, quantising). ``vae`` encodes and decodes it: what
drifts then is the loop and the autoencoder. A run's excess over its control is what the denoiser adds.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from dltb.imaging.passes import Generate, Pass, PassSettings, seed_for, to_uint8


def make_identity(settings: PassSettings) -> Generate:
    """``generate`` that returns its first image."""
    return _control(lambda frame: frame, settings)


def make_vae_round_trip(pipe: Any, settings: PassSettings) -> Generate:
    """``generate`` that returns its first image encoded and decoded by the pipeline's VAE, with no noise drawn.

    The mode of the posterior is taken, and float32 is used on every device: half precision overflows in some VAEs, and
    the control is about the autoencoder, not about rounding.
    """
    import torch

    vae = _own_vae(pipe)
    # Through the pipeline's own image processor, as a pass would; scaling and whitening of latents cancel out.
    processor = pipe.image_processor

    @torch.inference_mode()
    def round_trip(frame: np.ndarray) -> np.ndarray:
        height, width = frame.shape[:2]
        pixels = processor.preprocess(Image.fromarray(frame), height=height, width=width)
        latents = vae.encode(pixels.to(vae.device, torch.float32)).latent_dist.mode()
        decoded = vae.decode(latents).sample
        return to_uint8((decoded / 2 + 0.5).clamp(0, 1))

    return _control(round_trip, settings)


def _own_vae(pipe: Any) -> Any:
    """The pipeline's VAE in float32, apart from it: a pipeline may be lent, and offloading hooks stay with it."""
    import torch

    vae = type(pipe.vae).from_config(pipe.vae.config)
    vae.load_state_dict(pipe.vae.state_dict())
    return vae.to(device=pipe._execution_device, dtype=torch.float32).eval()


def _control(function: Callable[[np.ndarray], np.ndarray], settings: PassSettings) -> Generate:
    def generate(images: np.ndarray | Sequence[np.ndarray], index: int) -> Pass:
        started = time.perf_counter()
        frame = function(images if isinstance(images, np.ndarray) else images[0])
        seconds = time.perf_counter() - started
        return Pass(frame, seconds, steps_run=0, sigma_start=None, seed=seed_for(settings, index))

    return generate
