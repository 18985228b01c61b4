"""dltb-stabilization, in process, on CSV files as the other tools write them and as they come."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dltb.detect_stabilization import main
from tests.plain_script import run_script

RNG = np.random.default_rng(0)
SETTLED = 0.5 - 0.4 * np.exp(-np.arange(120) / 4) + 0.01 * RNG.standard_normal(120)
RISING = np.arange(120) / 120 + 0.01 * RNG.standard_normal(120)


def write(path: Path, header: Sequence[str], *columns: Sequence[object]) -> Path:
    """A CSV with frame names in front."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["frame", *header])
        table.writerows([f"frame_{i:04d}", *cells] for i, cells in enumerate(zip(*columns, strict=True), 1))
    return path


def report(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "stabilization_report.csv").open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        assert rows.fieldnames == ["series", "verdict", "index", "frame", "value", "band", "reason"]
        return {row["series"]: row for row in rows}


def test_report_of_a_distance_table(tmp_path: Path, capsys) -> None:
    """Catches wrong columns, an index that is not a row, and numbers for a series that has not settled."""
    prev = ["", *(f"{value:.8f}" for value in SETTLED[1:])]
    table = write(
        tmp_path / "distance_metrics.csv",
        ("dreamsim_to_ref", "dreamsim_to_prev", "dreamsim_input_to_ref"),
        SETTLED,
        prev,
        RISING,
    )
    assert main([str(table)]) == 0
    rows = report(tmp_path)
    assert [row["verdict"] for row in rows.values()] == ["stable", "stable", "still rising"]
    settled = rows["dreamsim_to_ref"]
    assert 8 <= int(settled["index"]) <= 20
    assert settled["frame"] == f"frame_{int(settled['index']) + 1:04d}"
    assert float(settled["value"]) == pytest.approx(0.5, abs=0.01)
    assert 0.005 < float(settled["band"]) < 0.04
    assert rows["dreamsim_input_to_ref"]["index"] == rows["dreamsim_input_to_ref"]["value"] == ""
    out = capsys.readouterr().out
    assert "stabilization_report.csv: 120 rows" in out
    assert all(name in out for name in rows)


def test_the_first_row_of_drift_metrics_is_not_judged(tmp_path: Path) -> None:
    """Catches the 0 that analyze_drift defines being taken for the start of a transient."""
    flat = 0.3 + 0.01 * RNG.standard_normal(120)
    flat[0] = 0
    table = write(tmp_path / "drift_metrics.csv", ("delta_prev", "delta_original"), flat, flat)
    assert main([str(table)]) == 0
    rows = report(tmp_path)
    assert (rows["delta_prev"]["index"], rows["delta_prev"]["frame"]) == ("1", "frame_0002")
    assert rows["delta_original"]["index"] == "0"


@pytest.mark.parametrize("cell", ["nan", "inf", "-Infinity", "", "n/a", "1_000", "0,5"])
def test_a_bad_cell_is_named_and_the_other_series_judged(tmp_path: Path, cell: str) -> None:
    """Catches "stable at nan", a hole that is skipped, and one bad column spoiling the others."""
    cells = [*SETTLED[:30], cell, *SETTLED[31:]]
    table = write(tmp_path / "m.csv", ("bad", "good"), cells, SETTLED)
    assert main([str(table)]) == 0
    rows = report(tmp_path)
    assert rows["bad"]["verdict"] == "invalid"
    assert "line 32" in rows["bad"]["reason"]
    assert rows["bad"]["value"] == rows["bad"]["band"] == ""
    assert rows["good"]["verdict"] == "stable"


def test_many_bad_cells_are_counted(tmp_path: Path) -> None:
    """Catches a reason of a thousand line numbers."""
    table = write(tmp_path / "m.csv", ("a", "b"), ["nan"] * 500, ["", "", *["nan"] * 498])
    assert main([str(table)]) == 0
    assert report(tmp_path)["a"]["reason"].endswith("497 more")
    assert "line 4 'nan'" in report(tmp_path)["b"]["reason"]


@pytest.mark.parametrize("text", ["frame,a\n", "frame,a\nframe_0001,0.5\n", "frame,a\n" + "f,\n" * 40])
def test_too_little_is_too_short(tmp_path: Path, text: str) -> None:
    """Catches a crash on a header alone, on one row, and on a column without a number."""
    (tmp_path / "m.csv").write_text(text)
    assert main([str(tmp_path / "m.csv"), "--plot"]) == 0
    assert report(tmp_path)["a"]["verdict"] == "too short"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tables_as_they_come(tmp_path: Path, encoding: str, newline: str) -> None:
    """Catches a byte order mark in a name, Windows line ends, blank lines, quotes and spaces."""
    lines = ["frame, a ", "", *(f'"frame_{i:04d}", "{value}"' for i, value in enumerate(SETTLED)), "", ""]
    (tmp_path / "m.csv").write_bytes(newline.join(lines).replace('", "', '","').encode(encoding))
    assert main([str(tmp_path / "m.csv")]) == 0
    assert report(tmp_path)["a"]["verdict"] == "stable"


BAD_FILES = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "is empty"),
    "one_column.csv": (b"frame\nframe_0001\n", "has one column"),
    "semicolons.csv": (b"frame;a\nframe_0001;0,5\n", "separated by semicolons"),
    "tabs.csv": (b"frame\ta\nframe_0001\t0.5\n", "separated by tabs"),
    "twice.csv": (b"frame,a,a\nframe_0001,1,2\n", "'a' stands twice"),
    "nameless.csv": (b"frame,a,\nframe_0001,1,2\n", "column 3 has no name"),
    "ragged.csv": (b"frame,a\nframe_0001,1\nframe_0002,1,2\n", "line 3: 3 cells, but the header has 2"),
    "missing.csv": (b"frame,a,b\nframe_0001,1\n", "line 2: 2 cells, but the header has 3"),
    "headless.csv": (b"frame_0001,0.5\nframe_0002,0.5\n", "has no header"),
    "latin.csv": (b"frame,\xe9\nframe_0001,1\n", "is not UTF-8"),
    "quotes.csv": (b'frame,a\nframe_0001,"1\n', "not CSV"),
    "report.csv": (b"series,verdict,index,frame,value,band,reason\n", "is a stabilization report"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_another_kind_of_file_is_one_line(tmp_path: Path, capsys, name: str) -> None:
    """Catches tracebacks, and a report made from half a table."""
    content, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / name), "--plot"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("path", "message"), [("gone.csv", "does not exist"), (".", "is a folder"), ("", "is empty")])
def test_bad_paths_are_one_line(tmp_path: Path, monkeypatch, capsys, path: str, message: str) -> None:
    """Catches tracebacks for what is not a file."""
    monkeypatch.chdir(tmp_path)
    assert main([path]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_plot_is_a_png_with_a_panel_a_series(tmp_path: Path, capsys) -> None:
    """Catches a plot without its report, series on one scale, and names taken for formulas."""
    from PIL import Image

    cells = ["nan", *SETTLED[1:]]
    table = write(tmp_path / "m.csv", ("a_to_ref", "b_to_prev", "$c^2$"), SETTLED, RISING, cells)
    assert main([str(table), "--plot"]) == 0
    assert "stabilization_plot.png" in capsys.readouterr().out
    with Image.open(tmp_path / "stabilization_plot.png") as image:
        assert image.format == "PNG"
        assert image.width == 1440
        assert image.height > 1200
    assert len(report(tmp_path)) == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_a_plot_of_huge_and_tiny_numbers(tmp_path: Path) -> None:
    """Catches a traceback of matplotlib, and a number whose range is none."""
    columns = (1e306 * SETTLED, -1e306 * RISING, 1e-300 * SETTLED, [1.7e308, -1.7e308] * 60)
    table = write(tmp_path / "m.csv", ("huge", "negative", "tiny", "beyond"), *columns)
    assert main([str(table), "--plot"]) == 0
    verdicts = {name: row["verdict"] for name, row in report(tmp_path).items()}
    assert verdicts == {"huge": "stable", "negative": "still falling", "tiny": "stable", "beyond": "invalid"}


def test_many_series_go_on_in_further_figures(tmp_path: Path, capsys) -> None:
    """Catches one figure that is too tall for any viewer, and a layout that takes minutes."""
    table = write(tmp_path / "m.csv", [f"c{i}" for i in range(14)], *[SETTLED] * 14)
    assert main([str(table), "--plot"]) == 0
    names = {"m.csv", "stabilization_report.csv", "stabilization_plot.png", "stabilization_plot_2.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert "stabilization_plot_2.png" in capsys.readouterr().out


def test_without_matplotlib_the_plot_says_how_to_get_it(tmp_path: Path, monkeypatch, capsys) -> None:
    """Catches an ImportError after the work, and the report needing matplotlib."""
    table = write(tmp_path / "m.csv", ("a",), SETTLED)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([str(table), "--plot"]) == 2
    assert "uv pip install matplotlib" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1
    assert main([str(table)]) == 0


def test_a_report_that_cannot_be_written_keeps_the_older_one(tmp_path: Path, monkeypatch, capsys) -> None:
    """Catches half a report under the final name, and the remains of one."""
    table = write(tmp_path / "m.csv", ("a",), SETTLED)
    assert main([str(table)]) == 0
    before = (tmp_path / "stabilization_report.csv").read_bytes()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    write(table, ("a",), RISING)
    assert main([str(table)]) == 1
    assert "No space left" in capsys.readouterr().err
    assert (tmp_path / "stabilization_report.csv").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_others_are_not_replaced(tmp_path, capsys):
    """Catches a table that is replaced by its own report, and notes of the user under that name."""
    own = write(tmp_path / "stabilization_report.csv", ("a",), SETTLED)
    before = own.read_bytes()
    assert main([str(own)]) == 2
    assert "rename it" in capsys.readouterr().err
    table = write(tmp_path / "m.csv", ("a",), SETTLED)
    assert main([str(table)]) == 2
    assert "move it away" in capsys.readouterr().err
    assert own.read_bytes() == before


def test_runs_as_a_plain_script_with_numpy_alone(tmp_path: Path) -> None:
    """Catches a shadowed standard-library module, and more imports than numpy."""
    table = write(tmp_path / "m.csv", ("a",), SETTLED)
    missing = ("torch", "diffusers", "transformers", "cv2", "matplotlib", "av", "PIL", "scipy")
    run_script("detect_stabilization.py", str(table), missing=missing)
    assert report(tmp_path)["a"]["verdict"] == "stable"
