"""Frames and what is done to them: reading, flow, warp, and the pass of a model over one frame.

Importing this package imports nothing heavy; each name below is looked up on first use.
"""

import importlib
from typing import Any

_HOMES = {
    "PassSettings": "passes",
    "make_generator": "passes",
    "run_pass": "passes",
    "make_generate": "passes",
    "prepare_frame": "frames",
    "estimate_flow": "flow",
    "make_reprojector": "warp",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
