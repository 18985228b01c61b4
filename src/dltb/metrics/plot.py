"""Figures of the distance tools' tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dltb.metrics.figure import COLOURS, marker_for, new_figure, plain_frame, save_figure
from dltb.metrics.table import METRICS
from dltb.metrics.tables import Columns, read_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 7.2  # inches: a two-column page
PANEL_HEIGHT = 2.3
_NAMES = {
    "to_ref": "to the reference",
    "to_prev": "to the previous frame",
    "input_to_ref": "model input to the reference",
    "lab_a": "a*: green to red",
    "lab_b": "b*: blue to yellow",
}
_LOOKS = (  # label, columns, the smallest range that is drawn, whether it begins at 0
    ("lightness L*", ("lab_l",), 10, False),
    ("chroma a*, b*", ("lab_a", "lab_b"), 10, False),
    ("saturation\n(0..255)", ("saturation",), 10, True),
    ("clipped share", ("clipped",), 0.01, True),
    ("detail\n(levels)", ("detail",), 1, True),
)


def plot_table(table: Path, out: Path, *, title: str = "", converged_below: float | None = None) -> None:
    """Plot the distances of a table that is on disk."""
    frames, columns = read_columns(table)
    distances = {name: values for name, values in columns.items() if "_to_" in name}
    plot_series(frames, distances, out, title=title, converged_below=converged_below)


def plot_series(
    frames: Sequence[str],
    columns: Columns,  # named <metric>_to_ref, <metric>_to_prev, ...
    out: Path,
    *,
    title: str = "",
    converged_below: float | None = None,
) -> None:
    """Distance over frame number as a PNG, written whole or not at all.

    Distances to frames before get a panel and a scale of their own: near a fixed point they are hundreds of times
    smaller than those to the reference. ``converged_below`` is drawn there. A column without a value is left out, as
    the lag's is in a run that is no longer than it.
    """
    columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    moved = {name: values for name, values in columns.items() if name.endswith(("_to_prev", "_to_lag"))}
    far = {name: values for name, values in columns.items() if name not in moved}
    panels = [panel for panel in (far, moved) if panel]
    figure = new_figure(WIDTH, PANEL_HEIGHT * len(panels) + 0.6)
    axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    x, colours = _frame_numbers(frames), dict(zip(columns, COLOURS * len(columns), strict=False))
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, x, panel, colours)
        if panel is moved and converged_below is not None:
            label = f"converged below {converged_below:g}"
            ax.axhline(converged_below, color="0.35", linewidth=1, linestyle=(0, (4, 3)), label=label)
        _finish(ax)
    axes[-1].set_xlabel("frame")
    figure.supylabel(axis_title(columns), fontsize="medium")
    if title:
        figure.suptitle(title, fontsize="medium", x=0.01, horizontalalignment="left")
    save_figure(figure, out)


def plot_dynamics(table: Path, out: Path, *, title: str = "") -> None:
    """Colour, clipping and detail of a table that is on disk over frame number; a PNG, whole or not at all.

    Every panel spans a smallest range of its unit, so that a run at rest is drawn as one.
    """
    frames, columns = read_columns(table)
    figure = new_figure(WIDTH, 1.45 * len(_LOOKS) + 0.5)
    axes = figure.subplots(len(_LOOKS), sharex=True)
    x = _frame_numbers(frames)
    for ax, (label, names, narrowest, from_zero) in zip(axes, _LOOKS, strict=True):
        panel = {name: columns[name] for name in names}
        _draw(ax, x, panel, dict(zip(names, COLOURS[len(names) > 1 :], strict=False)))
        _finish(ax, from_zero=from_zero)
        low, high = ax.get_ylim()
        if high - low < narrowest:
            middle = narrowest / 2 if from_zero else (low + high) / 2
            ax.set_ylim(middle - narrowest / 2, middle + narrowest / 2)
        ax.set_ylabel(label, fontsize="small")
        if len(names) == 1:
            ax.get_legend().remove()  # its axis says it
    axes[-1].set_xlabel("frame")
    figure.align_ylabels(axes)
    if title:
        figure.suptitle(title, fontsize="medium", x=0.01, horizontalalignment="left")
    save_figure(figure, out)


def plot_plateaus(
    blends: Sequence[float],
    columns: Columns,  # v_prev, i_prev, v_ref, i_ref
    out: Path,
    title: str,  # of the distance
) -> None:
    """Where each stable blend settled: plateau distances above, first settled frame below; a PNG, whole or not at all."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(WIDTH, PANEL_HEIGHT * 3 + 0.4)
    axes = figure.subplots(3, sharex=True)
    panels = (("v_ref",), ("v_prev",), ("i_ref", "i_prev"))
    labels = (f"{title}\nto the reference", f"{title}\nto the previous frame", "settled at frame")
    x = np.array(blends)
    for ax, names, label in zip(axes, panels, labels, strict=True):
        for name in names:
            colour = COLOURS[name.endswith("prev")]
            series = "to the previous frame" if name.endswith("prev") else "to the reference"
            ax.plot(x, columns[name], color=colour, label=series, linewidth=1, marker="o", markersize=4, clip_on=False)
        ax.set_ylabel(label, fontsize="small")
        _finish(ax)
        if len(names) == 1:
            ax.get_legend().remove()  # its axis says it
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    axes[-1].set_xlabel("anchor blend (stable blends only)")
    save_figure(figure, out)


def axis_title(columns: Columns) -> str:
    """What the columns measure, by the metric that their names begin with."""
    metric = next(iter(columns), "").split("_")[0]
    return METRICS[metric].title if metric in METRICS else "distance"


def _draw(ax: "Axes", x: np.ndarray, columns: Columns, colours: Mapping[str, str]) -> None:
    for name, values in columns.items():
        y = np.array([np.nan if value is None else value for value in values])
        style = {"color": colours[name], "linewidth": 1.3, "marker": marker_for(x), "markersize": 3, "clip_on": False}
        ax.plot(x, y, label=_label(name, values), **style)


def _label(name: str, values: Sequence[float | None]) -> str:
    """What a column is, for the legend; how far back a lag goes shows in its empty first cells."""
    if name.endswith("_to_lag"):
        lag = next(i for i, value in enumerate(values) if value is not None)
        return f"to the frame {lag} before"
    return _NAMES.get(name) or _NAMES.get(name.split("_", 1)[-1], name)


def _finish(ax: "Axes", *, from_zero: bool = True) -> None:
    from matplotlib.ticker import MaxNLocator

    if from_zero:
        ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    plain_frame(ax)
    # Above the panel: inside it, there is no corner that a series may not reach.
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize="small", borderaxespad=0.2)


def _frame_numbers(frames: Sequence[str]) -> np.ndarray:
    """The last number in each name; positions where a name has none."""
    found = [re.findall(r"\d+", name) for name in frames]
    return np.array([int(numbers[-1]) for numbers in found] if all(found) else range(1, len(frames) + 1))
