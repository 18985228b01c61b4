"""dltb-klein: the video loop for the FLUX.2 klein editors, which take the state as a reference image."""

import argparse
import sys
from collections.abc import Callable, Sequence

from dltb.args.errors import run_tool
from dltb.args.options import (
    HistoryOptions,
    ModelOptions,
    MotionOptions,
    OutputOptions,
    ScheduleOptions,
    SpeedOptions,
    VideoInput,
    VideoOptions,
)
from dltb.args.parser import ToolParser, add_options, read_options

DESCRIPTION = """\
The loop of dltb-continuous on FLUX.2 klein. Klein regenerates each frame from pure noise while it looks at reference
images, so there is no --strength: the prompt decides how much a pass changes, and --num-inference-steps how carefully.
--guidance-scale is inert for these distilled models.

--conditioning blend gives it one image, (1-a) warp(P_{n-1}) + a N_n; dual-ref gives it the two as references of their
own, and lets the model weigh them. Under dual-ref the warp carries the motion: without it the loop tends to freeze.
Prompts are passed on verbatim and name references by number: with state-first, "image 2 is the current frame; keep the
appearance of image 1, slightly enhance the fine details"."""
EPILOG = """\
writes what dltb-continuous writes, into <stem>_stateful-a<blend>[-norepro|-fbmask], <stem>_dualref[-norepro|-fbmask] or
<stem>_anchored (the control with the fresh frame as only reference), each with _tails<modes><N> when tails run

example, on the embedded model:
  dltb-klein --model tiny-klein --conditioning dual-ref --reproject-mask --max-frames 24"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-klein."""
    parser = ToolParser(prog="dltb-klein", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, VideoInput, "input")
    add_options(parser, VideoOptions, "loop", defaults={"anchor_blend": 0.1})
    add_options(parser, MotionOptions, "motion")
    add_options(parser, HistoryOptions, "history")
    add_options(parser, ScheduleOptions, "schedules", leave_out=("strength_schedule",))
    add_options(parser, ModelOptions, "model", defaults={"model": "flux2-klein-4b"}, leave_out=("strength",))
    add_options(parser, SpeedOptions, "speed")
    add_options(parser, OutputOptions, "output")
    return parser


def run(args: argparse.Namespace, *, load: Callable | None = None) -> int:
    """Run with parsed flags; ``load`` lends a model that is loaded already."""
    from dltb.runs.video import run_video
    from dltb.runs.video_setup import LoopOptions

    groups = (read_options(group, args) for group in (VideoOptions, ModelOptions, OutputOptions))
    beyond = (read_options(group, args) for group in (MotionOptions, HistoryOptions, ScheduleOptions, SpeedOptions))
    own = {"given": args.given, "klein_only": True, "load": load}
    return run_video("dltb-klein", args.input, *groups, beyond=LoopOptions(*beyond), **own)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
