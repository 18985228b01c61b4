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
WORTH_A_CHANGE = 0.95  # of the time of PyTorch's own choice; below that a difference is noise
CONVOLUTIONAL_BLOCKS = ("ResnetBlock2D", "BasicTransformerBlock")
SHAPES = 64  # of one class of blocks in a model: widths times resolutions


def compile_modules(direct: Direct) -> None:
    """Compile the repeated blocks of a direct path's modules in place; each is compiled when it first runs.

    Blocks, not whole networks: one is compiled for every shape, and all others of its class and shape share the code, which
    takes a fraction of the time. What lies between them runs as it is, from the same CUDA graph.
    """
    if direct.device.type == "cuda":
        # Timed choice of convolution kernels: shapes never change here.
        torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    direct.relax()
    for module in (direct.vae.encoder, direct.vae.decoder, getattr(direct.pipe, "unet", None)):
        if module is not None:
            module.to(memory_format=torch.channels_last)
            _compile_blocks(module, CONVOLUTIONAL_BLOCKS)
    if direct.compiles_denoiser and hasattr(direct.pipe, "transformer"):
        _compile_blocks(direct.pipe.transformer, tuple(direct.pipe.transformer._repeated_blocks))


def _compile_blocks(network: torch.nn.Module, names: tuple[str, ...]) -> None:
    for block in network.modules():
        # A pipeline may be set up again, for another run.
        if type(block).__name__ in names and block._compiled_call_impl is None:
            block.compile(dynamic=False, fullgraph=True)


def choose_attention(direct: Direct, height: int, width: int) -> str | None:
    """Time PyTorch's attention kernels on this model's shape and set the fastest; None where there is no choice."""
    shape = direct.attention_shape(height, width)
    if direct.device.type != "cuda" or shape is None:
        return None
    transformer = direct.pipe.transformer
    query = torch.randn(shape, device=direct.device, dtype=transformer.dtype)
    times = {name: _attention_ms(name, query) for name in ATTENTION_BACKENDS}
    best = min(times, key=times.__getitem__)
    if times[best] > WORTH_A_CHANGE * times["native"]:
        best = "native"
    transformer.set_attention_backend(best)  # "native" too: a pipeline may have been set up before
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
