"""dltb-view: a local page that lists the runs under a folder, follows those that are going on, and opens reports."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

DESCRIPTION = """\
Serve a page, to this machine alone (127.0.0.1), that lists the runs below a folder with status and last frame, follows a
running one (progress, time left, last frame, curves), and opens reports as dltb-report writes them. It only reads; no
file outside the folder is served, and no other site can read from it."""
EPILOG = """\
Ctrl-C ends it. On a rented machine, forward the port: ssh -L 8765:127.0.0.1:8765 HOST

example: dltb-view untracked"""


@dataclass(frozen=True)
class ViewOptions:
    """What dltb-view is asked for."""

    port: int = option(8765, "port on 127.0.0.1; 0 takes a free one", metavar="N", parse=whole(0, at_most=65535))
    source: str | None = option(None, "the clip that the runs were made from, for reports", metavar="VIDEO")


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-view."""
    parser = ToolParser(prog="dltb-view", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("root", nargs="?", default="untracked", metavar="ROOT", help="the folder")
    add_options(parser, ViewOptions, "view")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then serve until Ctrl-C; returns the exit code."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        options = read_options(ViewOptions, args)
        if not args.root or not Path(args.root).is_dir():
            raise UsageError(f"{args.root!r} is no folder; give one that has runs below it")
        try:
            from dltb.pages.serve import serve
        except ModuleNotFoundError as error:
            told = "`uv sync` in a checkout, or `pip install 'dltb[view]'`"
            raise UsageError(f"dltb-view needs the package {error.name}: {told}") from None
        return serve(Path(args.root), port=options.port, clip=Path(options.source) if options.source else None)

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
