"""Legs are run, measured once and kept as tables; several at a time, each in a process of its own."""

import argparse
import csv
import shutil
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.history.legs import INDEPENDENT, NOISES, Leg, flags_of, slug_of
from benchmarks.history.measuring import COLUMNS, measured
from benchmarks.history.world import World, open_world, write_clip
from dltb import continuous, klein
from dltb.sweeps.processes import end_with_parent


def make_legs(wanted: list[Leg], args: argparse.Namespace) -> dict[Leg, Path]:
    """Tables of the legs: the independent ones first, against whose frames the others are measured, then the slow model."""
    order = sorted(wanted, key=lambda leg: (leg[2] != INDEPENDENT, leg[0] != "tiny-klein"))
    first = sum(leg[2] == INDEPENDENT for leg in wanted)
    made: dict[Leg, Path] = {}
    with ProcessPoolExecutor(args.jobs, get_context("spawn"), leave_with_parent) as pool:
        for part in (order[:first], order[first:]):
            made |= zip(part, pool.map(partial(make_one, args=args), part), strict=True)
    return {leg: made[leg] for leg in wanted}


def leave_with_parent() -> None:
    """A worker of a command that was killed ends too, in place of waiting for work for ever."""
    threading.Thread(target=end_with_parent, daemon=True).start()


def table_of(leg: Leg, args: argparse.Namespace) -> Path:
    """Where the table of a leg is, or will be."""
    model, noise, name = leg
    return args.out / model / noise / f"{slug_of(name)}.csv"


def measured_legs(wanted: list[Leg], args: argparse.Namespace) -> dict[Leg, Path]:
    """Tables that are there, of groups whose independent leg is."""
    there = {leg: table_of(leg, args) for leg in wanted if table_of(leg, args).exists()}
    return {leg: path for leg, path in there.items() if (*leg[:2], INDEPENDENT) in there}


def make_one(leg: Leg, args: argparse.Namespace) -> Path:
    """One leg, in any process."""
    return make_leg(open_world(args.out, args.size), *leg, args)


def make_leg(world: World, model: str, noise: str, leg: str, args: argparse.Namespace) -> Path:
    """Run and measure one leg unless that was done; the table of its passes."""
    root, table = args.out / model / noise, table_of((model, noise, leg), args)
    folder = root / slug_of(leg)
    if table.exists():
        return table
    clip, vectors = write_clip(world, args.passes)
    tool = klein if model == "tiny-klein" else continuous
    argv = [*flags_of(model, leg, clip, vectors, args), *NOISES[noise], "--output-dir", str(folder)]
    if code := tool.main(argv):
        raise SystemExit(f"{model} {noise} {leg}: exit {code}")
    (run,) = (path.parent for path in folder.glob("*/run.json"))
    alone = next((path.parent for path in (root / INDEPENDENT).glob("*/run.json")), None)
    rows = list(measured(world, run, args.passes, alone))
    with table.with_suffix(".part").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    if leg != INDEPENDENT:
        shutil.rmtree(run / "frames")
    table.with_suffix(".part").replace(table)
    return table
