"""dltb-sweep: a grid of runs, planned first, on models that are loaded once, with one table of what came of it."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options
from dltb.sweeps.execution import ExecutionOptions, add_execution, choose_executor

DESCRIPTION = """\
Runs a grid of settings over any loop tool. Every leg is an ordinary run directory, in a directory whose name says what the
leg differs in; legs that share a model share one loaded pipeline. Finished legs are skipped, unfinished ones go on, so the
same command again finishes what was interrupted.

GRID is a TOML file, or the name of a preset: blend-sweep, prompt-table, klein-ladder, klein-ladder-dual-ref, klein-mask,
stability."""
EPILOG = """\
a grid file:
  [fixed]                       # every leg; the keys are the tool's flags
  tool = "dltb-continuous"
  max-frames = 24
  [product]                     # every combination is a leg
  anchor-blend = [0.1, 0.3, 1.0]
  prompt = { none = "", oil = "an oil painting" }

writes <output-dir>/<leg>/<run directory of the tool>/, <output-dir>/sweep.csv (one row a leg: settings, status, seconds a
pass, the last values and verdicts of its measures) and sweep.json (the legs). See doc/sweeps.md.

examples:
  dltb-sweep grid.toml --plan
  dltb-sweep grid.toml --workers 2 --keep-going
  dltb-sweep --collect untracked/output_sd_turbo     a table of runs that were made some other way"""


@dataclass(frozen=True)
class SweepOptions:
    """What happens to the grid."""

    plan: bool = option(False, "say what would be done: legs, passes, time, disk; nothing is changed")
    output_dir: str | None = option(
        None, "root of the sweep; the default is untracked/sweep_<name of the grid>", metavar="DIR"
    )
    collect: str | None = option(
        None, "rebuild sweep.csv from the run directories below ROOT, and do nothing else", metavar="ROOT"
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-sweep."""
    parser = ToolParser(prog="dltb-sweep", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("grid", metavar="GRID", nargs="?", help="grid file, or name of a preset")
    add_options(parser, SweepOptions, "sweep")
    add_execution(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then plan, collect or run; returns the exit code."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        sweep = read_options(SweepOptions, args)
        if (args.grid is None) is (sweep.collect is None):
            raise UsageError("give a grid file or a preset's name, or --collect ROOT; one of the two")
        if sweep.collect is not None:
            _refuse_beside_collect(args.given)
            return collect(Path(sweep.collect))
        return run(args.grid, sweep, read_options(ExecutionOptions, args), ray=args.ray)

    return run_tool(work)


def _refuse_beside_collect(given: frozenset[str]) -> None:
    others = sorted(f"--{name.replace('_', '-')}" for name in given - {"collect", "grid"})
    if others:
        raise UsageError(f"--collect ROOT rebuilds the table of ROOT and runs nothing; leave out {', '.join(others)}")


def collect(root: Path) -> int:
    """Rebuild a table."""
    from dltb.output.run_directory import locked
    from dltb.sweeps.root import TABLE
    from dltb.sweeps.table import collect

    with locked(root):
        count = collect(root)
    print(f"{root / TABLE}: {count} runs")
    return 0


def run(grid_text: str, sweep: SweepOptions, execution: ExecutionOptions, *, ray: str | None) -> int:
    """Plan a grid, or carry it out."""
    from dltb.sweeps.drive import Conditions, run_sweep, show_plan
    from dltb.sweeps.grid import read_grid

    grid = read_grid(grid_text)
    if sweep.output_dir == "":
        raise UsageError("--output-dir is empty; give a folder, or leave the flag out")
    root = Path(sweep.output_dir or f"untracked/sweep_{grid.name}")
    if sweep.plan:
        if ray is not None:
            print("NOTE: --plan does not ask the Ray cluster; the time is for --workers legs side by side, or for one")
        show_plan(grid, root, workers=execution.workers or 1)
        return 0
    conditions = Conditions(execution.threads, execution.retries, execution.keep_going)
    run_sweep(grid, root, choose_executor(execution, root, ray), conditions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
