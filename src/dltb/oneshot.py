"""dltb-oneshot: one image, one pass."""

import argparse
import sys
from collections.abc import Callable, Sequence

from dltb.args.errors import run_tool
from dltb.args.options import ImageInput, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, read_options

DESCRIPTION = """\
One image through the model once: the anchored loop reduced to its fixed point. (With a fixed seed an anchored loop over
a still image repeats this very frame, so one pass says everything.)"""
EPILOG = """\
writes <output-dir>/<stem>_oneshot/: frame_0000_original.png (the input as the model gets it), frames/frame_0001.png,
run.json (settings, versions, what really ran), steps.jsonl

example: dltb-oneshot --input input_example/seeding_512.png --prompt "an oil painting" --strength 0.8"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-oneshot."""
    parser = ToolParser(prog="dltb-oneshot", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, ModelOptions, "model")
    add_options(parser, OutputOptions, "output")
    return parser


def run(args: argparse.Namespace, *, load: Callable | None = None) -> int:
    """Run with parsed flags; ``load`` lends a model that is loaded already."""
    from dltb.runs.still import run_oneshot

    groups = (read_options(group, args) for group in (ModelOptions, OutputOptions))
    return run_oneshot(args.input, *groups, given=args.given, load=load)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
