"""Where a model runs. A full-size model never lands on the CPU unless it is asked for by name."""

from dltb import UsageError
from dltb.models.table import ModelSpec

DEVICES = ("cuda", "mps", "cpu")


def resolve_device(requested: str | None, spec: ModelSpec) -> str:
    """The device for this run: the one asked for, else cuda, else mps, else the CPU if the model is embedded."""
    available = available_devices()
    if requested is not None:
        return _check_requested(requested, available)
    best = available[0]
    if best != "cpu" or spec.embedded:
        return best
    small = "tiny-klein" if spec.edits_references else "tiny-turbo"
    raise UsageError(
        f"no CUDA or MPS device found for {spec.key}: use --model {small}, which runs on the CPU, "
        "or --device cpu (very slow: minutes to hours a pass)"
    )


def best_device(requested: str | None) -> str:
    """The device for what also runs well on the CPU, a metric: the one asked for, else the best there is."""
    available = available_devices()
    return available[0] if requested is None else _check_requested(requested, available)


def available_devices() -> tuple[str, ...]:
    """What torch can use here, best first; the CPU is always the last."""
    import torch

    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return tuple(device for device in DEVICES if present[device])


def _check_requested(requested: str, available: tuple[str, ...]) -> str:
    if requested not in DEVICES:
        raise UsageError(f"unknown device {requested!r}; known: {', '.join(DEVICES)}")
    if requested not in available:
        raise UsageError(
            f"--device {requested}: torch finds no {requested.upper()} device on this machine; "
            f"available: {', '.join(available)}"
        )
    return requested
