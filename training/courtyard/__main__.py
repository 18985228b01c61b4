"""Writes the courtyard clip: frame_%03d.png, and gt_%03d.npz with mv, depth, id and visible.

mv float16 [H, W, 2] px (previous minus current position), depth float16 [H, W] m, id uint8 [H, W] (255 is the sky),
visible bool [H, W] (also seen in the previous frame). The first frame counts itself as its previous one.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from PIL import Image

from training.courtyard.render import Renderer


def positive(kind):
    """An argparse type: a number above zero."""

    def parse(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    parse.__name__ = kind.__name__  # argparse names the type in its messages
    return parse


def parse_arguments(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.courtyard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="folder to write to (%(default)s)")
    parser.add_argument("--size", type=positive(int), nargs=2, default=(512, 512), metavar=("W", "H"), help="pixels")
    parser.add_argument("--frames", type=positive(int), default=48, help="length of the clip (%(default)s)")
    parser.add_argument("--fps", type=positive(float), default=24, help="frames per second (%(default)s)")
    parser.add_argument("--ss", type=positive(int), default=2, help="rays along each side of a pixel (%(default)s)")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="render only these frames, from 0")
    arguments = parser.parse_args(argv)
    outside = [n for n in arguments.only or () if not 0 <= n < arguments.frames]
    if outside:
        parser.error(f"--only {outside[0]}: the clip has frames 0 to {arguments.frames - 1}")
    return arguments


def write_whole(path, write):
    """Calls `write` with a file of a temporary name and renames it: a file that is there is a whole one."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        write(file)
    part.replace(path)


def write_frame(folder, number, image, truth):
    """The two files of one frame; `image` float [H, W, 3] in 0..1."""
    picture = Image.fromarray((image * 255 + 0.5).astype(np.uint8))
    write_whole(folder / f"frame_{number:03d}.png", lambda file: picture.save(file, format="PNG"))
    arrays = {
        "mv": truth.motion.astype(np.float16),
        "depth": truth.depth.astype(np.float16),
        "id": truth.object_id,
        "visible": truth.visible,
    }
    write_whole(folder / f"gt_{number:03d}.npz", lambda file: np.savez_compressed(file, **arrays))


def report(number, truth, seconds):
    """One line about a frame that has been written."""
    length = np.hypot(truth.motion[..., 0], truth.motion[..., 1])
    print(
        f"frame {number}: {seconds:.2f} s, motion mean {length.mean():.2f} max {length.max():.1f} px,"
        f" newly visible {100 * (~truth.visible).mean():.1f} %",
        flush=True,
    )


def main(argv=None):
    """Renders the clip."""
    arguments = parse_arguments(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    renderer = Renderer(*arguments.size, arguments.ss, arguments.frames / arguments.fps)
    for number in arguments.only or range(arguments.frames):
        started = time.perf_counter()
        t, t_previous = number / arguments.fps, max(number - 1, 0) / arguments.fps
        truth = renderer.ground_truth(t, t_previous)
        write_frame(arguments.out, number, renderer.frame(t), truth)
        report(number, truth, time.perf_counter() - started)
    print(f"frames, motion vectors and visibility: {arguments.out}")


if __name__ == "__main__":
    main()
