"""dltb-stability-sweep: at which anchor blends does the feedback loop settle, when, and at what distance."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ControlOptions, ImageInput, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, number, option, read_options, whole

DESCRIPTION = """\
Runs dltb-distance-feedback over a range of --anchor-blend with everything else fixed: one load of the model for all
passes, one load of the metric for all verdicts. A blend is stable when both its distance to the frame before and its
distance to the original have settled (see dltb-stabilization); the distance of the model's input is not judged. Run it
again to go on where it stopped. Another range joins the table of the first; blends that were made or measured with other
settings are refused there. With --overwrite the blends of the range are made anew; the old ones wait in replaced/ until
then, and if that is interrupted, the same command without --overwrite goes on."""
EPILOG = """\
writes <output-dir>/stability_s<strength>[_control-<control>]/:
stable/a<blend>/ (the two frames that open the plateaus, run.json),
unstable/a<blend>/ (the whole run), stability_sweep.csv (anchor-blend, v_prev, i_prev, v_ref, i_ref: plateau value and first
settled frame of both series) and stability_plot.png, both of all stable blends in that directory

example, without any download:
  dltb-stability-sweep --metric flip --frames 100 --min-blend 0.1 --max-blend 0.9 --step 0.2"""


@dataclass(frozen=True)
class SweepOptions:
    """The range, and the length of every run in it."""

    min_blend: float = option(0.05, "the lowest anchor blend", metavar="A", parse=number(0, 1))
    max_blend: float = option(0.6, "the highest anchor blend", metavar="A", parse=number(0, 1))
    step: float = option(0.05, "the distance between two blends", metavar="A", parse=number(0.001, 1))
    frames: int = option(200, "number of passes of every run, 21 or more", metavar="N", parse=whole(1))


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-stability-sweep."""
    parser = ToolParser(prog="dltb-stability-sweep", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, SweepOptions, "sweep")
    add_options(parser, ModelOptions, "model")
    add_options(parser, ControlOptions, "control")
    add_options(parser, MetricOptions, "metric")
    add_options(parser, OutputOptions, "output", leave_out=("resume",))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        from dltb.runs.feedback import Feedback
        from dltb.runs.inputs import find_input
        from dltb.runs.sweep import blend_range, run_sweep

        sweep = read_options(SweepOptions, args)
        if sweep.min_blend > sweep.max_blend:
            raise UsageError(f"--min-blend {sweep.min_blend:g} is above --max-blend {sweep.max_blend:g}")
        template = Feedback("dltb-stability-sweep", find_input(args.input), sweep.frames, anchor_blend=None)
        blends = list(blend_range(sweep.min_blend, sweep.max_blend, sweep.step))
        groups = (read_options(group, args) for group in (ModelOptions, MetricOptions, OutputOptions))
        return run_sweep(template, blends, *groups, control=args.control, given=args.given)

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
