"""dltb-distance-loop: a free run and its perceptual distances in one go."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ControlOptions, ImageInput, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

DESCRIPTION = """\
A free run P_n = f(P_{n-1}) from a still image, every pass saved, then measured: how far each frame is from the prepared
original (drift) and from the frame before it (near 0: a perceptual fixed point). The model is unloaded before the metric
loads. For img2img models, those with a strength."""
EPILOG = """\
writes <output-dir>/distance_s<strength>[_control-<control>]/:
frame_0000_original.png, frames/frame_NNNN.png, distance_metrics.csv,
distance_plot.png, dynamics_plot.png (colour, clipping, detail), run.json, steps.jsonl. run.json says whether the run ends
in a cycle and what was measured with; asked for with another --metric, the run keeps its frames and is measured again. The
columns are explained in dltb-distance --help. The directory's name does not hold the image, prompt, steps or seed: give
runs that differ in those an --output-dir of their own.

example, without any download:
  dltb-distance-loop --metric flip --prompt "an oil painting" """


@dataclass(frozen=True)
class LoopOptions:
    """How long the run is."""

    iterations: int = option(60, "number of passes", metavar="N", parse=whole(1))


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-distance-loop."""
    parser = ToolParser(prog="dltb-distance-loop", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, LoopOptions, "loop")
    add_options(parser, ModelOptions, "model")
    add_options(parser, ControlOptions, "control")
    add_options(parser, MetricOptions, "metric")
    add_options(parser, OutputOptions, "output")
    return parser


def run(args: argparse.Namespace, *, load: Callable | None = None) -> int:
    """Run with parsed flags; ``load`` lends a model that is loaded already."""
    from dltb.runs.feedback import Feedback
    from dltb.runs.inputs import find_input
    from dltb.runs.measured import run_measured

    groups = (read_options(group, args) for group in (ModelOptions, MetricOptions, OutputOptions))
    feedback = Feedback("dltb-distance-loop", find_input(args.input), args.iterations, anchor_blend=None)
    return run_measured(feedback, *groups, control=args.control, given=args.given, load=load)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
