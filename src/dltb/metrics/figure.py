"""What all figures share: matplotlib without a display and without its global state, and one way to the disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dltb import UsageError
from dltb.imaging.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 200
# Okabe and Ito's, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKED_UP_TO = 60  # samples; above, dots would run into each other


def require_matplotlib() -> None:
    """Say how to get matplotlib before any work is done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: `uv pip install matplotlib`, or leave --plot out") from None


def new_figure(width: float, height: float, *, layout: str | None = "constrained") -> "Figure":
    """An empty figure, so many inches wide and high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", out: Path) -> None:
    """Write a PNG, whole or not at all."""
    with replacing(out) as temporary:
        figure.savefig(temporary, format="png")


def marker_for(values: Sequence) -> str | None:
    """Dots where there is room for them."""
    return "o" if len(values) <= MARKED_UP_TO else None


def plain_frame(axes: "Axes") -> None:
    """A light grid behind the data, and no frame above and to the right."""
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
