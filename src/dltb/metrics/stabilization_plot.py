"""A figure of judged series: each in a panel of its own, with its plateau. matplotlib without a display."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dltb import UsageError
from dltb.imaging.atomic import replacing
from dltb.metrics.series_table import Judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, PANEL_HEIGHT = 7.2, 2.1  # inches
DOTS_PER_INCH = 150
SERIES, PLATEAU, UNSETTLED = "#0072B2", "#009E73", "#D55E00"  # Okabe and Ito's, told apart by colour-blind readers too
MARKED_UP_TO = 60  # samples; above, dots would run into each other


def require_matplotlib() -> None:
    """Say how to get matplotlib before any work is done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: `uv pip install matplotlib`, or leave --plot out") from None


def plot_judged(rows: Sequence[Judged], out: Path, *, title: str) -> None:
    """One panel a series, over the index of the report. Written whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT * len(rows) + 0.5), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(rows), sharex=True, squeeze=False)[:, 0]
    for axes, judged in zip(panels, rows, strict=True):
        draw(axes, judged)
    panels[-1].set_xlabel("index (rows, counted from 0)")
    figure.suptitle(title, fontsize="medium", parse_math=False)
    with replacing(out) as temporary:
        figure.savefig(temporary, format="png")


def draw(axes: "Axes", judged: Judged) -> None:
    """The samples; over a plateau its median, band and opening."""
    from matplotlib.ticker import MaxNLocator

    values = np.array([np.nan if value is None else value for value in judged.column.values], float)
    values[~np.isfinite(values)] = np.nan
    verdict = judged.verdict
    marker = "o" if len(values) <= MARKED_UP_TO else None
    axes.plot(values, color=SERIES, linewidth=0.9, marker=marker, markersize=2.5)
    if verdict.index is not None and verdict.value is not None and verdict.band is not None:
        span = (verdict.index, len(values) - 1)
        axes.fill_between(span, verdict.value - verdict.band, verdict.value + verdict.band, color=PLATEAU, alpha=0.25)
        axes.plot(span, (verdict.value, verdict.value), color=PLATEAU, linewidth=1.6)
        axes.axvline(verdict.index, color=PLATEAU, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_title(judged.column.name, fontsize="small", loc="left", parse_math=False)
    colour = UNSETTLED if verdict.index is None else PLATEAU
    axes.set_title(headline(judged), fontsize="small", loc="right", color=colour, parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.01)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def headline(judged: Judged) -> str:
    """The verdict in a few words."""
    verdict = judged.verdict
    if verdict.index is not None:
        return f"stable from {judged.frame} on: {verdict.value:.4g} ± {verdict.band:.2g}"
    return verdict.verdict + (f", period {verdict.period:.3g}" if verdict.period else "")
