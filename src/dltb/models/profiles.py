"""Speed profiles: what may be traded for time, as names and checks that need no model.

``exact`` gives the bits of diffusers' own call. ``fast`` does the same arithmetic with other kernels, which round otherwise,
and ``fp8`` also multiplies in 8 bits; a loop that feeds itself amplifies both, so neither is ever chosen silently.
"""

import os
import shutil

from dltb import UsageError
from dltb.models.table import ModelSpec

PROFILES = ("exact", "fast", "fp8")
FP8_CAPABILITY = (8, 9)  # CUDA compute capability from which on tensor cores multiply float8 (Ada, Hopper)


def check_profile(profile: str, spec: ModelSpec, *, device: str, offload: bool = False) -> None:
    """Refuse a profile that cannot work here, before anything loads."""
    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    if profile == "exact":
        return
    if offload:
        raise UsageError(f"--profile {profile} wants the model to stay on the device: leave --offload away")
    if profile == "fp8":
        _check_fp8(spec, device)
    elif device == "mps":
        raise UsageError("--profile fast runs on CUDA and on the CPU, not on MPS: use the exact profile")
    elif device == "cpu":
        _check_compiler()


def _check_fp8(spec: ModelSpec, device: str) -> None:
    if device != "cuda":
        raise UsageError(f"--profile fp8 needs a CUDA device of compute capability 8.9 or newer, not {device.upper()}")
    if not spec.has_transformer:
        raise UsageError(f"--profile fp8 has nothing to do in {spec.key}, a model of convolutions: use --profile fast")
    import torch

    found = torch.cuda.get_device_capability()
    if found < FP8_CAPABILITY:
        raise UsageError(
            f"--profile fp8 needs compute capability 8.9 or newer; {torch.cuda.get_device_name()} has "
            f"{found[0]}.{found[1]}: use --profile fast"
        )


def _check_compiler() -> None:
    """torch.compile builds its CPU kernels with the system's C++ compiler."""
    compiler = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([compiler] if compiler else ["g++", "clang++", "c++"])):
        raise UsageError(
            f"--profile fast on the CPU needs a C++ compiler ({compiler or 'g++'} is not found): install g++, or use the "
            "exact profile"
        )
