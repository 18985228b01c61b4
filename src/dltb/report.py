"""dltb-report: pages to judge runs by eye, with frames, flow, mask and curves on one time axis."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, read_options
from dltb.args.report_options import ReportOptions

DESCRIPTION = """\
Write a page about a run that opens in any browser from disk, without a server or network: settings and provenance,
videos, a scrubber that keeps source, output, model input, flow and mask in step with the curves, verdicts on how each
series ends, and a contact sheet. It works on runs that are unfinished, killed or have lost frames.

What a run did not store (source frames, flow, mask, model inputs) is made again by the loop's own functions from the
input clip, if it is found (example clips are; others next to the run, in untracked/input, or by --source). Passes
that were not saved as a PNG are shown from the video."""
EPILOG = """\
writes <RUN>/report.html for one run. For several runs, or for a folder with runs below it (a sweep), also an index with
the runs side by side, an A/B wipe, and the tables of dltb-compare and of the sweep: <FOLDER>/report.html, or
untracked/report/report.html

examples:
  dltb-report untracked/output_tiny_turbo/courtyard_stateful-a0.3
  dltb-report untracked/output_tiny_turbo/stability_s0.4"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-report."""
    parser = ToolParser(prog="dltb-report", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run directories, or folders with runs below them")
    add_options(parser, ReportOptions, "report")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then write the pages; returns the exit code."""

    def work() -> None:
        args = build_parser().parse_args(argv)
        from dltb.pages.report import PageOptions
        from dltb.pages.write import write_reports

        options = read_options(ReportOptions, args)
        page = PageOptions(
            clip=Path(options.source) if options.source else None,
            side=options.thumbnail,
            limit=options.frames,
            motion_every=options.motion_every,
            embed=options.embed,
        )
        write_reports(args.runs, page, Path(options.out) if options.out else None)

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
