"""dltb-report: pages to judge runs by eye, with frames, flow, mask and curves on one time axis."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

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


@dataclass(frozen=True)
class ReportOptions:
    """What dltb-report is asked for, besides the runs."""

    out: str | None = option(
        None, "folder for the pages, made if missing; the default is the run's, or the folder's", metavar="DIR"
    )
    source: str | None = option(None, "the clip that the runs were made from", metavar="VIDEO")
    embed: bool = option(False, "put videos and full frames into the page too: one file to send, as large as they are")
    thumbnail: int = option(
        224, "longer side of the small pictures, in pixels", metavar="PX", parse=whole(32, at_most=1024)
    )
    motion_every: int | None = option(
        None,
        "estimate flow again (for flow, mask and model input) on every Nth pass shown; the default is every one up to 300 "
        "passes of 256 x 256 pixels, fewer of larger ones",
        metavar="N",
        parse=whole(1),
    )
    frames: int = option(
        300, "passes that a scrubber holds; of longer runs as many, evenly chosen", metavar="N", parse=whole(2)
    )


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
