"""The clip of the study: the courtyard, rendered once with its exact motion, and played there and back."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import av
import numpy as np

from dltb.imaging.flow import Flow

RENDERED = 48  # frames, at 24 a second


@dataclass(frozen=True)
class World:
    """The rendered clip, its truth both ways, and the order in which it is played."""

    folder: Path
    frames: np.ndarray  # uint8 [RENDERED, S, S, 3]
    flows: dict[tuple[int, int], Flow]  # (frame, frame before) -> exact motion, hidden

    def order(self, passes: int) -> list[int]:
        """Numbers of the rendered frames, there and back."""
        there = list(range(RENDERED))
        return [(there + there[-2:0:-1])[n % (2 * RENDERED - 2)] for n in range(passes)]


@cache
def open_world(out: Path, size: int) -> World:
    """The rendered world; read once by every process."""
    return make_world(out, size)


def make_world(out: Path, size: int) -> World:
    """Render the courtyard with its motion forwards and backwards; once."""
    path = out / f"courtyard_{size}.npz"
    if not path.exists():
        print(f"rendering {RENDERED} frames at {size} px ...", flush=True)
        from training.courtyard import Renderer

        renderer = Renderer(size, size, supersampling=2, seconds=RENDERED / 24)
        arrays = {"frames": np.stack([(renderer.frame(n / 24) * 255 + 0.5).astype(np.uint8) for n in range(RENDERED)])}
        for a, b in pairwise(range(RENDERED)):
            for now, before in ((b, a), (a, b)):
                truth = renderer.ground_truth(now / 24, before / 24)
                arrays[f"mv_{now}_{before}"], arrays[f"visible_{now}_{before}"] = truth.motion, truth.visible
        np.savez(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as arrays:
        pairs = [tuple(map(int, name.split("_")[1:])) for name in arrays.files if name.startswith("mv_")]
        flows = {(a, b): Flow(-arrays[f"mv_{a}_{b}"], hidden=~arrays[f"visible_{a}_{b}"]) for a, b in pairs}
        return World(out, arrays["frames"], flows)


def write_clip(world: World, passes: int) -> tuple[Path, Path]:
    """The clip as lossless video and its vectors as files, played to ``passes`` frames."""
    clip, vectors = world.folder / f"clip{passes}.mkv", world.folder / f"mv{passes}"
    order = world.order(passes)
    if not clip.exists():
        write_lossless(clip, (world.frames[n] for n in order), world.frames.shape[1])
    vectors.mkdir(exist_ok=True)
    for number, (now, before) in enumerate(zip(order[1:], order[:-1], strict=True), 2):
        flow, target = world.flows[now, before], vectors / f"mv_{number:05d}.npz"
        once = world.folder / f"pair_{now}_{before}.npz"
        if not once.exists():
            np.savez_compressed(once, mv=-flow.forward, visible=~flow.hidden)
        if not target.exists():
            os.link(once, target)
    return clip, vectors


def write_lossless(path: Path, frames: Iterator[np.ndarray], size: int) -> None:
    """FFV1 in RGB: what is read is what was written; frames are size x size px."""
    part = path.with_suffix(".part.mkv")
    with av.open(str(part), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(24))
        stream.pix_fmt, stream.width, stream.height = "bgr0", size, size
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="bgr0")))
        container.mux(stream.encode())
    part.replace(path)
