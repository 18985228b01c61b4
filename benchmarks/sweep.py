"""What a sweep costs beside its passes: eight short legs against passes and one load, and against a loop of processes; and
how long 10,000 legs take to plan and to skip.

uv run python -m benchmarks.sweep [--model tiny-turbo] [--legs 8] [--passes 4] [--planned 10000]
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dltb import iterate, sweep
from dltb.models.device import resolve_device
from dltb.models.loading import load_pipeline
from dltb.models.table import MODELS
from dltb.sweeps.grid import read_grid
from dltb.sweeps.root import find_run, write_record


def seconds(work: Callable[[], object]) -> float:
    """Wall time of ``work``, which prints nothing."""
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        work()
    return time.perf_counter() - started


def run(*argv: str) -> None:
    """A process of its own."""
    subprocess.run([sys.executable, "-m", *argv], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_grid(path: Path, *, model: str, legs: int, passes: int) -> None:
    """A grid of so many seeds."""
    fixed = f'[fixed]\ntool = "dltb-iterate"\nmodel = "{model}"\niterations = {passes}\n'
    path.write_text(f"{fixed}[product]\nseed = {list(range(1, legs + 1))}\n")


def logged_seconds(root: Path) -> float:
    """What all passes below ``root`` took by themselves."""
    logs = root.glob("*/*/steps.jsonl")
    return sum(json.loads(line)["seconds"] for log in logs for line in log.read_text().splitlines())


def load_once(folder: Path, model: str, legs: int, passes: int) -> None:
    """Legs in this process, in which everything is imported, against their passes and one load."""
    grid, spec = folder / "legs.toml", MODELS[model]
    write_grid(grid, model=model, legs=legs, passes=passes)
    device = resolve_device(None, spec)
    seconds(lambda: iterate.main(["--model", model, "--iterations", "1", "--output-dir", str(folder / "first")]))
    load = seconds(lambda: load_pipeline(spec, device=device))
    whole = seconds(lambda: sweep.main([str(grid), "--output-dir", str(folder / "here")]))
    made = logged_seconds(folder / "here")
    print(
        f"{legs} legs of {passes} passes on {model}, {device}: {whole:.2f} s; passes {made:.2f} s, one load {load:.2f} s"
    )
    print(f"  sweep / (passes + one load): {whole / (made + load):.3f}")


def against_a_loop(folder: Path, model: str, legs: int, passes: int) -> None:
    """The same legs as one sweep, and as one process each."""
    grid = folder / "legs.toml"
    one = seconds(lambda: run("dltb.sweep", str(grid), "--output-dir", str(folder / "one")))
    common = ["dltb.iterate", "--model", model, "--iterations", str(passes)]
    loop = seconds(
        lambda: [run(*common, "--seed", str(n), "--output-dir", str(folder / f"loop{n}")) for n in range(1, legs + 1)]
    )
    print(f"one sweep {one:.1f} s, a loop of {legs} processes {loop:.1f} s, without the sweep's measures")
    print(f"  loop / sweep: {loop / one:.2f}")


def planned(folder: Path, legs: int) -> None:
    """A grid of many legs: planned anew, planned when all are complete, and run then."""
    grid, root = folder / "many.toml", folder / "many"
    write_grid(grid, model="tiny-turbo", legs=legs, passes=4)
    new = seconds(lambda: run("dltb.sweep", str(grid), "--plan", "--output-dir", str(root)))
    done = find_run(next((folder / "here").glob("seed-*"))).directory
    found = read_grid(str(grid))
    for leg in found.legs:
        directory = root / leg.name / done.name
        directory.mkdir(parents=True)
        for name in ("run.json", "drift_metrics.csv", "stabilization_report.csv"):
            os.link(done / name, directory / name)
        os.link(done.parent / "measured.json", directory.parent / "measured.json")
    write_record(root, {}, found.legs)
    collect = seconds(lambda: run("dltb.sweep", "--collect", str(root)))
    complete = seconds(lambda: run("dltb.sweep", str(grid), "--plan", "--output-dir", str(root)))
    skipped = seconds(lambda: run("dltb.sweep", str(grid), "--output-dir", str(root)))
    print(f"{legs} legs: planned {new:.1f} s; all complete: planned {complete:.1f} s, skipped {skipped:.1f} s")
    print(f"  their table rebuilt (--collect): {collect:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-turbo")
    parser.add_argument("--legs", type=int, default=8)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--planned", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load_once(Path(folder), args.model, args.legs, args.passes)
        against_a_loop(Path(folder), args.model, args.legs, args.passes)
        planned(Path(folder), args.planned)


if __name__ == "__main__":
    main()
