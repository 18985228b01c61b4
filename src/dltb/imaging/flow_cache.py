"""Flows kept on disk by what the frames hold, for runs that feed the same clip again.

A flow is named by the bytes of its two frames and all that decides its values (directions, parameters, OpenCV's version).
What is read back is what was written, bit for bit; a damaged file counts as missing.
"""

import hashlib
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dltb import UsageError
from dltb.imaging.atomic import write_error
from dltb.imaging.flow import Flow

VERSION = 1  # of the files
MEASURES = ("warp_error", "motion_px")


def check_folder(folder: Path | str) -> None:
    """Refuse a place that cannot be a folder, before anything loads; nothing is made yet."""
    path = Path(folder)
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"--flow-cache {folder}: {there} is a file, not a folder; give another folder")


class FlowCache:
    """``cache(previous, current)`` gives what ``estimate(previous, current)`` would, from the folder where it is there."""

    def __init__(self, folder: Path | str, estimate: Callable[[np.ndarray, np.ndarray], Flow], *, kind: str) -> None:
        """``kind`` names all that decides what ``estimate`` makes of two frames, see ``flow.identity``."""
        self.folder = Path(folder)
        self._estimate = estimate
        self._how = f"{VERSION} {kind}".encode()
        check_folder(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--flow-cache {folder}: {error.strerror}; give another folder") from None

    def __call__(self, previous: np.ndarray, current: np.ndarray) -> Flow:
        path = self.folder / f"{self._name(previous, current)}.npz"
        flow = _read(path)
        if flow is None:
            flow = self._estimate(previous, current)
            _write(path, flow)
        return flow

    def _name(self, previous: np.ndarray, current: np.ndarray) -> str:
        digest = hashlib.sha256(self._how)
        for frame in (previous, current):
            digest.update(f"{frame.shape} {frame.dtype}".encode())
            digest.update(np.ascontiguousarray(frame))
        return digest.hexdigest()[:40]


def _read(path: Path) -> Flow | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            measured = {name: float(kept[name]) for name in MEASURES if name in kept}
            return Flow(forward=kept["forward"], backward=kept.get("backward"), **measured)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write(path: Path, flow: Flow) -> None:
    known = {name: getattr(flow, name) for name in ("forward", "backward", *MEASURES)}
    arrays = {name: np.asarray(value) for name, value in known.items() if value is not None}
    # A name of its own: two runs may write the same flow at once.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)
