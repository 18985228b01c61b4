"""What ran where: the part of run.json that explains why two runs of equal flags may differ."""

import importlib.metadata
import platform
from typing import Any

import dltb

_PACKAGES = {
    "torch": "torch",
    "diffusers": "diffusers",
    "transformers": "transformers",
    "numpy": "numpy",
    "opencv": "opencv-python-headless",
    "av": "av",
    "pillow": "pillow",
}


def describe_environment(device: str) -> dict[str, Any]:
    """Device, versions and threads, as JSON values."""
    import torch

    return {
        "device": device,
        "device_name": _device_name(device),
        "generator_device": device,
        "torch_threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "versions": {"dltb": dltb.__version__, "python": platform.python_version(), **_package_versions()},
    }


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    # With the instruction set that torch's CPU kernels use: another one rounds differently.
    return f"{platform.processor() or platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _package_versions() -> dict[str, str | None]:
    """The installed version of each package; None where it is missing."""
    found: dict[str, str | None] = {}
    for name, distribution in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
