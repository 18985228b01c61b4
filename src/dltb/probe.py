"""dltb-probe: how much device memory a model takes, and whether it needs --offload."""

import argparse
import sys
from collections.abc import Sequence

from dltb.args.errors import run_tool
from dltb.args.options import ImageInput, ModelOptions
from dltb.args.parser import ToolParser, add_options, read_options
from dltb.args.probe_options import ProbeOptions

DESCRIPTION = """\
Loads a model as the other tools do, makes a few passes, and says what that took: memory with the weights in place, the
peak, seconds per pass, the smallest card that holds it. If the model does not fit natively it is tried with --offload."""
EPILOG = """\
writes nothing, except --json FILE. Exit code 1 when it does not fit at all.

examples:
  dltb-probe --model flux2-klein-9b                    does it fit, with two references
  dltb-probe --model flux2-klein-9b --card-gb 32       would it fit a 32 GB card (a CUDA card that is larger)"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-probe."""
    parser = ToolParser(prog="dltb-probe", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ProbeOptions, "probe")
    add_options(parser, ImageInput, "input")
    add_options(parser, ModelOptions, "model")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        from dltb.runs.probing import run_probe

        return run_probe(args.input, read_options(ModelOptions, args), read_options(ProbeOptions, args))

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
