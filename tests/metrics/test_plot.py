"""Tables of distances and their figures."""

from pathlib import Path

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.frames import read_image
from dltb.metrics import figure as figure_module
from dltb.metrics import plot
from dltb.metrics.tables import read_columns, write_columns

FRAMES = [f"frame_{number:04d}" for number in range(10, 210, 10)]
FAR = [0.8 * (1 - 0.9**i) for i in range(20)]
MOVED = [None, *(0.05 * 0.8**i for i in range(19))]
COLUMNS = {"flip_to_ref": FAR, "flip_to_prev": MOVED}


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> list:
    """The matplotlib figures that are saved."""
    from matplotlib.figure import Figure

    saved, savefig = [], Figure.savefig

    def kept(self, *where, **how):
        saved.append(self)
        return savefig(self, *where, **how)

    monkeypatch.setattr(Figure, "savefig", kept)
    return saved


def test_a_table_comes_back(tmp_path: Path) -> None:
    """Catches digits lost near a fixed point, and an empty cell read as 0."""
    write_columns(tmp_path / "a.csv", FRAMES, COLUMNS)
    frames, columns = read_columns(tmp_path / "a.csv")
    assert frames == FRAMES
    assert columns["flip_to_prev"][0] is None
    assert columns["flip_to_prev"][1:] == pytest.approx(MOVED[1:], abs=1e-8)
    assert (tmp_path / "a.csv").read_text().startswith("frame,flip_to_ref,flip_to_prev\nframe_0010,0.00000000,\n")


@pytest.mark.parametrize(
    ("text", "says"), [("", "is empty"), ("frame,a\nx,y\n", "line 2 'y'"), ("frame,a\nx\n", "line 2: 1 cells")]
)
def test_other_files_are_no_tables(tmp_path: Path, text: str, says: str) -> None:
    """Catches a traceback over a file that is something else."""
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError, match=rf"a\.csv.*{says}"):
        read_columns(tmp_path / "a.csv")


def test_frame_number_over_distance(tmp_path: Path, figure: list) -> None:
    """Catches rows on the x axis instead of frame numbers, a missing value drawn as 0, and unlabelled axes."""
    plot.plot_series(FRAMES, COLUMNS, tmp_path / "a.png", title="a run", converged_below=0.01)
    above, below = figure[0].axes
    far, moved = above.lines[0], below.lines[0]
    assert far.get_xdata().tolist() == list(range(10, 210, 10))
    assert np.isnan(moved.get_ydata()[0])
    assert moved.get_ydata()[1:].tolist() == MOVED[1:]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["to the reference"]
    assert [text.get_text() for text in below.get_legend().get_texts()] == [
        "to the previous frame",
        "converged below 0.01",
    ]
    assert (below.get_xlabel(), figure[0].get_supylabel()) == ("frame", "mean FLIP error")
    assert above.get_ylim()[0] == below.get_ylim()[0] == 0


def test_nothing_overlaps(tmp_path: Path, figure: list) -> None:
    """Catches a legend over the title or over the curves of its panel."""
    columns = {"dreamsim_to_ref": FAR, "dreamsim_to_prev": MOVED, "dreamsim_input_to_ref": FAR}
    plot.plot_series(FRAMES, columns, tmp_path / "a.png", title="a title of ordinary length", converged_below=0.01)
    title = figure[0]._suptitle.get_window_extent()
    for ax in figure[0].axes:
        legend = ax.get_legend().get_window_extent()
        assert not legend.overlaps(title)
        assert legend.y0 >= ax.get_window_extent().y1 - 1
        assert legend.x0 >= 0
        assert legend.x1 <= figure[0].bbox.x1


def test_a_table_on_disk_is_plotted(tmp_path: Path, figure: list) -> None:
    """Catches a figure that is blank, and one that is left half-written."""
    write_columns(tmp_path / "a.csv", FRAMES, COLUMNS)
    plot.plot_table(tmp_path / "a.csv", tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image.shape[1] == plot.WIDTH * figure_module.DOTS_PER_INCH
    colours = {tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in figure_module.COLOURS[:2]}
    assert colours <= set(map(tuple, image.reshape(-1, 3).tolist()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.png"]


@pytest.mark.parametrize("count", [1, 2, 300])
def test_short_and_long_runs(tmp_path: Path, count: int) -> None:
    """Catches an axis without extent, and names that hold no number."""
    columns = {"pixel_to_ref": [1.0] * count, "pixel_to_prev": [None, *[2.0] * (count - 1)]}
    plot.plot_series(["odd"] * count, columns, tmp_path / "a.png", converged_below=0.5)
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_a_run_of_one_frame(tmp_path: Path, figure: list) -> None:
    """Catches the legend of a lag that no frame has, a panel of nothing, and half a frame on the axis."""
    columns = {"flip_to_ref": [0.3], "flip_to_prev": [None], "flip_to_lag": [None]}
    plot.plot_series(["frame_0007"], columns, tmp_path / "a.png", converged_below=0.5)
    (axes,) = figure[0].axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["to the reference"]
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [7]
