"""dltb-stability-sweep: at which anchor blends does the feedback loop settle, when, and at what distance."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ControlOptions, ImageInput, ModelOptions, OutputOptions
from dltb.args.parser import ToolParser, add_options, number, option, read_options, whole
from dltb.sweeps.execution import ExecutionOptions, add_execution, choose_executor

DESCRIPTION = """\
Runs dltb-distance-feedback over a range of --anchor-blend with everything else fixed: one load of the model for all
passes, one load of the metric for all verdicts. A blend is stable when both its distance to the frame before and its
distance to the original have settled (see dltb-stabilization); the distance of the model's input is not judged. Run it
again to go on where it stopped. Another range joins the table of the first; blends that were made or measured with other
settings are refused there. With --overwrite the blends of the range are made anew; the old ones wait in replaced/ until
then, and if that is interrupted, the same command without --overwrite goes on. With --workers or --ray blends run side by
side, as the legs of dltb-sweep do."""
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
    add_execution(parser, leave_out=("retries", "keep_going"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""
    return run_tool(lambda: run(build_parser().parse_args(argv)))


def run(args: argparse.Namespace) -> int:
    """Run with parsed flags, here or, with --workers or --ray, as the legs of a grid."""
    sweep = read_options(SweepOptions, args)
    if sweep.min_blend > sweep.max_blend:
        raise UsageError(f"--min-blend {sweep.min_blend:g} is above --max-blend {sweep.max_blend:g}")
    if args.workers is None and args.ray is None:
        if "threads" in args.given:
            raise UsageError("--threads goes with --workers or --ray; without them OMP_NUM_THREADS says it")
        return sweep_blends(args, sweep)
    from dltb.sweeps.drive import Conditions
    from dltb.sweeps.stability import feedback_settings, make_legs
    from dltb.sweeps.work import pinned_threads

    execution = read_options(ExecutionOptions, args)
    settings = feedback_settings({name: getattr(args, name) for name in args.given} | {"frames": sweep.frames})
    choose = partial(choose_executor, execution, ray=args.ray)
    conditions = Conditions(execution.threads)
    with pinned_threads(execution.threads):  # this process judges by the settings that the others run under
        return sweep_blends(args, sweep, make_legs(settings, choose, conditions, anew=args.overwrite))


def sweep_blends(args: argparse.Namespace, sweep: SweepOptions, make_elsewhere: Callable | None = None) -> int:
    """Run, measure, judge and sort the blends of the range."""
    from dltb.runs.feedback import Feedback
    from dltb.runs.inputs import find_input
    from dltb.runs.sweep import blend_range, run_sweep

    template = Feedback("dltb-stability-sweep", find_input(args.input), sweep.frames, anchor_blend=None)
    blends = list(blend_range(sweep.min_blend, sweep.max_blend, sweep.step))
    groups = (read_options(group, args) for group in (ModelOptions, MetricOptions, OutputOptions))
    return run_sweep(template, blends, *groups, control=args.control, given=args.given, make_elsewhere=make_elsewhere)


if __name__ == "__main__":
    sys.exit(main())
