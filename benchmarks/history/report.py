"""What the study says: results.csv, a table, and two figures."""

import csv
from pathlib import Path

import numpy as np

from benchmarks.history.drawing import draw, draw_over_time
from benchmarks.history.legs import INDEPENDENT, Leg
from benchmarks.history.measuring import read_table
from benchmarks.history.results import Result, rounds, summarize, verdict


def report(out: Path, tables: dict[Leg, Path]) -> None:
    """results.csv, the table on stdout, and the figures."""
    groups: dict[tuple[str, str], list[Result]] = {}
    courses: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for (model, noise, leg), path in tables.items():
        alone, table = read_table(tables[model, noise, INDEPENDENT]), read_table(path)
        groups.setdefault((model, noise), []).append(summarize(leg, table, alone))
        courses.setdefault((model, noise), {})[leg] = rounds(table["drift"] - alone["drift"])
    with (out / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "noise", *Result.__dataclass_fields__, "verdict"])
        for (model, noise), results in groups.items():
            writer.writerows([model, noise, *vars(r).values(), verdict(r, results)] for r in results)
    for (model, noise), results in groups.items():
        print(f"\n{model}, {noise} noise")
        print(f"{'leg':34}{'excess':>8}{'warp':>7}{'slope/1000':>16}{'flicker':>9}{'FLIP':>7}{'detail':>8}{'kept':>6}")
        for r in results:
            slope = f"{r.slope:+.2f} +- {r.slope_error:.2f}"
            numbers = f"{r.excess:8.2f}{r.warping_error:7.2f}{slope:>16}{r.flicker:9.2f}{r.temporal_flip:7.3f}"
            print(f"{r.leg:34}{numbers}{r.detail:8.1f}{r.kept_change:6.2f}  {verdict(r, results)}")
    draw(out / "history.png", groups)
    draw_over_time(out / "history_over_time.png", courses)
    print(f"\nfigures: {out / 'history.png'}, {out / 'history_over_time.png'}")
