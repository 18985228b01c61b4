"""The figure of a comparison: zones as bars with their intervals, decorrelation and tails as curves."""

import itertools
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dltb.metrics.bootstrap import SHORTEST, Interval
from dltb.metrics.compare import DETAIL, MAD, SATURATION, SOURCE, Curve, Curves, Key, Row
from dltb.metrics.figure import COLOURS, new_figure, plain_frame
from dltb.metrics.zones import FRAME, INSIDE, OUTSIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW_HEIGHT, LINE_HEIGHT = 7.6, 2.7, 0.17  # inches
SOURCE_COLOUR = "0.65"
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))
ALL_PAIRS_UP_TO = 3  # runs; above, a reader is shown the pairs with the first run, and the table of curves has all
BAR: Mapping[str, Any] = {"linewidth": 0, "error_kw": {"linewidth": 1, "capsize": 2, "ecolor": "0.2"}}
ZONE_PANELS = (
    (MAD, "MAD to the source (levels)"),
    (DETAIL, "detail, mean |Laplacian| (levels)"),
    (SATURATION, "saturation, HSV S (0-255)"),
)
ZONE_LABELS = {INSIDE: "inside zones", OUTSIDE: "outside"}
# name, how many tails a curve is about, label
TAIL_PANELS = (("tails", 2, "MAD between tails (levels)"), ("luma", 1, "mean luma of a tail (levels)"))
LONGEST_NAME = 100  # letters; the start of a longer path is left out


def plot_comparison(
    rows: Sequence[Row],
    curves: Curves,
    runs: Sequence[str],
    out: Path,
    *,
    confidence: float,  # of the rows' intervals
    text: Mapping[str, str],
) -> None:
    """Write the figure as a PNG, with ``text`` in its text chunks."""
    found = {row.key: row.interval for row in rows}
    height = 2 * ROW_HEIGHT + LINE_HEIGHT * (len(runs) + 3)
    figure = new_figure(WIDTH, height)
    panels = figure.subplot_mosaic([[metric for metric, _ in ZONE_PANELS], lower_row(curves)])
    for metric, label in ZONE_PANELS:
        draw_zones(panels[metric], found, runs, metric)
        panels[metric].set_ylabel(label)
    draw_pairs(panels["pairs"], curves, runs)
    for name, tails, label in TAIL_PANELS:
        if name in panels:
            draw_tails(panels[name], curves, runs, tails)
            panels[name].set_ylabel(label)
    for axes in panels.values():
        finish(axes)
    add_names(
        figure,
        runs,
        f"bars: mean over the frames, with its {100 * confidence:g} % interval ({SHORTEST} frames or more)",
    )
    figure.savefig(out, format="png", metadata=text)


def letters_of(runs: Sequence[str]) -> dict[str, str]:
    """A, B, ..., Z, A2, ...: short names for a figure and a table."""
    alphabet = string.ascii_uppercase
    return {
        run: alphabet[i % len(alphabet)] + (str(i // len(alphabet) + 1) if i >= len(alphabet) else "")
        for i, run in enumerate(runs)
    }


def lower_row(curves: Curves) -> list[str]:
    """The panels of the curves that there are; the pairs' is as wide as the others leave room."""
    kinds = {len(curve.tails) for curve in curves}
    names = [name for name, tails, _ in TAIL_PANELS if tails in kinds]
    return ["pairs"] * (3 - len(names)) + names


def draw_zones(axes: "Axes", found: Mapping[Key, Interval], runs: Sequence[str], metric: str) -> None:
    """One group of bars a zone; the source is a bar where it has a value of its own.

    The first frame of a clip has no zones, so a comparison of that frame alone shows the whole frame.
    """
    there = {key.zone for key in found if key.metric == metric}
    zones = {zone: label for zone, label in ZONE_LABELS.items() if zone in there} or {FRAME: "whole frame"}
    names = [name for name in (SOURCE, *runs) if any(Key(name, zone, metric) in found for zone in zones)]
    for place, zone in enumerate(zones):
        for i, name in enumerate(names):
            interval = found.get(Key(name, zone, metric))
            if interval is not None:
                x = place + (i + 0.5 - len(names) / 2) * 0.8 / len(names)
                axes.bar(x, interval.mean, 0.74 / len(names), yerr=_error(interval), **_fill(name, runs), **BAR)
    axes.set_xticks(range(len(zones)), zones.values())
    _from_zero(axes)


def _error(interval: Interval) -> list[list[float]] | None:
    if interval.low is None or interval.high is None:
        return None
    return [[max(interval.mean - interval.low, 0)], [max(interval.high - interval.mean, 0)]]


def _colour(name: str, runs: Sequence[str]) -> str:
    return SOURCE_COLOUR if name == SOURCE else COLOURS[list(runs).index(name) % len(COLOURS)]


def shown_pairs(runs: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs that a reader is shown: all of a few runs, those with the first run of many."""
    if len(runs) > ALL_PAIRS_UP_TO:
        return [(runs[0], other) for other in runs[1:]]
    return list(itertools.combinations(runs, 2))


def _fill(name: str, runs: Sequence[str]) -> dict[str, Any]:
    """Colour, and hatching where the colours come again."""
    again = name != SOURCE and list(runs).index(name) >= len(COLOURS)
    return {"facecolor": _colour(name, runs), "hatch": "////" if again else None, "edgecolor": "white"}


def draw_pairs(axes: "Axes", curves: Curves, runs: Sequence[str]) -> None:
    """How far frames of equal number are apart."""
    letters = letters_of(runs)
    for i, (a, b) in enumerate(shown_pairs(runs)):
        # With every pair drawn, a pair has no colour of a run to go by.
        colour = _colour(b, runs) if a == runs[0] else "0.25"
        _line(axes, curves[Curve((a, b))], colour, DASHES[i % len(DASHES)], f"{letters[a]}, {letters[b]}")
    axes.set(xlabel="frame", ylabel="MAD between runs (levels)")
    _from_zero(axes)
    _legend(axes, columns=8 if lower_row(curves).count("pairs") == 3 else 2)


def draw_tails(axes: "Axes", curves: Curves, runs: Sequence[str], tails: int) -> None:
    """The curves about so many tails: the run by colour, its tails by dashes."""
    drawn = [curve for curve in curves if len(curve.tails) == tails]
    kinds = list(dict.fromkeys(curve.tails for curve in drawn))
    for curve in drawn:
        _line(axes, curves[curve], _colour(curve.runs[0], runs), DASHES[kinds.index(curve.tails) % len(DASHES)])
    for dash, kind in zip(itertools.cycle(DASHES), kinds, strict=False):
        axes.plot([], [], color="0.25", linewidth=1.2, linestyle=dash, label=", ".join(kind))
    axes.set_xlabel("pass of the tail")
    if tails > 1:
        _from_zero(axes)
    _legend(axes)


def _from_zero(axes: "Axes") -> None:
    """At least one level high, so that runs that are equal do not fill an axis of their own."""
    axes.set_ylim(0, max(1, axes.get_ylim()[1]))


def _line(axes: "Axes", values: Mapping[int, float], colour: str, dash: object, label: str | None = None) -> None:
    style = {"color": colour, "linestyle": dash, "linewidth": 1.2, "marker": "o" if len(values) == 1 else None}
    axes.plot(list(values), list(values.values()), label=label, clip_on=False, **style)  # a line at 0 is seen whole


def _legend(axes: "Axes", columns: int = 2) -> None:
    # Above the panel: inside it, there is no corner that a curve may not reach.
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize="x-small", borderaxespad=0.1
    )


def finish(axes: "Axes") -> None:
    """What all panels share."""
    from matplotlib.ticker import MaxNLocator

    if axes.get_xlabel():
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.xaxis.label.set_size("small")
    axes.yaxis.label.set_size("small")
    axes.tick_params(labelsize="small")
    plain_frame(axes)
    axes.grid(visible=False, axis="x")


def add_names(figure: "Figure", runs: Sequence[str], caption: str) -> None:
    """The legend of colours, with the whole names."""
    from matplotlib.patches import Patch

    names = {run: run if len(run) <= LONGEST_NAME else f"...{run[3 - LONGEST_NAME :]}" for run in runs}
    patches = [Patch(**_fill(SOURCE, runs), label="source")]
    patches += [Patch(**_fill(run, runs), label=f"{letter}: {names[run]}") for run, letter in letters_of(runs).items()]
    patches.append(Patch(color="none", label=caption))
    legend = figure.legend(handles=patches, loc="outside upper left", frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)
