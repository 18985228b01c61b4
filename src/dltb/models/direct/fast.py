"""The fast profile: compiled modules in channels-last, and the attention kernel that a probe finds fastest.

Same arithmetic, other kernels and so other rounding. Modules are compiled for the shapes they meet, nothing is dynamic: a
loop meets two at most, one reference and two.
"""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from dltb.models.direct.base import Direct

ATTENTION_BACKENDS = ("native", "_native_cudnn", "_native_flash")  # diffusers' names for PyTorch's own kernels
PROBES = 5


def compile_modules(direct: Direct) -> None:
    """Prepare the modules of a direct path in place; each is compiled when it first runs."""
    if direct.device.type == "cuda":
        # Timed choice of convolution kernels: shapes never change here.
        torch.backends.cudnn.benchmark = True
    direct.relax()
    whole = [direct.vae.encoder, direct.vae.decoder]
    if hasattr(direct.pipe, "unet"):
        whole.append(direct.pipe.unet)
    for module in whole:
        module.to(memory_format=torch.channels_last)
        _compile(module, dynamic=False)
    if direct.compiles_denoiser and hasattr(direct.pipe, "transformer"):
        # The blocks alone: one is compiled, and all others of its class share the code.
        for block in _repeated_blocks(direct.pipe.transformer):
            _compile(block, dynamic=False, fullgraph=True)


def _compile(module: torch.nn.Module, **how: Any) -> None:
    if module._compiled_call_impl is None:  # a pipeline may be set up again, for another run
        module.compile(**how)


def _repeated_blocks(transformer: Any) -> list[torch.nn.Module]:
    return [module for module in transformer.modules() if type(module).__name__ in transformer._repeated_blocks]


def choose_attention(direct: Direct, height: int, width: int) -> str | None:
    """Time PyTorch's attention kernels on this model's shape and set the fastest; None where there is no choice."""
    shape = direct.attention_shape(height, width)
    if direct.device.type != "cuda" or shape is None:
        return None
    transformer = direct.pipe.transformer
    query = torch.randn(shape, device=direct.device, dtype=transformer.dtype)
    times = {name: _attention_ms(name, query) for name in ATTENTION_BACKENDS}
    best = min(times, key=times.__getitem__)
    if best != "native":
        transformer.set_attention_backend(best)
    return f"{best} (probe: {', '.join(f'{name} {ms:.2f} ms' for name, ms in times.items())})"


def _attention_ms(name: str, query: torch.Tensor) -> float:
    from diffusers.models.attention_dispatch import attention_backend, dispatch_attention_fn

    try:
        with attention_backend(name), torch.no_grad():
            return _median_ms(lambda: dispatch_attention_fn(query, query, query))
    except (RuntimeError, ValueError):
        return float("inf")  # this kernel is not built in, or takes no such shape


def _median_ms(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(PROBES + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:])
