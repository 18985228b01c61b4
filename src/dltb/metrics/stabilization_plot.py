"""Figures of judged series: each in a panel of its own, with its plateau."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dltb.metrics.figure import COLOURS, marker_for, new_figure, plain_frame, save_figure
from dltb.metrics.series import LARGEST
from dltb.metrics.series_table import Judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, PANEL_HEIGHT, GAP = 7.2, 1.75, 0.45  # inches
LEFT, RIGHT, TOP, BOTTOM = 0.9, 0.15, 0.65, 0.5  # margins, inches
PANELS = 12  # at most in one figure
SERIES, UNSETTLED, PLATEAU = COLOURS[:3]


def plot_judged(rows: Sequence[Judged], out: Path, *, title: str) -> list[Path]:
    """One panel a series, over the index of the report; more than twelve go on in ``<name>_2.png``, ...

    Every figure is written whole or not at all. Returns their paths.
    """
    written = []
    for page, panels in enumerate(_pages(rows), 1):
        written.append(out if page == 1 else out.with_stem(f"{out.stem}_{page}"))
        _plot_page(panels, written[-1], title=title)
    return written


def _pages(rows: Sequence[Judged]) -> Iterator[Sequence[Judged]]:
    return (rows[start : start + PANELS] for start in range(0, len(rows), PANELS))


def _plot_page(rows: Sequence[Judged], out: Path, *, title: str) -> None:
    height = TOP + BOTTOM + PANEL_HEIGHT * len(rows) + GAP * (len(rows) - 1)
    figure = new_figure(
        WIDTH, height, layout=None
    )  # fixed margins: matplotlib's own layout takes seconds for many panels
    figure.subplots_adjust(
        LEFT / WIDTH, BOTTOM / height, 1 - RIGHT / WIDTH, 1 - TOP / height, hspace=GAP / PANEL_HEIGHT
    )
    panels = figure.subplots(len(rows), sharex=True, squeeze=False)[:, 0]
    for axes, judged in zip(panels, rows, strict=True):
        draw(axes, judged)
    panels[-1].set_xlabel("index (rows, counted from 0)")
    figure.suptitle(title, y=1 - 0.12 / height, va="top", fontsize="medium", parse_math=False)
    save_figure(figure, out)


def draw(axes: "Axes", judged: Judged) -> None:
    """The samples; over a plateau its median, band and opening."""
    from matplotlib.ticker import MaxNLocator

    values = np.array([np.nan if value is None else value for value in judged.column.values], float)
    values[~(np.abs(values) <= LARGEST)] = np.nan
    verdict = judged.verdict
    axes.plot(values, color=SERIES, linewidth=0.9, marker=marker_for(values), markersize=2.5)
    if verdict.index is not None and verdict.value is not None and verdict.band is not None:
        span = (verdict.index, len(values) - 1)
        axes.fill_between(span, verdict.value - verdict.band, verdict.value + verdict.band, color=PLATEAU, alpha=0.25)
        axes.plot(span, (verdict.value, verdict.value), color=PLATEAU, linewidth=1.6)
        axes.axvline(verdict.index, color=PLATEAU, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_title(judged.column.name, fontsize="small", loc="left", parse_math=False)
    colour = UNSETTLED if verdict.index is None else PLATEAU
    axes.set_title(headline(judged), fontsize="small", loc="right", color=colour, parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6g}")  # no "1e-5" above the axis, where the name stands
    axes.tick_params(labelsize="small")
    axes.margins(x=0.01)
    plain_frame(axes)


def headline(judged: Judged) -> str:
    """The verdict in a few words."""
    verdict = judged.verdict
    if verdict.index is not None:
        return f"stable from {judged.frame} on: {verdict.value:.4g} ± {verdict.band:.2g}"
    return verdict.verdict + (f", period {verdict.period:.3g}" if verdict.period else "")
