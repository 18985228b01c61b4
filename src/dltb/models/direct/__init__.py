"""The direct path: a pass bit for bit as ``pipe(...)`` makes it, without what is the same on every pass.

One adapter per pipeline family. Prompt embeddings, schedules, position ids and the conversion table are made once; what
depends on the frame goes through three stages, encode, denoise and decode, that a profile may wrap. Only loaded on use.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from dltb.models.direct.base import Direct, Wrap, unwrapped

# Pipeline class -> module here and class in it: a family's module imports that family's pipeline, which takes seconds.
ADAPTERS: Mapping[str, tuple[str, str]] = {
    "StableDiffusionImg2ImgPipeline": ("stable_diffusion", "StableDiffusion"),
    "StableDiffusionXLImg2ImgPipeline": ("stable_diffusion", "StableDiffusionXL"),
    "FluxImg2ImgPipeline": ("flux", "FluxImg2Img"),
    "Flux2KleinPipeline": ("klein", "Klein"),
    "Flux2KleinKVPipeline": ("klein", "KleinKV"),
}


def find_adapter(pipe: Any) -> type[Direct] | None:
    """The class that knows this pipeline, if any."""
    home = ADAPTERS.get(type(pipe).__name__)
    return None if home is None else getattr(importlib.import_module(f"{__name__}.{home[0]}"), home[1])


def make_direct(pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> Direct | None:
    """The direct path of a loaded pipeline under the options of ``passes.call_options``.

    Returns:
        None where the pipeline has something in it that no adapter knows (a safety checker, classifier-free guidance in an
        undistilled klein, ...): such a pipeline is called as it comes.
    """
    adapter = find_adapter(pipe)
    return adapter(pipe, options, wrap=wrap) if adapter is not None and adapter.covers(pipe, options) else None


def embedded_options(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the prompts replaced by their embeddings, made here, once.

    For a pipeline that is called as it comes: the text encoder then never moves to the device again.
    """
    adapter = find_adapter(pipe)
    return dict(options) if adapter is None else adapter.embedded(pipe, options)
