"""Models: the table, the checks that need no torch, the device choice and the loading.

Importing this package imports nothing heavy; each name below is looked up on first use.
"""

from dltb import lazy_exports

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

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
