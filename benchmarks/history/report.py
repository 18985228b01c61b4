"""What the study says: results.csv, a table, and the figure of drift over warping error."""

import csv
from pathlib import Path

from benchmarks.history.legs import INDEPENDENT, Leg
from benchmarks.history.measuring import read_table
from benchmarks.history.results import Result, reference_curve, summarize, verdict
from dltb.metrics.figure import new_figure


def report(out: Path, tables: dict[Leg, Path]) -> None:
    """results.csv, the table on stdout, and the figure."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for (model, noise, leg), path in tables.items():
        alone = read_table(tables[model, noise, INDEPENDENT])
        groups.setdefault((model, noise), []).append(summarize(leg, read_table(path), alone))
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
    print(f"\nfigure: {out / 'history.png'}")


KINDS = (
    ("reference", "#D55E00", "o"),
    ("before", "#0072B2", "s"),
    ("after", "#009E73", "^"),
    ("both", "#CC79A7", "D"),
)


def draw(path: Path, groups: dict[tuple[str, str], list[Result]]) -> None:
    """Excess drift over warping error: the reference curve, and what is tried against it."""
    columns = {1: 1, 3: 3}.get(len(groups), 2)
    rows = -(-len(groups) // columns)
    figure = new_figure(4.6 * columns, 3.6 * rows)
    for place, ((model, noise), results) in enumerate(groups.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        curve = reference_curve(results)
        axes.plot([r.warping_error for r in curve], [r.excess for r in curve], "o-", color="#D55E00", label="reference")
        for kind, colour, mark in KINDS:
            for fill, chosen in ((colour, kind), ("none", f"dual-ref {kind}")):
                some = [r for r in results if r.leg.startswith(chosen) or r.leg == f"{kind} dual-ref"]
                some = [r for r in some if ("dual-ref" in r.leg) == (fill == "none")]
                place_of = [r.warping_error for r in some], [r.excess for r in some]
                label = kind if fill == colour else f"{kind}, dual-ref"
                if some and not (kind == "reference" and fill == colour):
                    axes.plot(*place_of, mark, color=colour, markerfacecolor=fill, label=label)
        for r in curve:
            place = (r.warping_error, r.excess)
            style = {"textcoords": "offset points", "fontsize": 7}
            axes.annotate(r.leg.removeprefix("reference "), place, (0, 6), ha="center", **style)
        axes.margins(x=0.15)
        axes.axhline(0, color="0.7", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=5)
        axes.set_yticks([-10, -5, 0, 5, 10, 20, 50], ["-10", "-5", "0", "5", "10", "20", "50"])
        axes.set(title=f"{model}, {noise} noise", xlabel="warping error (levels)", ylabel="drift in excess (levels)")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)
