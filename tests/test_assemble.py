"""dltb-assemble, in process, on folders of real PNG files."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dltb.assemble import main
from dltb.imaging.frames import write_png
from dltb.imaging.video import probe_video, read_video
from tests.plain_script import run_script


def make_run(
    root: Path, numbers: list[int], tails: dict[str, int] | None = None, size: tuple[int, int] = (32, 48)
) -> Path:
    """A run directory whose frames tell their number by their grey: 2 levels a pass."""
    run = root / "my clip_stateful-a0.3"
    (run / "frames").mkdir(parents=True)
    for number in numbers:
        write_png(run / "frames" / f"frame_{number:04d}.png", np.full((*size, 3), 2 * number % 256, np.uint8))
    for mode, count in (tails or {}).items():
        for number in range(1, count + 1):
            write_png(run / "frames" / f"{mode} frame_{number:04d}.png", np.full((*size, 3), 200, np.uint8))
    return run


def shown(path: Path) -> list[int]:
    return [round(float(frame.mean()) / 2) for frame in read_video(path)]


@pytest.mark.parametrize("folder", ["", "frames"])
def test_frames_and_tails_become_videos(tmp_path: Path, capsys, folder: str) -> None:
    """Catches tails in the main video, a lost frame, and results in the wrong folder."""
    run = make_run(tmp_path, [1, 2, 3, 4], {"freeze": 2, "black": 1})
    assert main([str(run / folder)]) == 0
    assert shown(run / "assembled.mp4") == [1, 2, 3, 4]
    assert len(shown(run / "assembled_tail_freeze.mp4")) == 2
    assert len(shown(run / "assembled_tail_black.mp4")) == 1
    assert probe_video(run / "assembled.mp4").fps == 30
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{run / 'assembled.mp4'}: 4 frames at 30 fps, stride 1 = every pass"
    assert len(out) == 3


def test_stride_speed_and_gaps_are_said(tmp_path: Path, capsys) -> None:
    """Catches a timelapse that is taken for real time, and a hole that nobody sees."""
    run = make_run(tmp_path, [10, 20, 50, 60, 70])
    assert main([str(run)]) == 0
    line = capsys.readouterr().out
    assert "5 frames at 30 fps, stride 10 = timelapse, 10x faster; missing: 30-40" in line


def test_order_past_9999(tmp_path: Path) -> None:
    """Catches sorting by name."""
    run = make_run(tmp_path, [9998, 9999, 10000, 10001])
    assert main([str(run)]) == 0
    assert shown(run / "assembled.mp4") == [(2 * n % 256) // 2 for n in (9998, 9999, 10000, 10001)]


def test_every_and_fps(tmp_path: Path, capsys) -> None:
    """Catches a rate that is rounded and a step that is not part of the speed."""
    run = make_run(tmp_path, list(range(1, 8)))
    assert main([str(run), "--every", "3", "--fps", "24000/1001"]) == 0
    assert shown(run / "assembled.mp4") == [1, 4, 7]
    assert probe_video(run / "assembled.mp4").fps == Fraction(24000, 1001)
    assert "3 frames at 24000/1001 fps, stride 3 = timelapse, 3x faster" in capsys.readouterr().out


def test_one_frame_and_an_odd_size(tmp_path: Path, capsys) -> None:
    """Catches a single frame that yields no video, and a size that changes without a word."""
    run = make_run(tmp_path, [1], size=(33, 49))
    assert main([str(run)]) == 0
    assert "1 frame at 30 fps" in (out := capsys.readouterr().out)
    assert "NOTE: assembled.mp4 is 50x34" in out
    assert len(shown(run / "assembled.mp4")) == 1


def test_running_again_replaces_its_own_video(tmp_path: Path) -> None:
    """Catches a refusal, or a temporary file left beside the result."""
    run = make_run(tmp_path, [1, 2])
    assert main([str(run)]) == main([str(run), "--every", "2"]) == 0
    assert shown(run / "assembled.mp4") == [1]
    assert sorted(p.name for p in run.iterdir()) == ["assembled.mp4", "frames"]


def test_a_frame_of_another_size_is_named_before_anything_is_written(tmp_path: Path, capsys) -> None:
    """Catches a silent resize and half a video."""
    run = make_run(tmp_path, [1, 2, 3])
    write_png(run / "frames" / "frame_0003.png", np.zeros((64, 64, 3), np.uint8))
    assert main([str(run)]) == 2
    assert "frame_0003.png is 64x64 px but frame_0001.png is 48x32" in capsys.readouterr().err
    assert [p.name for p in run.iterdir()] == ["frames"]


def test_a_damaged_frame_is_named_and_leaves_no_video(tmp_path: Path, capsys) -> None:
    """Catches half a video after a frame that was cut short by a full disk."""
    run = make_run(tmp_path, [1, 2])
    noise = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    write_png(run / "frames" / "frame_0003.png", noise)
    cut = (run / "frames" / "frame_0003.png").read_bytes()[:2000]
    (run / "frames" / "frame_0003.png").write_bytes(cut)
    assert main([str(run)]) == 2
    assert "frame_0003.png is damaged or truncated" in capsys.readouterr().err
    assert [p.name for p in run.iterdir()] == ["frames"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone does not exist"),
        ([""], "the path is empty"),
        (["empty"], "no frames in empty"),
        (["empty", "--fps", "0"], "--fps: 0 is out of range"),
        (["empty", "--fps", "1/0"], "is not a frame rate"),
        (["empty", "--fps", "fast"], "is not a frame rate"),
        (["empty", "--fps", "nan"], "is not a frame rate"),
        (["empty", "--every", "0"], "--every: 0 is out of range"),
        ([], "required: RUN_DIR"),
    ],
)
def test_bad_requests_are_one_line(tmp_path: Path, monkeypatch, capsys, arguments: list[str], message: str) -> None:
    """Catches tracebacks and usage dumps."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_runs_as_a_plain_script_without_torch(tmp_path: Path) -> None:
    """Catches a module of the package that hides one of the standard library's, and a way that leads to torch."""
    run = make_run(tmp_path, [1, 2])
    run_script("assemble.py", str(run), missing=("torch", "diffusers", "transformers", "cv2", "matplotlib"))
    assert shown(run / "assembled.mp4") == [1, 2]
