"""The memory of a device, as torch counts it: what is taken now, the highest so far, what there is, and a lower limit.

All numbers are bytes. On CUDA they are this process's tensors and what torch's allocator holds for them; the CUDA context
(some hundred MB) comes on top. MPS has no counter of the highest, so it is read between passes. On the CPU they are the
process's resident set, everything included.
"""

import gc
import os
import resource
import sys
from dataclasses import dataclass

from dltb import UsageError

GIB = 2**30


@dataclass(frozen=True)
class Usage:
    """Bytes on a device."""

    allocated: int  # in tensors
    reserved: int  # held by torch's allocator, free blocks included; another process cannot have them


def used_now(device: str) -> Usage:
    """What this process holds."""
    import torch

    if device == "cuda":
        return Usage(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
    if device == "mps":
        return Usage(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())
    return _peak_resident()


def used_at_most(device: str) -> Usage:
    """The highest since ``forget_peak``; on MPS what is held now, on the CPU the highest of the process's life."""
    import torch

    if device == "cuda":
        return Usage(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    return used_now(device)


def _peak_resident() -> Usage:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Usage(peak, peak)


def forget_peak(device: str) -> None:
    """Start counting the highest anew, where that can be done."""
    import torch

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def installed(device: str) -> int:
    """What the device has in all; on MPS what Metal recommends to stay below."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_properties(0).total_memory
    if device == "mps":
        return torch.mps.recommended_max_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def limit(device: str, size: float) -> None:
    """Let this process have no more than ``size`` bytes of the device, as if it were smaller.

    Raises:
        UsageError: where that cannot be done.
    """
    import torch

    if device != "cuda":
        raise UsageError(f"--card-gb imitates a smaller card with CUDA only; the device here is {device}")
    if size > installed(device):
        raise UsageError(f"--card-gb {size / GIB:g}: this card has {installed(device) / GIB:.1f} GiB")
    torch.cuda.set_per_process_memory_fraction(size / installed(device))


def release(device: str) -> None:
    """Give back what nothing refers to any more."""
    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    elif device == "mps":
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that the device is full."""
    while error is not None:
        # torch.OutOfMemoryError says so too; MPS raises a plain RuntimeError.
        if "out of memory" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False
