"""Small lossless clips that tests make for themselves, and what they read back."""

import json
from pathlib import Path

import av
import numpy as np
from PIL import Image


def write_clip(path: Path, frames: list[np.ndarray], fps: int = 24) -> Path:
    """An animated PNG: the reader gets the very bytes of ``frames`` (uint8 [H, W, 3])."""
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=1000 // fps, disposal=0, blend=0)
    return path


def sliding_clip(path: Path, picture: np.ndarray, count: int, step: int = 2, size: int = 64) -> Path:
    """A window of ``size`` px that slides over ``picture`` by ``step`` px a frame."""
    frames = [picture[64 : 64 + size, 32 + step * n : 32 + step * n + size] for n in range(count)]
    return write_clip(path, [np.ascontiguousarray(f) for f in frames])


def decoded(path: Path) -> list[np.ndarray]:
    """All frames of a video, as RGB."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def manifest(run: Path) -> dict:
    """The run's run.json."""
    return json.loads((run / "run.json").read_text())


def files(run: Path) -> set[str]:
    """Every file below a run directory."""
    return {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()}


def assert_same_run(first: Path, second: Path) -> None:
    """The same files, the same PNG bytes, and videos that decode to the same frames."""
    assert files(first) == files(second)
    for name in sorted(files(first)):
        if name.endswith(".png"):
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
        elif name.endswith(".mp4"):
            assert np.array_equal(decoded(first / name), decoded(second / name)), name
