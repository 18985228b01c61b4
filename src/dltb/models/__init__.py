"""Models: the table, the checks that need no torch, the device choice and the loading.

Importing this package imports nothing heavy; each name below is looked up on first use.
"""

import importlib
from typing import Any

_HOMES = {
    "MODELS": "table",
    "ModelSpec": "table",
    "model_key": "table",
    "check_requirements": "checks",
    "resolve_geometry": "checks",
    "resolve_device": "device",
    "load_pipeline": "loading",
    "describe_environment": "environment",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
