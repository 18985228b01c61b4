"""dltb-distance: how far a run's frames look, to an eye or a model of one, from each other and from the source."""

import argparse
import sys

from dltb.args.errors import run_tool
from dltb.args.metric_options import DistanceOptions, MetricOptions
from dltb.args.parser import ToolParser, add_options, read_options

DESCRIPTION = """\
Measure the perceptual distance of a run's frames and write distance_metrics.csv next to its frames folder, one row a
frame:

  frame             name of the file without .png
  dreamsim_to_ref   distance to the run's frame_0000_original.png or frame_0000_source.png, else to the first frame
  dreamsim_to_prev  distance to the frame taken before it; empty in the first row
  dreamsim_to_lag   distance to the frame taken K before it (--lag); empty in the first K rows
  dreamsim_to_other with --against: distance to the frame of the same number in the other run; empty where it has none
  dreamsim_input_to_ref, in the tables of dltb-distance-feedback: distance of the model's input of that pass to the
                    prepared original
  lab_l lab_a lab_b mean CIELAB: lightness 0..100, green to red, blue to yellow
  saturation        mean HSV saturation, 0..255
  clipped           share of values that are 0 or 255
  detail            mean magnitude of the Laplacian of the grey levels

With another --metric its name stands in the columns. Every distance is 0 for identical frames and grows with the
difference:

  dreamsim  0..2     learned from what people find similar; sees content, tells little of small pixel noise
  flip      0..1     what an eye sees when it alternates between the two frames
  ssim      0..2     1 - SSIM: structure in small windows
  ms-ssim   0..1     1 - MS-SSIM: the same at five scales; frames of at least 161 px
  pixel     0..255   mean absolute difference, as in dltb-drift

The summary gives the means over the last 10 frames and the peaks. It says CONVERGED when the mean distance to the frame
before is below --converged-below. It says CYCLE when the run ends in a loop of 2 to 16 frames: pixels that move by half a
level or more on average, and come back to within a fifth of that. A cycle that the metric hardly sees is called both.
With --against it says how fast the two runs part: the rate of the distance per pass while it grows freely, a finite-time
Lyapunov exponent when the metric is pixel. Only frames that differ by half a level or more count for it, since smaller
differences are lost in rounding to 8 bits. Frames of failure tails are left out. The table does not say which DreamSim,
--every, --lag or --patch it was made with: give it a name of its own with --out, or keep those settings with --json.
"""

EPILOG = """\
example:
  dltb-distance untracked/output_tiny_turbo/test_512_free-running
  dltb-distance untracked/output_tiny_turbo/test_512_free-running --metric flip --json flip.json
  dltb-distance run_a --against run_b --metric pixel
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-distance."""
    parser = ToolParser(prog="dltb-distance", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, DistanceOptions, "frames and files")
    add_options(parser, MetricOptions, "metric")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-distance and return its exit code."""

    def work() -> None:
        parsed = build_parser().parse_args(argv)
        from dltb.runs.distance import measure_folder

        options, metric = read_options(DistanceOptions, parsed), read_options(MetricOptions, parsed)
        measure_folder(options, metric, given=parsed.given)

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
