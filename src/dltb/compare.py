"""dltb-compare: what differs between runs of one clip, as statistics, since their frames do not stay comparable."""

import argparse
import sys
from dataclasses import asdict, dataclass

from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, number, option, read_options, whole

DESCRIPTION = """\
Compare runs of one clip. The loop amplifies every difference, so runs that differ in one flag soon show different frames:
they are compared by statistics over the frames that all of them saved. Measured on each frame, inside and outside the
disocclusion zones of the source clip (what --reproject-mask would repaint: --reproject-mask's own defaults, on the source
frames n-1 and n, and the same for every run):

  mad          mean absolute difference to the source frame, 0..255
  detail       mean |Laplacian| of the luma, in levels: high in noise and smears with hard edges, low in blur
  saturation   mean S of HSV, 0..255
  delta_prev   mean absolute difference to the frame taken before it: churn
  flicker, warping_error, temporal_flip
               of runs that saved every frame: what changes from frame to frame and does not in the source; the
               difference, and the FLIP (0..1), to the frame before moved along the source's motion, outside the zones

The row "source" is the ground truth. "minus A" (run "B - A" in the CSV) is the difference to the first run over the same
frames, pair by pair; it settles a question when its interval leaves out 0. Intervals: moving-block bootstrap, whose blocks
are as long as a series' autocorrelation asks for; none for fewer than 6 frames. They say how well the mean over these
frames is known; another clip or seed may differ by more, and where a series has a trend it is the mean of this stretch
only.

Writes into --out:

  compare.csv          run, zone, metric, mean, low, high, frames; zones: frame, inside, outside,
                       inside-outside (the difference of the two in each frame), tail <mode>. The source alone has
                       masked_percent and out_of_frame_percent (of a frame's pixels), tails have luma and delta_prev
  compare_curves.csv   curve, frame, value: MAD between frames of equal number, for every pair of runs and for every pair
                       of tails of a run (which start from one state), and the luma of every tail
  compare.png          all of it as a figure; of more than three runs, the pairs with the first (as on stdout)
"""

EPILOG = """\
example, with and without the mask:
  dltb-klein --model tiny-klein --conditioning dual-ref --save-every 1
  dltb-klein --model tiny-klein --conditioning dual-ref --save-every 1 --reproject-mask
  dltb-compare untracked/output_tiny_klein/courtyard_dualref untracked/output_tiny_klein/courtyard_dualref-fbmask
"""


@dataclass(frozen=True)
class CompareOptions:
    """What dltb-compare is asked for, besides the runs."""

    source: str | None = option(
        None,
        "the clip that the runs were made from; not needed for the example clip",
        metavar="VIDEO",
    )
    out: str = option(
        "untracked/compare",
        "folder of the results, made if missing; the same comparison in it is replaced, another one is refused",
        metavar="DIR",
    )
    confidence: float = option(
        0.95, "share of such intervals that hold the mean", metavar="F", parse=number(0.5, 0.999)
    )
    resamples: int = option(1000, "bootstrap samples of each series", metavar="N", parse=whole(100, at_most=100_000))


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-compare."""
    parser = ToolParser(prog="dltb-compare", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run directories of dltb-continuous or dltb-klein")
    add_options(parser, CompareOptions, "comparison")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-compare and return its exit code."""

    def work() -> None:
        parsed = build_parser().parse_args(argv)
        from dltb.runs.comparison import compare_runs

        compare_runs(parsed.runs, **asdict(read_options(CompareOptions, parsed)))

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
