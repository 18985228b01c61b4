"""dltb-verify: is a sped-up model still the same model?"""

import argparse
import sys
from collections.abc import Sequence

from dltb.args.errors import run_tool
from dltb.args.options import ImageInput, ModelOptions, VerifyOptions
from dltb.args.parser import ToolParser, add_options, read_options

DESCRIPTION = """\
Runs the reference pipeline once, as diffusers has it, and records what its parts took and gave: text embeddings, the
denoiser's input and output at every step, VAE encode and decode, the final frame. Then it replays the record through
the same model under --profile, or on another --device, or from another --weights folder, part by part and as a whole.

gates: cosine of text embeddings 0.999, worst step 0.995, VAE encode 0.999; VAE decode and final frame 25 dB PSNR, and
pictures must show something. On a trained model this says that the profile keeps what the model does; on random
weights of full size only that the kernels compute the same function."""
EPILOG = """\
A missing part of the reference is a failure, and so is a run in which no check ran. Exit code 1 when not verified.

examples:
  dltb-verify --model tiny-klein --profile fast                capture and replay in one go
  dltb-verify --model sd-turbo --capture untracked/reference   on one machine ...
  dltb-verify --model sd-turbo --reference untracked/reference --profile fast --report report.json   ... and another"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-verify."""
    parser = ToolParser(prog="dltb-verify", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, ImageInput, "input")
    add_options(parser, VerifyOptions, "verification")
    add_options(parser, ModelOptions, "model", leave_out=("fixed_seed",))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, then run; returns the exit code."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        from dltb.runs.verification import run_verify

        model, verify = (read_options(group, args) for group in (ModelOptions, VerifyOptions))
        return run_verify(args.input, model, verify, given=args.given)

    return run_tool(work)


if __name__ == "__main__":
    sys.exit(main())
