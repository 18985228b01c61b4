"""dltb-stabilization: did each series of a metrics CSV settle, at which frame, and at what value."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options

if TYPE_CHECKING:
    from dltb.metrics.series_table import Judged

DESCRIPTION = """\
Judge every series of a metrics CSV: did it settle, from which frame on, and at what value; or what does it do instead.
Reads the tables of the distance tools and of dltb-drift: a frame column, then one series a column. Writes
stabilization_report.csv next to it, one row a series:

  series    name of the column
  verdict   stable, still rising, still falling, drifting (a fast start, then a slow slope), oscillating, wandering,
            too short (under 20 samples), or invalid (a cell that is no finite number; the lines are named)
  index     the first settled sample, counted from 0 over the rows of the table; empty when not settled
  frame     what the first column says there
  value     median of the plateau
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

REPORT_NAME = "stabilization_report.csv"


@dataclass(frozen=True)
class StabilizationOptions:
    """What dltb-stabilization is asked for."""

    table: str = option("", "a CSV with a frame column and one series a column", metavar="METRICS_CSV", positional=True)
    plot: bool = option(False, "also draw stabilization_plot.png: each series with its plateau")


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
    from dltb.metrics.series_table import judge_column, read_table, write_report

    if not options.table:
        raise UsageError("the path is empty; give a metrics CSV")
    path = Path(options.table)
    if options.plot:
        from dltb.metrics.stabilization_plot import plot_judged, require_matplotlib

        require_matplotlib()
    labels, columns = read_table(path)
    report = path.with_name(REPORT_NAME)
    check_report(path, report)
    rows = [judge_column(labels, column) for column in columns]
    outputs = [report]
    write_report(outputs[0], rows)
    if options.plot:
        outputs.append(path.with_name("stabilization_plot.png"))
        plot_judged(rows, outputs[-1], title=f"{path.resolve().parent.name}/{path.name}")
    print(f"{', '.join(map(str, outputs))}: {len(labels)} rows")
    print(table_text(rows))


def check_report(table: Path, report: Path) -> None:
    """Refuse to write over the table itself, or over a file of that name that is no report."""
    from dltb.metrics.series_table import REPORT_COLUMNS

    if report.exists() and table.exists() and report.samefile(table):
        raise UsageError(f"{table} has the name of the report that would be written; rename it first")
    if report.is_file() and not report.read_bytes().startswith(",".join(REPORT_COLUMNS).encode()):
        raise UsageError(f"{report} exists and is no report of dltb-stabilization; move it away first")


def table_text(rows: Sequence["Judged"]) -> str:
    """The report, aligned, for a reader; the reasons on lines of their own."""
    from dltb.metrics.series_table import REPORT_COLUMNS, report_row

    cells = [REPORT_COLUMNS[:-1], *(report_row(row)[:-1] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(f"{cell or '-':{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]
    reasons = [f"    {row.verdict.reason}" for row in rows]
    return "\n".join([lines[0].rstrip(), *(f"{a.rstrip()}\n{b}" for a, b in zip(lines[1:], reasons, strict=True))])


if __name__ == "__main__":
    sys.exit(main())
