"""dltb-continuous: a clip through the model with carried state, and what happens when the clip ends."""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence

from dltb.args.errors import run_tool
from dltb.args.options import (
    ControlOptions,
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
A renderer's loop around a diffusion model: each source frame N_n is processed once, together with what the model made
of the frame before it, moved to where things are now:

  P_n = f((1-a) warp(P_{n-1}) + a N_n)

--mode anchored leaves the state out (every frame on its own: the boil test); --anchor-blend sets a. After the clip,
--tail-frames goes on from the shared end state in each of --tail-modes: what the loop does when its input freezes, goes
away, or turns black."""
EPILOG = """\
writes <output-dir>/<stem>_<mode tag>[_tails<modes><N>]/, where the mode tag is anchored or
stateful-a<blend>[-norepro|-fbmask][-mv|-dis|-raft|-none][-vismask][-in-<methods>][-out-<methods>]:
frame_0000_source.png, frames/frame_NNNN.png (every Nth pass),
processed_<mode>.mp4 at the clip's frame rate, end_state.png, tail_<mode>.mp4, frames/<mode> frame_NNNN.png, run.json,
steps.jsonl

examples:
  dltb-continuous                                   the example clip on the embedded model
  dltb-continuous --mode anchored                   the same without a state
  dltb-continuous --tail-frames 60 --tail-modes freeze,free,black"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-continuous."""
    parser = ToolParser(prog="dltb-continuous", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, VideoInput, "input")
    add_options(parser, VideoOptions, "loop", leave_out=("conditioning", "ref_order"))
    add_options(parser, MotionOptions, "motion")
    add_options(parser, HistoryOptions, "history")
    add_options(parser, ScheduleOptions, "schedules")
    add_options(parser, ModelOptions, "model")
    add_options(parser, ControlOptions, "control")
    add_options(parser, SpeedOptions, "speed")
    add_options(parser, OutputOptions, "output")
    return parser


def run(args: argparse.Namespace, make_conditioning: Callable | None = None, *, load: Callable | None = None) -> int:
    """Run with parsed flags; ``make_conditioning(args, estimate_flow, warp)`` replaces the blend.

    It gets ``args`` as given here; what it returns is described in dltb.loop.conditioning. ``load`` lends a model.
    """
    from dltb.runs.video import run_video
    from dltb.runs.video_setup import LoopOptions

    groups = (read_options(group, args) for group in (VideoOptions, ModelOptions, OutputOptions))
    beyond = (read_options(group, args) for group in (MotionOptions, HistoryOptions, ScheduleOptions, SpeedOptions))
    own = {"factory": _with_args(make_conditioning, args)} if make_conditioning else {}
    own |= {"given": getattr(args, "given", ()), "control": getattr(args, "control", None), "load": load}
    return run_video("dltb-continuous", args.input, *groups, beyond=LoopOptions(*beyond), **own)


def _with_args(make_conditioning: Callable, args: argparse.Namespace) -> Callable:
    @functools.wraps(make_conditioning)
    def factory(video: VideoOptions, estimate_flow: Callable, warp: Callable) -> tuple[Callable, Callable]:
        return make_conditioning(args, estimate_flow, warp)

    return factory


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
