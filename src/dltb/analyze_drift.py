"""dltb-drift: how far a run's frames move, in pixels, from one to the next and from the source."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

if TYPE_CHECKING:
    from dltb.metrics.pixel import Drift

DESCRIPTION = """\
Measure the pixel drift of a run and write drift_metrics.csv next to its frames folder, one row a frame:

  frame            name of the file without .png
  delta_prev       mean absolute difference to the frame before it, 0..255; 0 in the first row
  delta_original   the same to the run's frame_0000_original.png or frame_0000_source.png, else to the first frame

The summary gives the means over the last 10 frames and the peaks, and says CONVERGED when the mean delta_prev is below
0.5. Frames of failure tails are left out. A loop can chatter in pixels and look settled: pixels are not perception.
"""

EPILOG = """\
example:
  dltb-drift untracked/output_tiny_turbo/test_512_free-running/frames
  dltb-drift untracked/output_tiny_turbo/test_512_free-running --every 5
"""


@dataclass(frozen=True)
class DriftOptions:
    """What dltb-drift is asked for."""

    source: str = option(
        "", "the folder of frames, or the run directory that holds it", metavar="FRAMES_DIR", positional=True
    )
    every: int = option(
        1, "take every Nth saved frame; delta_prev is then to the frame taken before", metavar="N", parse=whole(1)
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-drift."""
    parser = ToolParser(prog="dltb-drift", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, DriftOptions, "drift")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-drift and return its exit code."""
    return run_tool(lambda: analyze(read_options(DriftOptions, build_parser().parse_args(argv))))


def analyze(options: DriftOptions) -> None:
    """Measure, write the table, print the summary."""
    from dltb.imaging.folder import find_frames, find_reference, list_frames, run_directory
    from dltb.metrics.tables import write_csv

    if not options.source:
        raise UsageError("the path is empty; give a frames folder or a run directory")
    frames = find_frames(options.source)
    sequence = list_frames(frames)
    if not sequence.paths:
        raise UsageError(f"no frames of the main loop in {frames}, only tails")
    paths = sequence.paths[:: options.every]
    reference = find_reference(frames)
    rows = measure(paths, reference)
    out = run_directory(frames) / "drift_metrics.csv"
    cells = (
        (path.stem, f"{row.delta_prev:.6f}", f"{row.delta_original:.6f}") for path, row in zip(paths, rows, strict=True)
    )
    write_csv(out, ("frame", "delta_prev", "delta_original"), cells)
    print(f"{out}: {len(rows)} frames against {(reference or paths[0]).name}")
    if sequence.gaps:
        print(f"NOTE: missing frames: {sequence.describe_gaps()}")
    print(summary_text(paths, rows))


def measure(paths: Sequence[Path], reference: Path | None) -> list["Drift"]:
    """The drift of every frame, in the order of the paths."""
    from dltb.imaging.folder import common_size
    from dltb.imaging.frames import read_image
    from dltb.metrics.pixel import drift
    from dltb.output.progress import watched

    common_size([*paths, reference] if reference else paths)
    frames = map(read_image, watched(paths, "drift", "frames"))
    return list(drift(frames, read_image(reference) if reference else None))


def summary_text(paths: Sequence[Path], rows: list["Drift"]) -> str:
    """Means, peaks and verdict for a reader."""
    from dltb.metrics.pixel import CONVERGED_BELOW, summarize

    summary = summarize(rows)
    prev, original = summary.peak_prev, summary.peak_original
    lines = [
        f"last {summary.last}: mean delta_prev {summary.delta_prev:.3f}, "
        f"mean delta_original {summary.delta_original:.3f}",
        f"peak delta_prev {rows[prev].delta_prev:.3f} at {paths[prev].stem}, "
        f"peak delta_original {rows[original].delta_original:.3f} at {paths[original].stem}",
    ]
    if summary.converged:
        lines.append(f"CONVERGED: mean delta_prev is below {CONVERGED_BELOW}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
