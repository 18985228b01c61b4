"""dltb-compare, in process, on run directories of real PNG files and the clip that they are of."""

import csv
import hashlib
import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dltb.compare import main
from dltb.imaging import prepare_frame
from dltb.imaging.frames import write_png
from dltb.imaging.video import read_video
from dltb.metrics.zones import find_zones
from tests.clips import write_clip

EXAMPLE = Path(__file__).parent.parent / "input_example" / "courtyard.mp4"
SIZE = 64  # px, of the runs


@pytest.fixture
def clip(tmp_path: Path, picture: np.ndarray) -> Path:
    """Twelve frames, wider and larger than the runs: a dim window that jumps by 8 px a frame."""
    frames = [np.ascontiguousarray(picture[80:208, 6 * n : 6 * n + 160]) // 2 for n in range(12)]
    return write_clip(tmp_path / "pan.png", frames)


def sources_of(clip: Path, count: int = 12) -> list[np.ndarray]:
    """The frames that a run of this size is fed."""
    return [prepare_frame(frame, SIZE, SIZE) for frame in read_video(clip, limit=count)]


def make_run(
    directory: Path,
    clip: Path,
    frames: Sequence[np.ndarray],
    *,
    every: int = 1,
    tails: dict[str, Sequence[int]] | None = None,
    status: str = "complete",
    **settings: Any,
) -> Path:
    """A run directory as the recorder leaves it; tails are flat greys."""
    (directory / "frames").mkdir(parents=True)
    for number, frame in enumerate(frames, 1):
        if number % every == 0:
            write_png(directory / "frames" / f"frame_{number:04d}.png", frame)
    for mode, levels in (tails or {}).items():
        for number, level in enumerate(levels, 1):
            frame = np.full((SIZE, SIZE, 3), level, np.uint8)
            write_png(directory / "frames" / f"{mode} frame_{number:04d}.png", frame)
    digest = hashlib.sha256(clip.read_bytes()).hexdigest()
    told = {"mode": "stateful", "input": clip.name, "input sha256": digest, "width": SIZE, "height": SIZE, **settings}
    manifest = {"schema": 1, "tool": "dltb-klein", "status": status, "settings": told}
    (directory / "run.json").write_text(json.dumps(manifest | {"notes": [], "sessions": [], "passes": {}}))
    return directory


def rows_of(out: Path) -> dict[tuple[str, str, str], dict[str, float | None]]:
    """compare.csv by run, zone and metric."""
    with (out / "compare.csv").open(newline="") as file:
        table = csv.DictReader(file)
        assert table.fieldnames == ["run", "zone", "metric", "mean", "low", "high", "frames"]
        names = table.fieldnames[3:]
        return {
            (row["run"], row["zone"], row["metric"]): {name: float(row[name]) if row[name] else None for name in names}
            for row in table
        }


def curves_of(out: Path) -> dict[str, dict[int, float]]:
    """compare_curves.csv by curve and frame."""
    found: dict[str, dict[int, float]] = {}
    with (out / "compare_curves.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["curve"], {})[int(row["frame"])] = float(row["value"])
    return found


def noisy(frames: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [np.clip(f + random.integers(-9, 10, f.shape), 0, 255).astype(np.uint8) for f in frames]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of a refusal."""
    assert main([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    return said.err


def test_identical_runs(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a decorrelation or a difference that the tool itself makes, and two runs of one name taken for one."""
    first = make_run(tmp_path / "one" / "run", clip, noisy(sources_of(clip), 1), tails={"freeze": [9, 9]})
    second = Path(shutil.copytree(first, tmp_path / "two" / "run"))
    out = tmp_path / "results" / "same"
    assert main([str(first), str(second), "--source", str(clip), "--out", str(out)]) == 0
    assert set(curves_of(out)["decorrelation: one/run | two/run"].values()) == {0}
    differences = [row for (run, _, _), row in rows_of(out).items() if run == "two/run - one/run"]
    assert len(differences) > 10
    assert all(row[name] in (0, None) for row in differences for name in ("mean", "low", "high"))
    assert {path.name for path in out.iterdir()} == {"compare.csv", "compare_curves.csv", "compare.png"}
    said = capsys.readouterr().out
    assert "12 frames against" in said
    assert "A: one/run\nB: two/run\n" in said
    assert "decorrelation: A | B: 0.00 at 1, 0.00 at 12" in said


def test_errors_in_the_zones_are_found_there(tmp_path: Path, clip: Path) -> None:
    """Catches sources that were not prepared as the run did, zones of frames that were saved rather than of the clip,
    and frames of another number."""
    sources = sources_of(clip)
    masks = [
        np.zeros((SIZE, SIZE), bool),
        *(find_zones(*pair).mask for pair in itertools.pairwise(sources)),
    ]
    painted = [f + np.where(m[..., None], 40, 3).astype(np.uint8) for f, m in zip(sources, masks, strict=True)]
    runs = [
        make_run(tmp_path / "plain", clip, painted, every=2),
        make_run(tmp_path / "clean", clip, sources, every=3),
        make_run(tmp_path / "all", clip, painted),
    ]
    out = tmp_path / "out"
    assert main([*map(str, runs), "--source", str(clip), "--out", str(out)]) == 0
    rows = rows_of(out)
    assert rows["plain", "inside", "mad"]["mean"] == pytest.approx(40)
    assert rows["plain", "outside", "mad"]["mean"] == pytest.approx(3)
    assert rows["clean", "frame", "mad"]["mean"] == 0
    assert rows["clean - plain", "inside", "mad"]["mean"] == pytest.approx(-40)
    assert rows["plain", "inside", "mad"]["frames"] == 2  # 6 and 12
    assert rows["plain", "inside", "mad"]["low"] is None
    masked = 100 * np.mean([masks[n - 1].mean() for n in (6, 12)])
    assert rows["source", "frame", "masked_percent"]["mean"] == pytest.approx(masked, abs=1e-5)


def test_the_example_clip_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches --source being asked for after a bare run, from whichever folder, and a default --out elsewhere."""
    frames = sources_of(EXAMPLE, 3)
    runs = [make_run(tmp_path / name, EXAMPLE, frames) for name in ("a", "b")]
    monkeypatch.chdir(tmp_path)
    assert main([*map(str, runs)]) == 0
    assert rows_of(tmp_path / "untracked" / "compare")["a", "frame", "mad"]["mean"] == 0


def test_another_source_is_refused(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches zones from a clip that the runs never saw, by name or by default, and results of a refusal."""
    frames, out = sources_of(clip), tmp_path / "out"
    runs = [make_run(tmp_path / name, clip, frames) for name in ("a", "b")]
    wanted = hashlib.sha256(clip.read_bytes()).hexdigest()[:12]
    other = write_clip(tmp_path / "other.png", frames[:2])
    told = refused(capsys, *runs, "--out", out, "--source", other)
    assert f"--source {other} is another file" in told
    assert f"pan.png (sha256 {wanted}...)" in told
    assert "say where it lies with --source VIDEO" in refused(capsys, *runs, "--out", out)
    named_alike = [make_run(tmp_path / f"{n}x", clip, frames, input="courtyard.mp4") for n in ("a", "b")]
    assert "--source VIDEO" in refused(capsys, *named_alike, "--out", out)
    assert "no-such.mp4 does not exist" in refused(capsys, *runs, "--out", out, "--source", tmp_path / "no-such.mp4")
    assert not out.exists()


def test_runs_that_cannot_be_compared(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches numbers about frames that show different things, and refusals that do not say what is wrong where."""
    frames = sources_of(clip)
    run = make_run(tmp_path / "run", clip, frames, every=2)
    sparse = make_run(tmp_path / "sparse", clip, frames[:11], every=11)
    elsewhere = make_run(tmp_path / "elsewhere", clip, frames, **{"input": "x.mp4", "input sha256": "0" * 64})
    small = make_run(tmp_path / "small", clip, [f[:32] for f in frames], height=32)
    swapped = make_run(tmp_path / "swapped", clip, [f[:32] for f in frames])
    still = make_run(tmp_path / "still", clip, frames)
    (still / "run.json").write_text((still / "run.json").read_text().replace('"mode"', '"iterations"'))
    empty = make_run(tmp_path / "empty", clip, [])
    tails = make_run(tmp_path / "tails", clip, [], tails={"freeze": [1, 2]})
    foreign = make_run(tmp_path / "foreign", clip, frames)
    (foreign / "run.json").unlink()
    assert "no run given" in refused(capsys)
    assert "one run given; give at least two" in refused(capsys, run)
    assert f"{tmp_path / 'none'} does not exist" in refused(capsys, run, tmp_path / "none")
    assert f"{foreign} is not a run directory: it has no run.json" in refused(capsys, run, foreign)
    assert f"no frames in {empty}" in refused(capsys, run, empty)
    assert f"no frames of the main loop in {tails}" in refused(capsys, run, tails)
    assert f"{still} is no run of a clip" in refused(capsys, run, still)
    for name, value in (("input sha256", None), ("input sha256", 7), ("width", None), ("height", "64")):
        odd = make_run(tmp_path / f"odd {name} {value}", clip, frames, **{name: value})
        assert f"{odd} is no run of a clip" in refused(capsys, run, odd)
    assert "is given twice" in refused(capsys, run, run / "frames")
    told = refused(capsys, run, elsewhere)
    assert "different sources" in told
    assert f"{elsewhere} of x.mp4 (sha256 000000000000...)" in told
    assert f"{run} 64x64, {small} 64x32" in refused(capsys, run, small)
    assert f"the frames in {swapped} are 64x32 px but its run.json says 64x64" in refused(capsys, run, swapped)
    told = refused(capsys, run, sparse, "--source", clip)
    assert f"{run}: 2, 4, ..., 12; {sparse}: 11" in told


def test_tails(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches tails compared across runs, a run without tails ending the tool, and rows of the wrong tail."""
    levels = {"freeze": [100, 101, 102], "free": [100, 110, 120], "black": [90, 80, 70]}
    frames = sources_of(clip)
    runs = [make_run(tmp_path / "tailed", clip, frames, tails=levels), make_run(tmp_path / "bare", clip, frames)]
    out = tmp_path / "out"
    assert main([*map(str, runs), "--source", str(clip), "--out", str(out)]) == 0
    curves, rows = curves_of(out), rows_of(out)
    assert curves["tails free | freeze: tailed"] == {1: 0, 2: 9, 3: 18}
    assert curves["tails black | freeze: tailed"] == {1: 10, 2: 21, 3: 32}
    assert curves["luma of tail black: tailed"] == {1: 90, 2: 80, 3: 70}
    assert rows["tailed", "tail free", "delta_prev"]["mean"] == 10
    assert rows["tailed", "tail freeze", "luma"]["mean"] == 101
    assert not any("bare" in name for name in curves if name.startswith(("tails", "luma")))
    assert "tails black | freeze: A: 10.00 at 1, 32.00 at 3" in capsys.readouterr().out


def test_what_is_left_out_is_said(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a comparison of an unfinished run, or of half the frames, that reads like any other."""
    frames = sources_of(clip)
    whole = make_run(tmp_path / "whole", clip, frames)
    broken = make_run(tmp_path / "broken", clip, frames[:8], status="interrupted")
    (broken / "frames" / "frame_0005.png").unlink()
    assert main([str(whole), str(broken), "--source", str(clip), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert f"NOTE: {broken} is unfinished" in said
    assert f"NOTE: {broken}: missing frames: 5" in said
    assert f"NOTE: {whole}: 5 saved frames are not in all runs, left out" in said
    assert "7 frames against" in said


def test_only_its_own_files_are_replaced(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches somebody's table or picture of that name being lost, and a second comparison being refused or differing."""
    runs = [str(make_run(tmp_path / run, clip, sources_of(clip))) for run in ("a", "b")]
    out = tmp_path / "out"
    command = [*runs, "--source", str(clip), "--out", str(out)]
    assert main(command) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert main(command) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    capsys.readouterr()
    for name, ours in before.items():
        if name.endswith("png"):
            write_png(out / name, sources_of(clip)[0])
        else:
            (out / name).write_text("mine\n")
        mine = (out / name).read_bytes()
        assert f"{out / name} exists and was not written by dltb-compare" in refused(capsys, *command)
        assert (out / name).read_bytes() == mine
        (out / name).write_bytes(ours)
    assert "cannot write in" in refused(capsys, *runs, "--source", clip, "--out", out / "compare.csv")


def test_another_comparison_is_kept(tmp_path: Path, clip: Path, monkeypatch, capsys) -> None:
    """Catches a comparison, a bare command's too, in the place of one of other runs, of runs of the same names in another
    place or with other settings, in another order, or with other intervals; and of remains that do not say of what."""
    places = ("one/a", "one/b", "two/a", "two/b")
    a, b, other_a, other_b = (str(make_run(tmp_path / place, clip, sources_of(clip))) for place in places)
    monkeypatch.chdir(tmp_path)
    out, source = Path("untracked/compare"), ("--source", clip)
    assert main([a, b, "--source", str(clip)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    told = refused(capsys, a, b, *source, "--confidence", "0.9")
    assert told == (
        "error: untracked/compare holds another comparison (confidence: 0.95 there, 0.9 now); give another --out\n"
    )
    assert "(inputs: " in refused(capsys, other_a, other_b, *source)
    assert "runs: a, b there, b, a now)" in refused(capsys, b, a, *source)
    assert "runs: a, b there, one/a, one/b, two/b now)" in refused(capsys, a, b, other_b, *source)
    manifest = Path(b) / "run.json"
    manifest.write_text(manifest.read_text().replace("stateful", "anchored"))
    assert "(inputs: " in refused(capsys, a, b, *source)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "compare.png").unlink()
    assert "does not say which runs" in refused(capsys, a, b, *source)
    assert main([a, b, "--source", str(clip), "--out", "untracked/other"]) == 0


def test_all_files_or_none(tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Catches a new table beside the figure of an older comparison, and half files, when the disk is full."""
    from dltb.runs import comparison

    def full(*rest: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    runs = [make_run(tmp_path / run, clip, sources_of(clip)) for run in ("a", "b")]
    command, out = [*map(str, runs), "--source", str(clip), "--out", str(tmp_path / "out")], tmp_path / "out"
    assert main(command) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    (runs[1] / "frames" / "frame_0012.png").unlink()
    monkeypatch.setattr(comparison, "plot_comparison", full)
    assert main(command) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: cannot write {out / 'compare.png'}: No space")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_options_reach_the_intervals(tmp_path: Path, clip: Path) -> None:
    """Catches a --confidence or --resamples that changes nothing."""
    sources = sources_of(clip)
    runs = [str(make_run(tmp_path / f"run{seed}", clip, noisy(sources, seed))) for seed in (1, 2)]
    widths = []
    for extra in ([], ["--confidence", "0.5"], ["--resamples", "100"]):
        out = tmp_path / f"out{len(widths)}"
        assert main([*runs, "--source", str(clip), "--out", str(out), *extra]) == 0
        row = rows_of(out)["run1", "frame", "detail"]
        widths.append(row["high"] - row["low"])
    assert widths[1] < 0.6 * widths[0]
    assert widths[2] != widths[0]


def test_a_figure_of_many_runs(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a ladder of runs that runs out of colours or letters, pairs that the table of curves lacks, and a screen
    full of the lines of all pairs."""
    sources = sources_of(clip, 6)
    runs = [str(make_run(tmp_path / f"run{seed}", clip, noisy(sources, seed))) for seed in range(9)]
    assert main([*runs, "--source", str(clip), "--out", str(tmp_path / "out")]) == 0
    assert len(curves_of(tmp_path / "out")) == 9 * 8 / 2
    assert capsys.readouterr().out.count("decorrelation: A | ") == 8


def test_out_is_checked_before_anything_is_measured(
    tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches minutes of measuring for a folder that cannot be made, and one that is left behind by a failure."""
    from dltb.output.run_directory import locked
    from dltb.runs import comparison

    runs = [str(make_run(tmp_path / run, clip, sources_of(clip))) for run in ("a", "b")]
    command = [*runs, "--source", str(clip), "--out"]
    monkeypatch.setattr(comparison, "measure_runs", lambda *_: pytest.fail("measured"))
    assert "--out is empty" in refused(capsys, *command, "")
    if Path("/proc").is_dir():  # a place that seems writable
        assert "cannot write /proc/dltb/" in refused(capsys, *command, "/proc/dltb")
    with locked(tmp_path / "out" / "compare.csv"):
        told = refused(capsys, *command, tmp_path / "out")
    assert f"another process is writing {tmp_path / 'out' / 'compare.csv'}; wait for it, or give another --out" in told

    def broken(*rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "measure_runs", broken)
    assert main([*command, str(tmp_path / "fresh")]) == 130
    assert not (tmp_path / "fresh").exists()


def test_the_first_frame_alone(tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches empty panels where a comparison has no zones: the first frame of a clip has no frame before it."""
    from matplotlib.figure import Figure

    saved, savefig = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (saved.append(self), savefig(self, *a, **k)))
    frames = noisy(sources_of(clip, 1), 1)
    runs = [str(make_run(tmp_path / run, clip, frames)) for run in ("a", "b")]
    assert main([*runs, "--source", str(clip), "--out", str(tmp_path / "out")]) == 0
    panels = saved[0].axes[:3]
    assert [len(axes.patches) for axes in panels] == [2, 3, 3]  # the source has no error to itself
    assert {axes.get_xticklabels()[0].get_text() for axes in panels} == {"whole frame"}


def test_stable_legs_of_a_sweep(clip, tmp_path, capsys):
    """Catches different legs that count as one since neither has a frames folder: a sweep leaves two frames in the leg."""
    legs = [make_run(tmp_path / name, clip, sources_of(clip)) for name in ("one", "two")]
    for leg in legs:
        for frame in (leg / "frames").iterdir():
            frame.rename(leg / frame.name)
        (leg / "frames").rmdir()
    assert "is given twice" in refused(capsys, legs[0], legs[0])
    assert main([*map(str, legs), "--source", str(clip), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "compare.csv").is_file()
