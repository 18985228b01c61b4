"""A recorded pass, replayed through the parts of a loaded model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dltb.models.direct import embedded_options
from dltb.models.verification import checks
from dltb.models.verification.checks import Check
from dltb.models.verification.reference import Reference, denoiser, text_tensors

Pair = tuple[np.ndarray, np.ndarray]


class Replay:
    """Compares a model's parts with a reference."""

    def __init__(self, reference: Reference, pipe: Any, *, vae: Any, options: Mapping[str, Any]) -> None:
        """``vae`` is the one that the model's passes use; ``options`` are those of ``passes.call_options``."""
        self._about, self._tensors = reference.about, reference.tensors
        self._pipe, self._vae, self._options = pipe, vae, options
        self._device = torch.device(pipe._execution_device)

    @torch.no_grad()
    def run(self) -> list[Check]:
        """All checks of the parts."""
        return [self.geometry(), self.text(), self.steps(), self.encode(), self.decode()]

    def geometry(self) -> Check:
        """The pictures of the reference must have the size that it claims."""
        claimed = [self._about.get("height"), self._about.get("width")]
        pictures = {name: self._tensors.get(name) for name in ("frame", "decode0.out")}
        sizes = {"frame": slice(0, 2), "decode0.out": slice(2, 4)}
        for name, picture in pictures.items():
            if picture is None:
                return Check("geometry", "fail", reason=f"the reference has no {name}")
            found = list(picture.shape[sizes[name]])
            if found != claimed:
                return Check("geometry", "fail", reason=f"{name} is {found}, the reference says {claimed}")
        return Check("geometry", "pass", compared=len(pictures))

    def text(self) -> Check:
        """Text embeddings."""
        count = self._about.get("texts", 0)
        known = [self._tensors[f"text.{n}"] for n in range(count) if f"text.{n}" in self._tensors]
        encoded = text_tensors(tuple(embedded_options(self._pipe, self._options).values()))
        pairs = [(_array(one), _array(other)) for one, other in zip(known, encoded, strict=False)]
        return checks.check_cosine("text", checks.TEXT_COSINE, pairs, expected=max(count, len(encoded)))

    def steps(self) -> Check:
        """The denoiser's output for the recorded input of every step."""
        count, pairs = self._about.get("steps", 0), []
        if self._about.get("opaque_steps"):
            return Check("steps", "skip", reason="its steps hand on a cache, which only the whole frame can check")
        for number in range(count):
            inputs = {n: t for n, t in self._tensors.items() if n.startswith(f"step{number}.in.")}
            expected = self._tensors.get(f"step{number}.out")
            if inputs and expected is not None:
                pairs.append((_array(expected), _array(self._step(number, inputs))))
        return checks.check_cosine("steps", checks.STEP_COSINE, pairs, expected=count)

    def _step(self, number: int, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        module = denoiser(self._pipe)
        args, kwargs = [], {}
        for name, tensor in sorted(inputs.items()):
            name = name.removeprefix(f"step{number}.in.")
            value = self._moved(tensor, module.dtype)
            outer, _, inner = name.partition("/")
            if name.isdigit():
                args.append(value)
            elif inner:
                kwargs.setdefault(outer, {})[inner] = value
            else:
                kwargs[name] = value
        return module(*args, **kwargs, return_dict=False)[0]

    def encode(self) -> Check:
        """The mean of the posterior of every picture."""
        pairs = self._through_vae("encode", lambda picture: self._vae.encode(picture).latent_dist.mean)
        return checks.check_cosine("vae encode", checks.ENCODE_COSINE, pairs, expected=self._about.get("encodes", 0))

    def decode(self) -> Check:
        """The picture of every latent."""
        pairs = self._through_vae("decode", lambda latents: self._vae.decode(latents, return_dict=False)[0])
        pictures = [(_levels(known), _levels(replayed)) for known, replayed in pairs]
        return checks.check_pictures("vae decode", pictures, expected=self._about.get("decodes", 0))

    def _through_vae(self, name: str, part: Callable[[torch.Tensor], torch.Tensor]) -> list[Pair]:
        pairs = []
        for number in range(self._about.get(f"{name}s", 0)):
            given, known = (self._tensors.get(f"{name}{number}.{end}") for end in ("in", "out"))
            if given is not None and known is not None:
                pairs.append((_array(known), _array(part(self._moved(given, self._vae.dtype)))))
        return pairs

    def _moved(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """On the device, in the model's number format; a step's number keeps its own, as the pipeline does."""
        moved = tensor.to(self._device)
        return moved.to(dtype) if moved.is_floating_point() and moved.dim() > 1 else moved


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def _levels(picture: np.ndarray) -> np.ndarray:
    """A decoder's -1..1 as grey levels."""
    return (np.clip(picture / 2 + 0.5, 0, 1) * 255).round()


def check_frame(reference: Reference, frame: np.ndarray, *, same_noise: bool) -> Check:
    """The whole pass, through everything that a profile changes, against the reference's frame."""
    if not same_noise:
        return Check("frame", "skip", reason="another device draws other noise from one seed")
    known = reference.tensors.get("frame")
    pairs: Sequence[Pair] = [] if known is None else [(known.numpy(), frame)]
    return checks.check_pictures("frame", pairs, expected=1)
