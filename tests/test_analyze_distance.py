"""dltb-distance, in process, on folders of real PNG files."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dltb.analyze_distance import build_parser, main
from dltb.args.metric_options import MetricOptions
from dltb.imaging.frames import write_png
from dltb.metrics.dreamsim import TYPES
from dltb.metrics.table import METRICS
from tests.plain_script import run_script

PIXEL = ["--metric", "pixel"]
LOOK = ["lab_l", "lab_a", "lab_b", "saturation", "clipped", "detail"]


def grey(level: int) -> np.ndarray:
    return np.full((16, 24, 3), level, np.uint8)


def make_run(root: Path, frames: Sequence[int | np.ndarray], reference: int | np.ndarray | None = None) -> Path:
    """A run directory; a number stands for a flat frame, so that every pixel distance is a difference of two numbers."""
    run = root / "clip_free-running"
    (run / "frames").mkdir(parents=True)
    for number, frame in enumerate(frames, 1):
        write_png(run / "frames" / f"frame_{number:04d}.png", frame if isinstance(frame, np.ndarray) else grey(frame))
    if reference is not None:
        image = reference if isinstance(reference, np.ndarray) else grey(reference)
        write_png(run / "frame_0000_source.png", image)
    return run


def table(path: Path, metric: str = "pixel") -> list[tuple[str, float, float | None]]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        assert rows.fieldnames == ["frame", f"{metric}_to_ref", f"{metric}_to_prev", f"{metric}_to_lag", *LOOK]
        names = rows.fieldnames[1:3]
        return [(r["frame"], *(float(r[name]) if r[name] else None for name in names)) for r in rows]


def column(path: Path, name: str) -> list[float | None]:
    with path.open(newline="") as file:
        return [float(row[name]) if row[name] else None for row in csv.DictReader(file)]


@pytest.fixture
def dreamsim_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A full cache of the smallest DreamSim type, with narrow networks and random weights."""
    from tests.metrics.dreamsim_caches import make_cache, narrow_networks

    narrow_networks(monkeypatch)
    return make_cache(tmp_path_factory.mktemp("dreamsim"), "clip_vitb32")


@pytest.mark.parametrize("folder", ["", "frames"])
def test_rows_by_hand(tmp_path: Path, folder: str) -> None:
    """Catches wrong columns, the table in the wrong folder, a reference not found, and a first to_prev that is not empty."""
    run = make_run(tmp_path, [100, 110, 104], 90)
    assert main([str(run / folder), *PIXEL]) == 0
    expected = [("frame_0001", 10, None), ("frame_0002", 20, 10), ("frame_0003", 14, 6)]
    assert table(run / "distance_metrics.csv") == expected


def test_without_a_reference_the_first_frame_is_it(tmp_path: Path, capsys) -> None:
    """Catches a missing reference ending the tool."""
    run = make_run(tmp_path, [100, 110, 104])
    assert main([str(run), *PIXEL]) == 0
    assert [row[1] for row in table(run / "distance_metrics.csv")] == [0, 10, 4]
    assert "3 frames against frame_0001.png" in capsys.readouterr().out


@pytest.mark.parametrize("metric", [key for key, row in METRICS.items() if row.offline])
def test_every_offline_metric(tmp_path: Path, picture: np.ndarray, metric: str) -> None:
    """Catches a metric that works in the library only, and columns that do not carry its name."""
    from dltb.metrics.distances import load_metric

    frames = [np.roll(picture, shift, axis=1) for shift in (1, 3, 3)]
    run = make_run(tmp_path, frames, picture)
    assert main([str(run), "--metric", metric, "--batch-size", "2"]) == 0
    rows = table(run / "distance_metrics.csv", metric)
    assert [row[1] for row in rows] == pytest.approx(load_metric(metric)(frames, [picture] * 3), abs=1e-8)
    assert (rows[0][2], rows[2][2]) == (None, 0)
    assert rows[1][2] == pytest.approx(load_metric(metric)(frames[1:2], frames[:1]).item(), abs=1e-8)


@pytest.mark.parametrize("batch_size", ["1", "2", "8"])
def test_dreamsim_is_the_default(
    tmp_path: Path, dreamsim_cache: Path, picture, capsys, monkeypatch, batch_size: str
) -> None:
    """Catches options that do not reach DreamSim, and rows that depend on the batch."""
    import dreamsim

    from dltb.metrics.distances import load_metric
    from dltb.metrics.dreamsim import DreamSimSettings

    run = make_run(tmp_path, [np.roll(picture, 40 * i, axis=0) for i in (1, 2, 2)], picture)
    calls, embed = [], dreamsim.PerceptualModel.embed

    def counted(self, images):
        calls.append(len(images))
        return embed(self, images)

    monkeypatch.setattr(dreamsim.PerceptualModel, "embed", counted)
    arguments = ["--dreamsim-type", "clip_vitb32", "--cache-dir", str(dreamsim_cache), "--batch-size", batch_size]
    assert main([str(run), *arguments, "--device", "cpu"]) == 0
    assert calls == {"1": [1, 1, 1, 1], "2": [1, 2, 1], "8": [1, 3]}[batch_size]
    settings = DreamSimSettings("clip_vitb32", patch=False, cache_dir=dreamsim_cache, retries=0)
    expected = load_metric("dreamsim", dreamsim=settings)([np.roll(picture, 40, axis=0)], [picture]).item()
    rows = table(run / "distance_metrics.csv", "dreamsim")
    assert rows[0][1] == pytest.approx(expected, abs=1e-7)
    assert expected > 1e-5
    assert rows[0][2] is None
    assert rows[1][2] > 1e-5
    assert rows[2][2] == pytest.approx(0, abs=1e-7)
    assert "loading DreamSim clip_vitb32 on cpu" in capsys.readouterr().err


def test_when_dreamsim_cannot_be_had_the_offline_metrics_are_named(tmp_path: Path, capsys, monkeypatch) -> None:
    """Catches a dead end on a machine without the weights, a wait that nobody asked for, and files of a failed start."""
    import torch

    def unreachable(*rest: object, **options: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path, [100, 110])
    assert main([str(run), "--retries", "0"]) == 1
    error = capsys.readouterr().err
    assert "trying again" not in error
    assert "--metric flip, ssim, ms-ssim, pixel" in error.splitlines()[-1]
    assert "--cache-dir" in error
    assert [path.name for path in tmp_path.iterdir()] == [run.name]
    assert [path.name for path in run.iterdir()] == ["frames"]


def test_patch_without_a_checkpoint_is_refused_before_anything_loads(tmp_path: Path, capsys, monkeypatch) -> None:
    """Catches the default type with --patch, for which nothing is shipped."""
    monkeypatch.setitem(sys.modules, "dreamsim", None)
    assert main([str(make_run(tmp_path, [100])), "--patch"]) == 2
    assert "use --dreamsim-type dino_vitb16 or dinov2_vitb14" in capsys.readouterr().err


def test_every_compares_with_the_frame_taken_before(tmp_path: Path) -> None:
    """Catches to_prev to a frame that was skipped, and a skipped frame among the rows."""
    run = make_run(tmp_path, [100, 150, 104, 150, 109])
    assert main([str(run), *PIXEL, "--every", "2"]) == 0
    rows = table(run / "distance_metrics.csv")
    assert rows == [("frame_0001", 0, None), ("frame_0003", 4, 4), ("frame_0005", 9, 5)]


def test_order_past_9999_gaps_and_tails(tmp_path: Path, capsys) -> None:
    """Catches order by name, a hole that looks like a jump, and tail frames mixed into the main loop."""
    run = make_run(tmp_path, [])
    for number, level in ((9998, 100), (9999, 101), (10000, 103), (10002, 106)):
        write_png(run / "frames" / f"frame_{number:04d}.png", grey(level))
    write_png(run / "frames" / "freeze frame_0001.png", grey(0))
    assert main([str(run), *PIXEL]) == 0
    rows = table(run / "distance_metrics.csv")
    assert [row[0] for row in rows] == ["frame_9998", "frame_9999", "frame_10000", "frame_10002"]
    assert [row[2] for row in rows] == [None, 1, 2, 3]
    assert "NOTE: missing frames: 1-9997, 10001" in capsys.readouterr().out


def test_summary_names_means_peaks_and_convergence(tmp_path: Path, capsys) -> None:
    """Catches a verdict on the whole run instead of its end, and a threshold that is not the user's."""
    run = make_run(tmp_path, [100, 180, 140, *[141] * 12], 100)
    assert main([str(run), *PIXEL]) == 0
    out = capsys.readouterr().out
    assert "last 10: mean pixel_to_ref 41.000000, mean pixel_to_prev 0.000000" in out
    assert "peak pixel_to_ref 80.000000 at frame_0002, peak pixel_to_prev 80.000000 at frame_0002" in out
    assert "CONVERGED: mean pixel_to_prev is below 0.5" in out


@pytest.mark.parametrize(("threshold", "converged"), [("1", False), ("1.01", True)])
def test_the_threshold_is_the_users(tmp_path: Path, capsys, threshold: str, converged: bool) -> None:
    """Catches CONVERGED at exactly the threshold, and --converged-below without effect."""
    assert main([str(make_run(tmp_path, range(100, 120))), *PIXEL, "--converged-below", threshold]) == 0
    assert ("CONVERGED" in capsys.readouterr().out) == converged


def test_one_frame(tmp_path: Path, capsys) -> None:
    """Catches means over nothing, and convergence from one frame."""
    run = make_run(tmp_path, [100], 90)
    assert main([str(run), *PIXEL]) == 0
    assert table(run / "distance_metrics.csv") == [("frame_0001", 10, None)]
    out = capsys.readouterr().out
    assert "CONVERGED" not in out
    assert "to_prev" not in out


def test_json_holds_settings_summary_and_rows(tmp_path: Path, dreamsim_cache: Path, picture) -> None:
    """Catches a report that cannot tell two variants apart, and a None that becomes NaN."""
    run = make_run(tmp_path, [np.roll(picture, 40 * i, axis=0) for i in (1, 2, 3)], picture)
    arguments = ["--dreamsim-type", "clip_vitb32", "--cache-dir", str(dreamsim_cache), "--every", "2"]
    report = tmp_path / "report.json"
    assert main([str(run), *arguments, "--json", str(report)]) == 0
    found = json.loads(report.read_text())
    assert (found["metric"], found["dreamsim_type"], found["patch"], found["every"]) == (
        "dreamsim",
        "clip_vitb32",
        False,
        2,
    )
    assert (found["reference"], found["converged_below"]) == ("frame_0000_source.png", 0.01)
    assert found["versions"]["dreamsim"]
    assert [row["frame"] for row in found["rows"]] == ["frame_0001", "frame_0003"]
    assert found["rows"][0]["dreamsim_to_prev"] is None
    assert found["summary"]["mean_to_prev"] == found["rows"][1]["dreamsim_to_prev"]
    assert found["summary"]["peak_to_prev"] == "frame_0003"


def test_results_are_replaced_and_go_where_they_are_told(tmp_path: Path) -> None:
    """Catches a second run that is refused, and a table written in two places."""
    run, out, report = make_run(tmp_path, [100, 110]), tmp_path / "a b.csv", tmp_path / "r.json"
    for metric in ("pixel", "flip"):
        assert main([str(run), "--metric", metric, "--out", str(out), "--json", str(report)]) == 0
    assert len(table(out, "flip")) == 2
    assert json.loads(report.read_text())["metric"] == "flip"
    assert [path.name for path in run.iterdir()] == ["frames"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b.csv", run.name, "r.json"]


@pytest.mark.parametrize("odd_one", ["frames/frame_0002.png", "frame_0000_source.png"])
def test_another_size_is_named_and_the_older_table_kept(tmp_path: Path, capsys, odd_one: str) -> None:
    """Catches a broadcast between sizes, and a table that is lost or half-written."""
    run = make_run(tmp_path, [100, 110], 90)
    assert main([str(run), *PIXEL]) == 0
    before = (run / "distance_metrics.csv").read_bytes()
    write_png(run / odd_one, np.zeros((16, 16, 3), np.uint8))
    assert main([str(run), *PIXEL]) == 2
    assert f"{Path(odd_one).name} is 16x16 px but frame_0001.png is 24x16" in capsys.readouterr().err
    assert (run / "distance_metrics.csv").read_bytes() == before
    assert len(list(run.iterdir())) == 3


def test_a_damaged_frame_keeps_the_older_table(tmp_path: Path, capsys) -> None:
    """Catches half a table after a frame that cannot be decoded."""
    run = make_run(tmp_path, [100, 110, 104])
    assert main([str(run), *PIXEL]) == 0
    before = (run / "distance_metrics.csv").read_bytes()
    frame = run / "frames" / "frame_0003.png"
    frame.write_bytes(frame.read_bytes()[:60])
    assert main([str(run), *PIXEL]) == 2
    assert "frame_0003.png" in capsys.readouterr().err
    assert (run / "distance_metrics.csv").read_bytes() == before


def _foreign_table(root: Path) -> list[str]:
    (root / "mine.csv").write_text("frame,delta_prev,delta_original\n")
    return ["--out", str(root / "mine.csv")]


def _foreign_report(root: Path) -> list[str]:
    (root / "run.json").write_text('{\n  "schema": 1\n}\n')
    return ["--json", str(root / "run.json")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda root: ["--out", str(root)], "was not written by dltb-distance"),
        (_foreign_table, "was not written by dltb-distance"),
        (_foreign_report, "was not written by dltb-distance"),
        (lambda root: ["--out", str(root / "gone" / "a.csv")], "gone is not a folder"),
        (lambda root: ["--out", str(root / "a"), "--json", str(root / "a")], "the same file"),
        (
            lambda root: ["--out", str(root / "a"), "--json", str(root / "clip_free-running" / ".." / "a")],
            "the same file",
        ),
        (lambda root: ["--out", ""], "--out is empty"),
        (lambda root: ["--json", ""], "--json is empty"),
        (lambda root: ["--metric", "sim"], "did you mean ssim?"),
        (lambda root: ["--metric", "ms-ssim"], "needs frames of at least 161x161 px"),
        (lambda root: ["--metric", "ssim", "--device", "cuda"], "torch finds no CUDA device"),
        (lambda root: ["--dreamsim-type", "dino"], "unknown --dreamsim-type 'dino'"),
        (lambda root: ["--every", "0"], "0"),
        (lambda root: ["--batch-size", "0"], "0"),
        (lambda root: ["--retries", "-1"], "-1"),
        (lambda root: ["--lag", "-1"], "-1"),
        (lambda root: ["--converged-below", "nan"], "nan"),
    ],
)
def test_bad_requests_are_one_line_and_change_nothing(
    tmp_path: Path, capsys, arguments: Callable[[Path], list[str]], message: str
) -> None:
    """Catches tracebacks, another tool's file overwritten, and a check that comes after the measuring."""
    run = make_run(tmp_path, [100, 110])
    flags = arguments(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    try:
        code = main([str(run), *flags])
    except SystemExit as stopped:
        code = stopped.code
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("source", "message"), [("gone", "gone does not exist"), ("", "the path is empty")])
def test_bad_folders_are_one_line(tmp_path: Path, monkeypatch, capsys, source: str, message: str) -> None:
    """Catches tracebacks and usage dumps."""
    monkeypatch.chdir(tmp_path)
    assert main([source, *PIXEL]) == 2
    assert message in capsys.readouterr().err


def test_what_has_no_effect_is_said(tmp_path: Path, capsys) -> None:
    """Catches a user who believes to have measured the patch variant, and a note about flags that were not given."""
    run = make_run(tmp_path, [100, 110])
    assert main([str(run), *PIXEL, "--patch", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "NOTE: --patch has no effect with --metric pixel" in out
    assert "NOTE: --device has no effect" in out
    assert main([str(run), *PIXEL]) == 0
    assert "NOTE" not in capsys.readouterr().out


def test_one_process_at_a_time_writes_a_table(tmp_path: Path, capsys) -> None:
    """Catches two processes that write one temporary file, and a lock that stays behind."""
    from dltb.output.run_directory import locked

    run = make_run(tmp_path, [100, 110])
    with locked(run / "distance_metrics.csv"):
        assert main([str(run), *PIXEL]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"another process is writing {run / 'distance_metrics.csv'}; wait for it, or give another --out" in error
        assert main([str(run), *PIXEL, "--out", str(tmp_path / "other.csv")]) == 0
    assert main([str(run), *PIXEL]) == 0
    assert {path.name for path in run.iterdir()} == {"frames", "distance_metrics.csv"}


def test_a_light_install_is_told_what_is_missing(tmp_path: Path, capsys, monkeypatch) -> None:
    """Catches an ImportError, and a hint that needs the same package."""
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "dreamsim" else find(name))
    assert main([str(make_run(tmp_path, [100]))]) == 2
    error = capsys.readouterr().err
    assert "--metric dreamsim needs dreamsim: `uv sync` in a checkout" in error
    assert "without: --metric flip, pixel" in error


def test_flip_and_pixel_need_no_torch(tmp_path: Path) -> None:
    """Catches a metric of the light install that imports what is not there, as a plain script."""
    run = make_run(tmp_path, [100, 110])
    missing = ("torch", "dreamsim", "transformers", "matplotlib", "av", "scipy")
    for metric in ("flip", "pixel"):
        run_script("analyze_distance.py", str(run), "--metric", metric, missing=missing)
        assert len(table(run / "distance_metrics.csv", metric)) == 2


@pytest.mark.parametrize(
    ("lag", "expected"), [("1", [None, 10, 6, 11]), ("3", [None, None, None, 15]), ("9", [None] * 4), ("0", [])]
)
def test_lags_by_hand(tmp_path: Path, lag: str, expected: list[float | None]) -> None:
    """Catches a lag off by one, a first cell that is not empty, and a column that cannot be left out."""
    run = make_run(tmp_path, [100, 110, 104, 115])
    assert main([str(run), *PIXEL, "--lag", lag]) == 0
    header = (run / "distance_metrics.csv").read_text().splitlines()[0].split(",")
    added = ["pixel_to_lag"] if expected else []
    assert header == ["frame", "pixel_to_ref", "pixel_to_prev", *added, *LOOK]
    for name in added:
        assert column(run / "distance_metrics.csv", name) == expected


def test_colour_and_detail_of_every_frame(tmp_path: Path, picture: np.ndarray) -> None:
    """Catches columns in another order than their names, and rows shifted against the frames."""
    from dltb.metrics.look import look

    frames = [picture, 255 - picture, np.roll(picture, 3, axis=2)]
    run = make_run(tmp_path, frames, picture)
    assert main([str(run), *PIXEL, "--batch-size", "2"]) == 0
    for name in LOOK:
        expected = [getattr(look(frame), name) for frame in frames]
        assert column(run / "distance_metrics.csv", name) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("levels", "period"), [([60, 200, 90] * 8, 3), ([60] * 24, None), (range(60, 84), None)])
def test_a_cycle_is_said_and_reported(tmp_path: Path, capsys, levels: Sequence[int], period: int | None) -> None:
    """Catches a cycle that only the library knows, and a resting or a drifting run that is called one."""
    report = tmp_path / "r.json"
    assert main([str(make_run(tmp_path, levels)), *PIXEL, "--json", str(report)]) == 0
    found, out = json.loads(report.read_text()), capsys.readouterr().out
    assert (found["cycle"] and found["cycle"]["period"]) == period
    assert ("CYCLE of period 3" in out) == (period == 3)
    assert (found["growth"], found["lag"]) == (None, 2)


def test_against_another_run(tmp_path: Path, capsys) -> None:
    """Catches rows paired by position instead of number, a stride that pairs others, and a rate that stays unsaid."""
    run = make_run(tmp_path / "a", [100 + n % 2 for n in range(24)], 90)
    other = make_run(tmp_path / "b", [])
    grown = [min(100, round(1.5**n)) for n in range(24)]
    for number in (*range(2, 20), 30):
        level = 100 + (number - 1) % 2 + (grown[number - 1] if number < 25 else 0)
        write_png(other / "frames" / f"frame_{number:04d}.png", grey(level))
    report = tmp_path / "r.json"
    assert main([str(run), *PIXEL, "--against", str(other), "--json", str(report)]) == 0
    header = (run / "distance_metrics.csv").read_text().splitlines()[0].split(",")
    assert header == ["frame", "pixel_to_ref", "pixel_to_prev", "pixel_to_lag", "pixel_to_other", *LOOK]
    assert column(run / "distance_metrics.csv", "pixel_to_other") == [None, *grown[1:19], *[None] * 5]
    found = json.loads(report.read_text())
    assert found["growth"]["rate"] == pytest.approx(np.log(1.5), rel=0.1)
    assert found["against"] == str((other / "frames").resolve())
    assert "pixel_to_other over 18 common frames: growth rate +0.38" in capsys.readouterr().out
    assert sorted(path.name for path in other.iterdir()) == ["frames"]
    assert main([str(run), *PIXEL, "--against", str(other / "frames"), "--every", "3"]) == 0
    assert column(run / "distance_metrics.csv", "pixel_to_other")[:4] == [None, *grown[3:10:3]]
    assert "no growth rate: " in capsys.readouterr().out
    assert main([str(run), *PIXEL, "--against", str(run)]) == 0
    assert "no growth rate: the two runs are the same in every common frame" in capsys.readouterr().out


def test_the_rate_is_per_pass(tmp_path: Path, capsys) -> None:
    """Catches a rate per saved frame."""
    runs = [make_run(tmp_path / name, []) for name in "ab"]
    for row in range(12):
        for run, level in zip(runs, (0, min(100, 2**row)), strict=True):
            write_png(run / "frames" / f"frame_{10 * row + 10:04d}.png", grey(level))
    assert main([str(runs[0]), *PIXEL, "--against", str(runs[1])]) == 0
    assert "growth rate +0.0693 per pass (frames 10 to 50" in capsys.readouterr().out


def _larger(root: Path) -> Path:
    return make_run(root / "o", [np.zeros((16, 32, 3), np.uint8)] * 2)


def _later(root: Path) -> Path:
    run = make_run(root / "o", [])
    write_png(run / "frames" / "frame_0007.png", grey(0))
    return run


def _only_tails(root: Path) -> Path:
    run = make_run(root / "o", [])
    write_png(run / "frames" / "free frame_0001.png", grey(0))
    return run


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (_larger, "its frames are 32x16 px, those of this run 24x16 px"),
        (_later, "no frame number in common, 7 to 7 there and 1 to 2 here"),
        (_only_tails, "no frame number in common, no main loop there"),
        (lambda root: root / "gone", "gone does not exist"),
        (lambda root: "", "--against is empty"),
    ],
)
def test_runs_that_cannot_be_compared(tmp_path: Path, capsys, other: Callable[[Path], Path], message: str) -> None:
    """Catches a broadcast between sizes, an empty column, and a table written before the check."""
    run = make_run(tmp_path, [100, 110])
    assert main([str(run), *PIXEL, "--against", str(other(tmp_path))]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in run.iterdir()] == ["frames"]


def test_stabilization_reads_the_added_columns(tmp_path: Path, capsys) -> None:
    """Catches empty first cells, or a column of zeros, that make a series of the table invalid."""
    from dltb import detect_stabilization

    rng = np.random.default_rng(0)
    base = rng.integers(60, 180, (16, 24, 3))
    frames = [np.clip(base + 60 * 0.7**n + rng.normal(0, 1, base.shape), 1, 254).astype(np.uint8) for n in range(60)]
    run = make_run(tmp_path, frames)
    assert main([str(run), *PIXEL, "--lag", "4"]) == 0
    assert detect_stabilization.main([str(run / "distance_metrics.csv")]) == 0
    with (run / "stabilization_report.csv").open(newline="") as file:
        verdicts = {row["series"]: row["verdict"] for row in csv.DictReader(file)}
    assert list(verdicts) == ["pixel_to_ref", "pixel_to_prev", "pixel_to_lag", *LOOK]
    assert set(verdicts.values()) == {"stable"}


def test_the_help_names_every_metric_and_type() -> None:
    """Catches a row that nobody can find, and thresholds in the help that are not the table's."""
    text = " ".join(build_parser().format_help().split())
    assert all(f" {key} " in text for key in METRICS)
    assert all(name in text for name in TYPES)
    assert "dreamsim_input_to_ref" in text  # the loop tools point here
    assert ", ".join(f"{key} {row.converged_below:g}" for key, row in METRICS.items()) in text
    assert MetricOptions().metric in METRICS
    assert MetricOptions().dreamsim_type in TYPES
