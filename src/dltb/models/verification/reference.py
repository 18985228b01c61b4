"""What one pass of the reference pipeline computed, part by part, and its file form.

Hooks on the parts of ``pipe(...)`` take inputs and outputs as the pipeline hands them over, so the record cannot drift
from it.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dltb import UsageError
from dltb.imaging.atomic import replacing

ABOUT, TENSORS = "reference.json", "reference.safetensors"
SCHEMA = 1


@dataclass
class Reference:
    """A recorded pass; its tensors: ``text.0``, ``step0.in.<argument>``, ``step0.out``, ``encode0.in``, ``frame``, ..."""

    about: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    def save(self, folder: Path) -> None:
        """Write both files into ``folder``."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / TENSORS) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in self.tensors.items()}, temporary)
        with replacing(folder / ABOUT) as temporary:
            temporary.write_text(json.dumps(self.about, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Reference":
        """Read what ``save`` wrote; UsageError when it is not there or not whole."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            tensors = load_file(folder / TENSORS)
        except (OSError, ValueError, SafetensorError) as error:
            raise UsageError(
                f"--reference {folder}: no complete reference there ({error}); make one with --capture"
            ) from None
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            raise UsageError(f"--reference {folder}: {ABOUT} is of another version; capture it again")
        return cls(about, tensors)


def capture(pipe: Any, arguments: Mapping[str, Any], about: Mapping[str, Any], generator: torch.Generator) -> Reference:
    """Run ``pipe(**arguments)`` once and record it."""
    record = _Recorder()
    with record.watching(pipe):
        frame = pipe(**arguments, generator=generator).images[0]
    record.tensors["frame"] = torch.from_numpy(np.asarray(frame).copy())
    counts = {"texts": record.texts, "steps": record.steps, "encodes": record.encodes, "decodes": record.decodes}
    counts["opaque_steps"] = record.opaque
    size = {"width": frame.width, "height": frame.height}
    return Reference({"schema": SCHEMA, **about, **size, **counts}, record.tensors)


def denoiser(pipe: Any) -> torch.nn.Module:
    """The part that runs once a step."""
    return pipe.transformer if getattr(pipe, "transformer", None) is not None else pipe.unet


_HELD = (torch.Tensor, Mapping, bool, type(None))  # a number or a word is a mode of its own, and not replayed


class _Recorder:
    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.texts = self.steps = self.encodes = self.decodes = 0
        self.opaque = False  # whether a step was given something that a file of tensors cannot hold

    @contextlib.contextmanager
    def watching(self, pipe: Any) -> Iterator[None]:
        """Record what passes through the pipeline's parts."""
        hook = denoiser(pipe).register_forward_hook(self._step, with_kwargs=True)
        replaced = [
            (pipe, "encode_prompt", self._text),
            (pipe.vae, "encode", self._encode),
            (pipe.vae, "decode", self._decode),
        ]
        for owner, name, watch in replaced:
            setattr(owner, name, watch(getattr(owner, name)))
        try:
            yield
        finally:
            hook.remove()
            for owner, name, _ in replaced:
                delattr(owner, name)  # the class's own method is under it

    def _keep(self, name: str, value: torch.Tensor) -> None:
        self.tensors[name] = value.detach().cpu().clone()

    def _step(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        named = {str(place): value for place, value in enumerate(args)} | dict(kwargs)
        self.opaque |= any(not isinstance(value, _HELD) for value in named.values())
        for name, value in flat_arguments(named):
            self._keep(f"step{self.steps}.in.{name}", value)
        self._keep(f"step{self.steps}.out", output[0])
        self.steps += 1

    def _text(self, inner: Any) -> Any:
        def encode_prompt(*args: Any, **kwargs: Any) -> Any:
            encoded = inner(*args, **kwargs)
            for tensor in text_tensors(encoded):
                self._keep(f"text.{self.texts}", tensor)
                self.texts += 1
            return encoded

        return encode_prompt

    def _encode(self, inner: Any) -> Any:
        def encode(image: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = inner(image, *args, **kwargs)
            self._keep(f"encode{self.encodes}.in", image)
            self._keep(f"encode{self.encodes}.out", result.latent_dist.mean)
            self.encodes += 1
            return result

        return encode

    def _decode(self, inner: Any) -> Any:
        def decode(latents: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = inner(latents, *args, **kwargs)
            self._keep(f"decode{self.decodes}.in", latents)
            self._keep(f"decode{self.decodes}.out", result[0])
            self.decodes += 1
            return result

        return decode


def text_tensors(encoded: Any) -> list[torch.Tensor]:
    """The embeddings among what encode_prompt gives back; position ids are no embeddings."""
    parts = encoded if isinstance(encoded, tuple) else (encoded,)
    return [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point() and part.any()]


def flat_arguments(named: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among a module's arguments, those in mappings as ``outer/inner``."""
    for name, value in named.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", tensor) for inner, tensor in flat_arguments(value))
