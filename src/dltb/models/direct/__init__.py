"""The direct path: a pass bit for bit as ``pipe(...)`` makes it, without what is the same on every pass.

One adapter per pipeline family. Prompt embeddings, schedules, position ids and the conversion table are made once; what
depends on the frame goes through three stages, encode, denoise and decode, that a profile may wrap. Only loaded on use.
"""

from collections.abc import Mapping
from typing import Any

from dltb.models.direct.base import Direct, Wrap, unwrapped
from dltb.models.direct.flux import FluxImg2Img
from dltb.models.direct.klein import Klein, KleinKV
from dltb.models.direct.stable_diffusion import StableDiffusion, StableDiffusionXL

ADAPTERS: Mapping[str, type[Direct]] = {
    "StableDiffusionImg2ImgPipeline": StableDiffusion,
    "StableDiffusionXLImg2ImgPipeline": StableDiffusionXL,
    "FluxImg2ImgPipeline": FluxImg2Img,
    "Flux2KleinPipeline": Klein,
    "Flux2KleinKVPipeline": KleinKV,
}


def make_direct(pipe: Any, options: Mapping[str, Any], *, wrap: Wrap = unwrapped) -> Direct | None:
    """The direct path of a loaded pipeline under the options of ``passes.call_options``.

    Returns:
        None where the pipeline has something in it that no adapter knows (a safety checker, classifier-free guidance in an
        undistilled klein, ...): such a pipeline is called as it comes.
    """
    adapter = ADAPTERS.get(type(pipe).__name__)
    return adapter(pipe, options, wrap=wrap) if adapter is not None and adapter.covers(pipe, options) else None


def embedded_options(pipe: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the prompts replaced by their embeddings, made here, once.

    For a pipeline that is called as it comes: the text encoder then never moves to the device again.
    """
    adapter = ADAPTERS.get(type(pipe).__name__)
    return dict(options) if adapter is None else adapter.embedded(pipe, options)
