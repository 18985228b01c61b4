"""dltb-drift, in process, on folders of real PNG files."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dltb.analyze_drift import main
from dltb.imaging.frames import write_png
from tests.plain_script import run_script


def grey(level: int) -> np.ndarray:
    return np.full((16, 24, 3), level, np.uint8)


def make_run(root: Path, levels: Sequence[int], reference: tuple[str, int] | None = None) -> Path:
    """A run directory whose frames are flat, so that every distance is a difference of two numbers."""
    run = root / "clip_free-running"
    (run / "frames").mkdir(parents=True)
    for number, level in enumerate(levels, 1):
        write_png(run / "frames" / f"frame_{number:04d}.png", grey(level))
    if reference:
        write_png(run / reference[0], grey(reference[1]))
    return run


def table(run: Path) -> list[tuple[str, float, float]]:
    with (run / "drift_metrics.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        assert rows.fieldnames == ["frame", "delta_prev", "delta_original"]
        return [(r["frame"], float(r["delta_prev"]), float(r["delta_original"])) for r in rows]


@pytest.mark.parametrize("name", ["frame_0000_original.png", "frame_0000_source.png"])
@pytest.mark.parametrize("folder", ["", "frames"])
def test_rows_by_hand(tmp_path: Path, name: str, folder: str) -> None:
    """Catches wrong columns, the table in the wrong folder, and a reference that is not found."""
    run = make_run(tmp_path, [100, 110, 104], (name, 90))
    assert main([str(run / folder)]) == 0
    assert table(run) == [("frame_0001", 0, 10), ("frame_0002", 10, 20), ("frame_0003", 6, 14)]


def test_without_a_reference_the_first_frame_is_the_original(tmp_path: Path, capsys) -> None:
    """Catches a missing reference ending the tool."""
    run = make_run(tmp_path, [100, 110, 104])
    assert main([str(run)]) == 0
    assert [row[2] for row in table(run)] == [0, 10, 4]
    assert "3 frames against frame_0001.png" in capsys.readouterr().out


def test_tails_are_left_out(tmp_path: Path) -> None:
    """Catches tail frames mixed into the main loop by their equal numbers."""
    run = make_run(tmp_path, [100, 110])
    write_png(run / "frames" / "freeze frame_0001.png", grey(0))
    assert main([str(run)]) == 0
    assert [row[0] for row in table(run)] == ["frame_0001", "frame_0002"]


def test_every_compares_with_the_frame_taken_before(tmp_path: Path) -> None:
    """Catches delta_prev to a frame that was skipped."""
    run = make_run(tmp_path, [100, 150, 104, 150, 109])
    assert main([str(run), "--every", "2"]) == 0
    assert table(run) == [("frame_0001", 0, 0), ("frame_0003", 4, 4), ("frame_0005", 5, 9)]


def test_summary_names_means_peaks_and_convergence(tmp_path: Path, capsys) -> None:
    """Catches a verdict on the whole run instead of its end."""
    run = make_run(tmp_path, [100, 180, 140, *[141] * 12], ("frame_0000_original.png", 100))
    assert main([str(run)]) == 0
    out = capsys.readouterr().out
    assert "last 10: mean delta_prev 0.000, mean delta_original 41.000" in out
    assert "peak delta_prev 80.000 at frame_0002, peak delta_original 80.000 at frame_0002" in out
    assert "CONVERGED" in out


def test_a_run_that_moves_has_not_converged(tmp_path: Path, capsys) -> None:
    """Catches CONVERGED at exactly the threshold or above."""
    assert main([str(make_run(tmp_path, range(100, 120)))]) == 0
    assert "CONVERGED" not in capsys.readouterr().out


def test_one_frame(tmp_path: Path, capsys) -> None:
    """Catches means over nothing, and convergence from one frame."""
    run = make_run(tmp_path, [100], ("frame_0000_original.png", 90))
    assert main([str(run)]) == 0
    assert table(run) == [("frame_0001", 0, 10)]
    assert "CONVERGED" not in capsys.readouterr().out


def test_gaps_are_named(tmp_path: Path, capsys) -> None:
    """Catches a jump in delta_prev that is only a hole in the folder."""
    run = make_run(tmp_path, [100, 101, 102, 103, 104])
    (run / "frames" / "frame_0003.png").unlink()
    assert main([str(run)]) == 0
    assert "NOTE: missing frames: 3" in capsys.readouterr().out


@pytest.mark.parametrize("odd_one", ["frames/frame_0002.png", "frame_0000_original.png"])
def test_another_size_is_named_and_the_older_table_kept(tmp_path: Path, capsys, odd_one: str) -> None:
    """Catches a broadcast between sizes, and a table that is lost or half-written."""
    run = make_run(tmp_path, [100, 110], ("frame_0000_original.png", 90))
    assert main([str(run)]) == 0
    before = (run / "drift_metrics.csv").read_bytes()
    write_png(run / odd_one, np.zeros((16, 16, 3), np.uint8))
    assert main([str(run)]) == 2
    assert f"{Path(odd_one).name} is 16x16 px but frame_0001.png is 24x16" in capsys.readouterr().err
    assert (run / "drift_metrics.csv").read_bytes() == before
    assert len(list(run.iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone does not exist"),
        ([""], "the path is empty"),
        (["tails"], "only tails"),
        (["x", "--every", "-1"], "-1"),
    ],
)
def test_bad_requests_are_one_line(tmp_path: Path, monkeypatch, capsys, arguments: list[str], message: str) -> None:
    """Catches tracebacks and usage dumps."""
    (tmp_path / "tails").mkdir()
    write_png(tmp_path / "tails" / "free frame_0001.png", grey(1))
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_runs_as_a_plain_script_without_torch_or_av(tmp_path: Path) -> None:
    """Catches a shadowed standard-library module, and more imports than numpy and Pillow."""
    run = make_run(tmp_path, [100, 110])
    missing = ("torch", "diffusers", "transformers", "cv2", "matplotlib", "av")
    run_script("analyze_drift.py", str(run), missing=missing)
    assert len(table(run)) == 2
