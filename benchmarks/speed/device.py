"""The device under the loops: its memory, its switches, its rate."""

import contextlib
import gc
import resource
import statistics
import time
from collections.abc import Iterator
from typing import Any


def synchronise(device: str) -> None:
    """Wait for the device."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """The fast profile switches cuDNN's timing of kernels on; a plain loop has it off."""
    import torch

    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def only(device: str, pipe: Any, peaks: dict[str, float], name: str) -> Iterator[None]:
    """Run one loop, and note the peak of device memory that it adds to its own pipeline's (on the CPU: the process's)."""
    import torch

    if device != "cuda":
        yield
        peaks[name] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        return
    free(device)
    own = sum(
        tensor.numel() * tensor.element_size()
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module)
        for tensor in (*part.parameters(), *part.buffers())
    )
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with cudnn_benchmark(name != "plain" and torch.backends.cudnn.benchmark):
        yield
    peak = (torch.cuda.max_memory_allocated() - before + own) / 2**30
    peaks[name] = round(max(peak, peaks.get(name, 0)), 2)


def free(device: str) -> None:
    """Drop what nobody holds any more."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def matmul_rate(device: str, dtype: Any) -> float:
    """FLOP/s of a large matrix product on random data."""
    import torch

    n = 8192 if device == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(8):
        synchronise(device)
        started = time.perf_counter()
        a @ b
        synchronise(device)
        times.append(time.perf_counter() - started)
    return 2 * n**3 / statistics.median(times[3:])
