"""--where: the time of each stage of a pass, and of the kernels by kind."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed.device import synchronise
from dltb.imaging.passes import call_options, make_generator


def stage_times(
    pipe: Any, choice: Any, frames: list[np.ndarray], profile: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Median ms of the whole call and, in other passes, of each stage from idle to idle; kernels by kind."""
    from dltb.models.direct.engine import make_engine

    settings, device = choice.settings, choice.device
    engine = make_engine(
        pipe,
        choice.spec,
        call_options(choice.spec, settings),
        profile=profile,
        size=(settings.width, settings.height),
    )
    direct, spent = engine.call, {"pass": []}

    def one_pass() -> None:
        nonlocal frames
        frames = [np.roll(frame, 1, axis=0) for frame in frames]  # or references are remembered
        direct(frames, make_generator(device, 1)).pixels.cpu()

    for _ in range(6):
        started = time.perf_counter()
        one_pass()
        spent["pass"].append((time.perf_counter() - started) * 1000)
    kernels = kernel_times(one_pass) if device == "cuda" else {}
    for name in ("encode", "denoise", "decode"):
        setattr(direct, name, timed_stage(getattr(direct, name), spent.setdefault(name, []), device))
    for _ in range(3):
        one_pass()
    return {name: round(statistics.median(values[1:]), 2) for name, values in spent.items()}, kernels


KINDS = {  # of kernels, by words in their names; the first that fits. Triton's names list all that is fused in them
    "compiled": ("triton",),
    "attention": ("flash", "sdpa", "fmha", "attention"),
    "convolution": ("conv", "fprop", "dgrad", "implicit", "xmma_nhwc"),
    "matrix product": ("gemm", "nvjet", "cutlass", "cublas", "splitk"),
    "copies": ("memcpy", "memset", "nchwtonhwc", "nhwctonchw", "cat", "copy"),
}


def kind_of(kernel: str) -> str:
    """The kind of a kernel, by its name."""
    name = kernel.lower()
    return next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "other elementwise")


def kernel_times(work: Callable[[], None]) -> dict[str, float]:
    """Device ms of one call by kind of kernel, and the number of kernels."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    times: dict[str, float] = {"kernels": 0}
    for event in profiler.events():
        kind = kind_of(event.name)
        times[kind] = times.get(kind, 0) + event.device_time / 1000
        times["kernels"] += 1
    return {kind: round(ms, 2) for kind, ms in times.items()}


def timed_stage(stage: Callable, spent: list[float], device: str) -> Callable:
    """The stage with the time it takes, from an idle device to an idle device, appended to ``spent``."""

    def timed(*tensors: Any) -> Any:
        synchronise(device)
        started = time.perf_counter()
        result = stage(*tensors)
        synchronise(device)
        spent.append((time.perf_counter() - started) * 1000)
        return result

    return timed
