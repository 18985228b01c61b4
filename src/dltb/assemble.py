"""dltb-assemble: encode the PNG frames of a run into videos. Needs no model and no accelerator."""

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, frame_rate, option, read_options, whole

if TYPE_CHECKING:
    from dltb.imaging.folder import FrameSequence

DESCRIPTION = """\
Encode the saved frames of a run into mp4 files in the run directory: assembled.mp4 from frames/frame_NNNN.png, and
assembled_tail_<mode>.mp4 from each failure tail's "frames/<mode> frame_NNNN.png".

Frames are taken in the order of their numbers. A run that saved every 10th pass gives a timelapse that plays 10 times
faster than the run; the stride is printed, and so are numbers that are missing. Videos that this tool wrote before are
replaced. It runs on the CPU, without torch, so a run directory can be copied home from a rented machine and encoded
there.
"""

EPILOG = """\
example:
  dltb-assemble untracked/output_tiny_turbo/test_512_free-running
  dltb-assemble untracked/output_tiny_turbo/courtyard_anchored/frames --fps 24000/1001 --every 2
"""


DEFAULT_FPS = Fraction(30)


@dataclass(frozen=True)
class AssembleOptions:
    """What dltb-assemble is asked for."""

    source: str = option(
        "", "a run directory, or the folder of frames in it", metavar="RUN_DIR|FRAMES_DIR", positional=True
    )
    fps: Fraction = option(
        DEFAULT_FPS, "frames per second of the videos; a fraction is kept exactly", metavar="RATE", parse=frame_rate
    )
    every: int = option(1, "take every Nth saved frame", metavar="N", parse=whole(1))


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-assemble."""
    parser = ToolParser(prog="dltb-assemble", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, AssembleOptions, "assemble")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-assemble and return its exit code."""
    return run_tool(lambda: assemble(read_options(AssembleOptions, build_parser().parse_args(argv))))


def assemble(options: AssembleOptions) -> None:
    """Encode the main loop's frames and every tail's, each into its own video."""
    from dltb.imaging.folder import common_size, find_frames, list_frames, list_tails, run_directory

    if not options.source:
        raise UsageError("the path is empty; give a run directory or its frames folder")
    frames = find_frames(options.source)
    sequences = [s for s in (list_frames(frames), *list_tails(frames).values()) if s.paths]
    sizes = [common_size(sequence.paths) for sequence in sequences]
    for sequence, size in zip(sequences, sizes, strict=True):
        name = f"assembled_tail_{sequence.tail}.mp4" if sequence.tail else "assembled.mp4"
        out = run_directory(frames) / name
        note = encode(sequence, size, out, fps=options.fps, every=options.every)
        print(describe(sequence, out, fps=options.fps, every=options.every))
        if note:
            print(f"NOTE: {note}")


def encode(sequence: "FrameSequence", size: tuple[int, int], out: Path, *, fps: Fraction, every: int) -> str | None:
    """Write one video and return what its writer has to say about the size."""
    from dltb.imaging.frames import read_image
    from dltb.output.identity import described_by
    from dltb.output.mp4 import Mp4Writer
    from dltb.output.progress import watched

    with Mp4Writer(out, *size, fps, comment=described_by(sequence.paths[0])) as writer:
        for path in watched(sequence.paths[::every], out.name, "frames"):
            writer.write(read_image(path))
    return writer.note


def describe(sequence: "FrameSequence", out: Path, *, fps: Fraction, every: int) -> str:
    """`out/assembled.mp4: 20 frames at 30 fps, stride 10 = timelapse, 10x faster; missing: 30-40`."""
    count, stride = len(sequence.paths[::every]), sequence.stride * every
    speed = f"stride {stride} = timelapse, {stride}x faster" if stride > 1 else "stride 1 = every pass"
    missing = f"; missing: {sequence.describe_gaps()}" if sequence.gaps else ""
    return f"{out}: {count} {'frame' if count == 1 else 'frames'} at {fps} fps, {speed}{missing}"


if __name__ == "__main__":
    sys.exit(main())
