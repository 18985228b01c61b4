"""Frames and what is done to them: reading, flow, warp, and the pass of a model over one frame.

Importing this package imports nothing heavy; each name below is looked up on first use.
"""

from dltb import lazy_exports

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

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
