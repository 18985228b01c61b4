"""The history study: does a rectified loop drift less than the reference loop that is as steady?

    uv run python -m benchmarks.history [--models tiny-turbo tiny-klein] [--passes 1000] [--size 256] [--device cuda]
        [--noise fixed fresh] [--core] [--only LEG ...] [--jobs N] [--report] [--out DIR]
    uv run python -m benchmarks.history --cost      # milliseconds a frame of the history step at 512 px
    uv run python -m benchmarks.history --picture   # what each method does to one frame, after 60 passes

The courtyard is rendered with its exact motion and visibility and played back and forth; every leg is an ordinary run of
dltb-continuous or dltb-klein over it. A leg is measured once, against exact motion, and its frames are then dropped; a leg
that was measured is not made again, one that was stopped goes on. At the end: results.csv, a table, and figures of drift
in excess of independent frames over warping error and over time. NOTES.md and doc/algorithm/history.md have what came out.
"""

import argparse
from pathlib import Path

from benchmarks.history.cost import cost
from benchmarks.history.legs import NOISES, slug_of, wanted_legs
from benchmarks.history.making import make_legs, measured_legs
from benchmarks.history.picture import picture
from benchmarks.history.report import report
from benchmarks.history.world import make_world, write_clip


def main() -> None:
    """Make what is missing, then report on all that is there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", nargs="+", choices=("tiny-turbo", "tiny-klein"), default=["tiny-turbo", "tiny-klein"]
    )
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--only", nargs="+", metavar="LEG", help="these legs; the independent one is always made")
    parser.add_argument("--core", action="store_true", help="the legs that the question needs; about half of all")
    parser.add_argument("--jobs", type=int, default=1, help="legs at a time, each in a process of its own")
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--size", type=int, default=256, help="px (%(default)s)")
    parser.add_argument("--prompt", default="", help="of every pass; the study has a folder of its own for each")
    parser.add_argument("--device", choices=("cuda", "mps", "cpu"))
    parser.add_argument("--out", type=Path, default=Path("untracked/history"))
    parser.add_argument("--report", action="store_true", help="make nothing, report on what is measured")
    parser.add_argument("--cost", action="store_true", help="measure the history step instead")
    parser.add_argument("--picture", action="store_true", help="draw what each method does instead")
    args = parser.parse_args()
    if args.jobs < 1 or args.passes < 2:
        parser.error("--jobs must be 1 or more, --passes 2 or more")
    if args.cost or args.picture:
        cost() if args.cost else picture(args)
        return
    args.out = args.out / f"{args.size}px_{args.passes}{slug_of(args.prompt and ' ' + args.prompt)}"
    try:
        wanted = wanted_legs(args)
    except ValueError as error:
        parser.error(str(error))
    if args.report:
        tables = measured_legs(wanted, args)
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        write_clip(make_world(args.out, args.size), args.passes)
        tables = make_legs(wanted, args)
    if not tables:
        raise SystemExit(f"nothing is measured in {args.out}")
    report(args.out, tables)


if __name__ == "__main__":
    main()
