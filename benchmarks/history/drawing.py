"""The study's figures: excess drift over warping error, and over time."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.history.results import ROUND, Result, reference_curve
from dltb.metrics.figure import COLOURS, new_figure, save_figure

KINDS = (
    ("reference", "#D55E00", "o"),
    ("before", "#0072B2", "s"),
    ("after", "#009E73", "^"),
    ("both", "#CC79A7", "D"),
)


def draw(path: Path, groups: dict[tuple[str, str], list[Result]]) -> None:
    """Excess drift over warping error: the reference curve, and what is tried against it."""
    figure, panels = _panels(groups)
    for axes, results in panels:
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
        axes.set_xlabel("warping error (levels)")
        axes.legend(fontsize=7)
    save_figure(figure, path)


def draw_over_time(path: Path, groups: dict[tuple[str, str], dict[str, np.ndarray]]) -> None:
    """Mean excess of every round through the clip; the rectified legs drawn through."""
    figure, panels = _panels(groups)
    for axes, courses in panels:
        for number, (leg, excess) in enumerate(courses.items()):
            style = "-" if "both" in leg else ":" if leg.startswith("reference") else "--"
            passes = (np.arange(len(excess)) + 0.5) * ROUND
            axes.plot(passes, excess, style, color=COLOURS[number % len(COLOURS)], label=leg, linewidth=1.2)
        axes.set_xlabel("passes")
        axes.legend(fontsize=6, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    save_figure(figure, path)


def _panels(groups: dict[tuple[str, str], Any]) -> tuple[Any, list[tuple[Any, Any]]]:
    """A figure, and each group with axes of excess drift for it."""
    columns = {1: 1, 3: 3}.get(len(groups), 2)
    rows, panels = -(-len(groups) // columns), []
    figure = new_figure(4.6 * columns, 3.6 * rows)
    for place, ((model, noise), group) in enumerate(groups.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        axes.axhline(0, color="0.7", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=5)
        axes.set_yticks([-10, -5, 0, 5, 10, 20, 50], ["-10", "-5", "0", "5", "10", "20", "50"])
        axes.set(title=f"{model}, {noise} noise", ylabel="drift in excess (levels)")
        panels.append((axes, group))
    return figure, panels
