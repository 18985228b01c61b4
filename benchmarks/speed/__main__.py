"""Milliseconds per pass of this toolkit under its profiles against a plain diffusers loop, pair by pair in one process.

    uv run python -m benchmarks.speed --quick                       the embedded models, any machine
    uv run python -m benchmarks.speed --profiles exact fast fp8     full-size random weights, a large GPU
    ... [--rows sd-turbo flux2-klein-4b] [--rounds 3] [--verify] [--where] [--json FILE]

The plain loop is what one writes first: decode, resize, flow, warp, blend or pair, ``pipe(...)``, save the PNG as PIL does,
append to an mp4, one after the other. Both loops take the same clip and make the same number of passes; of each, the passes
after the second count, to the end of the last one. What comes after it and once a run, until every file is written, stands
apart as ``closing``: the encoder's last frames, the video's index, the end state, run.json, and what this toolkit's writer
lags behind, a few passes at most. ``exact`` must give the plain loop's bytes in every frame, or the command fails.
Floor: the floating-point operations of a pass, text aside, over the card's own rate in a large matrix product.
Full-size pipelines are built by ``benchmarks.full_size``: random weights, stand-in tokenizers.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.bench import Bench
from benchmarks.speed.device import free
from benchmarks.speed.rows import EMBEDDED, FULL_SIZE
from benchmarks.speed.table import inexact, print_table
from dltb.models.environment import describe_environment


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the embedded models instead of full-size ones")
    parser.add_argument("--rows", nargs="+", metavar="KEY", help="only these models")
    parser.add_argument("--profiles", nargs="+", default=["exact"], choices=["exact", "fast", "fp8"])
    parser.add_argument("--rounds", type=int, default=3, help="pairs that count, after one that does not")
    parser.add_argument("--device")
    parser.add_argument("--size", type=int, help="px instead of each model's own")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further row after this long")
    parser.add_argument("--where", action="store_true", help="also the time of each stage of a pass")
    parser.add_argument("--verify", action="store_true", help="also judge fast and fp8 as dltb-verify does")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    started, results = time.monotonic(), []
    rows = [row for row in (EMBEDDED if args.quick else FULL_SIZE) if args.rows is None or row.key in args.rows]
    about: dict[str, Any] = {}
    for row in rows:
        if time.monotonic() - started > args.seconds:
            print(f"{row.key}: left out, {args.seconds:g} s are over", file=sys.stderr)
            continue
        bench = Bench(row, args)
        results.append(bench.run())
        about = describe_environment(bench.device) | {"host_cores": os.cpu_count()}
        free(bench.device)
        if args.json:
            args.json.write_text(json.dumps({"about": about, "rows": results}, indent=2) + "\n")
    print_table(results, about)
    if inexact(results):
        raise SystemExit(f"exact did not give the plain loop's bytes on {', '.join(inexact(results))}")


if __name__ == "__main__":
    main()
