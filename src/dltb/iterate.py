"""dltb-iterate: a free run; each pass eats the frame that the pass before it made."""

import argparse
import sys
from collections.abc import Callable, Sequence

from dltb.args.errors import run_tool
from dltb.args.options import ControlOptions, ImageInput, IterateOptions, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, read_options

DESCRIPTION = """\
A free run from a still image: P_n = f(P_{n-1}). Nothing fresh reaches the model after the first pass, so whatever it
does to a frame compounds. This is the loop with nothing to hold it; dltb-continuous is the loop with an anchor."""
EPILOG = """\
writes <output-dir>/<stem>_free-running/: frame_0000_original.png, frames/frame_NNNN.png, timelapse.mp4, run.json,
steps.jsonl. Measure it with dltb-drift <that directory>/frames.

example: dltb-iterate --iterations 60 --prompt "an oil painting" --output-dir untracked/oil"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-iterate."""
    parser = ToolParser(prog="dltb-iterate", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, IterateOptions, "loop")
    add_options(parser, ModelOptions, "model")
    add_options(parser, ControlOptions, "control")
    add_options(parser, OutputOptions, "output")
    return parser


def run(args: argparse.Namespace, *, load: Callable | None = None) -> int:
    """Run with parsed flags; ``load`` lends a model that is loaded already."""
    from dltb.runs.still import run_iterate

    groups = (read_options(group, args) for group in (IterateOptions, ModelOptions, OutputOptions))
    return run_iterate(args.input, *groups, control=args.control, given=args.given, load=load)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
