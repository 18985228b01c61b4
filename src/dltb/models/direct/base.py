"""What the families share: frames to the device, constants per frame size, the schedule, the packed result."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dltb.imaging.passes import Call, Made, first_sigma, quantise

Stage = Callable[..., torch.Tensor]  # tensors in, one tensor out; nothing else changes between two calls
Wrap = Callable[[str, Stage], Stage]  # (name, stage) -> what runs in its place


Signature = tuple[tuple[torch.Size, torch.dtype], ...]


def signature_of(tensors: Sequence[torch.Tensor]) -> Signature:
    """What a compiled or recorded stage depends on."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def unwrapped(name: str, stage: Stage) -> Stage:
    """The stage as it is."""
    return stage


@dataclass(frozen=True)
class Schedule:
    """The steps of a pass, set up once."""

    scheduler: Any  # as it is before the first step
    timesteps: tuple[torch.Tensor, ...]  # scalars on the device
    sigma_start: float | None

    def start(self) -> Any:
        """A scheduler for one pass. A copy is enough: its tensors are only read, what it counts are plain numbers."""
        return copy.copy(self.scheduler)


# Schedulers whose steps replace attributes and never change a list or tensor in place.
SIMPLE_SCHEDULERS = ("EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler", "FlowMatchEulerDiscreteScheduler")


class Direct(ABC):
    """One pass of a pipeline: ``direct(frames, generator) -> Made``."""

    compiles_denoiser = True  # whether every step of the denoiser is the same function of tensors

    def __init__(self, pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> None:
        self.pipe = pipe
        self.vae = pipe.vae
        self.options = dict(options)
        self.device = torch.device(pipe._execution_device)
        self._levels = _model_range(pipe.image_processor).to(self.device)
        self._size: tuple[int, int] | None = None
        self.schedule: Schedule | None = None
        self.encode = wrap("encode", self._encode)
        self.denoise = wrap("denoise", self._denoise)
        self.decode = wrap("decode", self._decode)

    @classmethod
    def covers(cls, pipe: Any, options: Mapping[str, Any]) -> bool:
        """Whether this class does all that the pipeline would do."""
        return type(pipe.scheduler).__name__ in SIMPLE_SCHEDULERS

    @staticmethod
    @abstractmethod
    def embedded(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with embeddings in the place of prompts."""

    @torch.no_grad()
    def __call__(self, frames: Sequence[np.ndarray], generator: torch.Generator) -> Made:
        """Make one pass from uint8 frames [H, W, 3] of one size."""
        size = frames[0].shape[:2]
        if size != self._size:
            self.prepare(*size)
            self._size, self.schedule = size, None
        if self.schedule is None:
            self.set_steps(*size)
        pixels = self.run(frames, generator)
        return Made(pixels, len(self.schedule.timesteps), self.schedule.sigma_start)

    def at_strength(self, strength: float) -> Call:
        """The passes of another strength: only the steps change, so embeddings and stages are these."""

        def call(frames: Sequence[np.ndarray], generator: torch.Generator) -> Made:
            if strength != self.options["strength"]:
                self.options["strength"], self.schedule = strength, None
            return self(frames, generator)

        return call

    def prepare(self, height: int, width: int) -> None:  # noqa: B027 - some families have nothing to prepare
        """Make everything but the steps that is the same on every pass of this size (px); stages may read it."""

    @abstractmethod
    def set_steps(self, height: int, width: int) -> None:
        """Make the schedule of this size (px) and of the options; stages read none of it."""

    @abstractmethod
    def run(self, frames: Sequence[np.ndarray], generator: torch.Generator) -> torch.Tensor:
        """The pass itself; returns packed pixels, see ``passes.quantise``."""

    def relax(self) -> None:  # noqa: B027 - most families have nothing to relax
        """Give up precision that the pipeline asks for only because it overflows otherwise."""

    def attention_shape(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Batch, tokens, heads and width of a head in most of a pass's attention; None where no choice is offered."""
        return None

    def upload(self, frame: np.ndarray) -> torch.Tensor:
        """A frame on the device, [H, W, 3] uint8; the copy from pinned memory does not make the host wait."""
        host = torch.empty(frame.shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        host.numpy()[:] = frame
        return host.to(self.device, non_blocking=True)

    def model_range(self, pixels: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """[H, W, 3] uint8 to [1, 3, H, W] in the range and with the rounding of the pipeline's own image processor.

        The strides are its own too, those of a channels-last image: convolutions round by them.
        """
        return self._levels[pixels.unsqueeze(0).int()].permute(0, 3, 1, 2).to(dtype)

    def packed(self, image: torch.Tensor) -> torch.Tensor:
        """A decoder's image as the pipeline would give it out, quantised."""
        return quantise(self.pipe.image_processor.postprocess(image, output_type="pt"))

    def keep_schedule(self, timesteps: torch.Tensor) -> None:
        """Take over the steps that the pipeline's scheduler has just been set to."""
        scheduler = copy.copy(self.pipe.scheduler)
        self.schedule = Schedule(scheduler, tuple(timesteps), first_sigma(scheduler))

    @abstractmethod
    def _encode(self, pixels: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def _denoise(self, *tensors: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def _decode(self, latents: torch.Tensor) -> torch.Tensor: ...


def _model_range(processor: Any) -> torch.Tensor:
    """What the pipeline's image processor makes of every level: [256] float32."""
    from PIL import Image

    ramp = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8), (256, 1))).convert("RGB")
    return processor.preprocess(ramp, height=256, width=256)[0, 0, 0].clone()
