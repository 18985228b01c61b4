"""dltb-distance-feedback: a still image through the stateful loop, measured frame by frame and input by input."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ControlOptions, ImageInput, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, number, option, read_options, whole

DESCRIPTION = """\
The stateful loop of dltb-continuous on an image that never moves: the model's input is (1-a) P_{n-1} + a N, the first one N
alone. --anchor-blend 0 is dltb-distance-loop, frame by frame; 1 repeats fresh passes; in between the run shows how far a
carried state drags the loop from a fresh render of its own input. Frames and inputs are measured against the prepared
original, frames also against the one before. For img2img models, those with a strength."""
EPILOG = """\
writes <output-dir>/feedback_s<strength>_a<blend>[_control-<control>]/:
frame_0000_original.png, frames/frame_NNNN.png, inputs/frame_NNNN.png,
distance_metrics.csv, distance_plot.png, dynamics_plot.png (colour, clipping, detail), run.json, steps.jsonl. run.json says
whether the run ends in a cycle and what was measured with; asked for with another --metric, the run keeps its frames and
is measured again. The columns are explained in dltb-distance --help. The directory's name does not hold the image, prompt,
steps or seed: give runs that differ in those an --output-dir of their own.

example, without any download:
  dltb-distance-feedback --metric flip --anchor-blend 0.3 --frames 60"""


@dataclass(frozen=True)
class FeedbackOptions:
    """The loop around the still image."""

    frames: int = option(200, "number of passes", metavar="N", parse=whole(1))
    anchor_blend: float = option(
        0.3, "share a of the image in the model's input, (1-a) state + a image", metavar="A", parse=number(0, 1)
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-distance-feedback."""
    parser = ToolParser(prog="dltb-distance-feedback", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, FeedbackOptions, "loop")
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
    feedback = Feedback("dltb-distance-feedback", find_input(args.input), args.frames, args.anchor_blend)
    return run_measured(feedback, *groups, control=args.control, given=args.given, load=load)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
