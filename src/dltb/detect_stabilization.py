"""dltb-stabilization: did each series of a metrics CSV settle, at which frame, and at what value."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options

DESCRIPTION = """\
Judge every series of a metrics CSV: did it settle, from which frame on, and at what value; or what does it do instead.
Reads the tables of the distance tools and of dltb-drift: a frame column, then one series a column. Writes
stabilization_report.csv next to it, one row a series:

  series    name of the column
  verdict   stable, still rising, still falling, drifting (a fast start, then a slow slope), oscillating, wandering,
            too short (under 20 samples), or invalid (a cell that is no number, not finite or beyond 1e307; the lines
            are named)
  index     the first settled sample, counted from 0 over the rows of the table; empty when not settled
  frame     what the first column says there
  value     median of the plateau; of a series that hops between a few values, the median of grouped data
  band      half its width: the smoothed series stays within value +- band
  reason    the same in words

The last samples are assumed to be what the run ends in. A spike of up to three samples unsettles nothing; a step moves
the first settled sample to the step. Empty cells at the start of a series, and a 0 at the start of a *_prev series, are
not measurements and are skipped. The method and its limits: doc/algorithm/stabilization.md.
"""

EPILOG = """\
example:
  dltb-stabilization untracked/output_tiny_turbo/test_512_free-running/drift_metrics.csv --plot
"""

REPORT_NAME, PLOT_NAME = "stabilization_report.csv", "stabilization_plot.png"


@dataclass(frozen=True)
class StabilizationOptions:
    """What dltb-stabilization is asked for."""

    table: str = option("", "a CSV with a frame column and one series a column", metavar="METRICS_CSV", positional=True)
    plot: bool = option(
        False, "also draw stabilization_plot.png: each series with its plateau; above 12 series _2.png, ... go on"
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-stabilization."""
    parser = ToolParser(prog="dltb-stabilization", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, StabilizationOptions, "stabilization")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-stabilization and return its exit code."""
    return run_tool(lambda: detect(read_options(StabilizationOptions, build_parser().parse_args(argv))))


def detect(options: StabilizationOptions) -> None:
    """Judge, write the report, print it."""
    from dltb.metrics.series_table import is_report, judge_table, report_text, write_report
    from dltb.output.files import check_output

    if not options.table:
        raise UsageError("the path is empty; give a metrics CSV")
    path = Path(options.table)
    if options.plot:
        from dltb.metrics.figure import require_matplotlib
        from dltb.metrics.stabilization_plot import plot_judged

        require_matplotlib()
    count, rows = judge_table(path)
    report = path.with_name(REPORT_NAME)
    if report.exists() and report.samefile(path):
        raise UsageError(f"{path} has the name of the report that would be written; rename it first")
    check_output(report, is_ours=is_report, tool="dltb-stabilization", otherwise="move it away first")
    write_report(report, rows)
    outputs = [report]
    if options.plot:
        outputs += plot_judged(rows, path.with_name(PLOT_NAME), title=f"{path.resolve().parent.name}/{path.name}")
    print(f"{', '.join(map(str, outputs))}: {count} rows")
    print(report_text(rows))


if __name__ == "__main__":
    sys.exit(main())
