"""SIGKILL at a random moment of the main loop and of a tail, then --resume: the same bytes as an unbroken run."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dltb import klein
from tests.clips import assert_same_run, manifest, sliding_clip

DUAL_REF = ["--model", "tiny-klein", "--conditioning", "dual-ref", "--reproject-mask", "--save-every", "1"]
QUICK = [*DUAL_REF, "--width", "64", "--height", "64", "--tail-frames", "12", "--tail-modes", "freeze,black"]
# The documented command in full size; minutes.
FULL = [*DUAL_REF, "--max-frames", "24", "--tail-frames", "8", "--tail-modes", "freeze,free,black"]


def start(argv: list[str]) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "dltb.klein", *argv], stdout=subprocess.DEVNULL)


def passes(run: Path) -> int:
    log = run / "steps.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def kill_after(argv: list[str], run: Path, count: int) -> None:
    """Start the run, and kill it a random moment after its log holds ``count`` passes."""
    process = start(argv)
    limit = time.monotonic() + 300
    while passes(run) < count and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    assert manifest(run)["status"] == "running"


def finish(argv: list[str]) -> None:
    assert start(argv).wait() == 0


@pytest.mark.usefixtures("shared_models")
def test_killed_in_the_loop_and_in_a_tail(tmp_path, picture):
    """Catches a checkpoint that is not exact, half-written files, and segments that are lost or doubled."""
    argv = [*QUICK, "--input", str(sliding_clip(tmp_path / "clip.png", picture, 25))]
    name = "clip_dualref-fbmask_tailsfreeze-black12"
    assert klein.main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0
    broken, resumed = tmp_path / "broken" / name, [*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]
    kill_after(resumed, broken, random.randint(1, 22))
    kill_after(resumed, broken, 25 + 10)  # the first tail has a checkpoint of its own by then
    kill_after(resumed, broken, 25 + 12 + random.randint(1, 8))
    finish(resumed)
    assert_same_run(tmp_path / "unbroken" / name, broken)


@pytest.mark.usefixtures("shared_models")
def test_killed_with_history(tmp_path, picture):
    """Catches memory of the history chains that is not whole on disk when its checkpoint counts."""
    chains = ["--history-input", "residual,clip", "--history", "residual,realign,reject,confidence", "--no-fixed-seed"]
    common = ["--model", "tiny-klein", "--width", "64", "--height", "64", "--save-every", "1", *chains]
    argv = [*common, "--input", str(sliding_clip(tmp_path / "clip.png", picture, 25))]
    assert klein.main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0
    (unbroken,) = (tmp_path / "unbroken").iterdir()
    broken, resumed = tmp_path / "broken" / unbroken.name, [*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]
    kill_after(resumed, broken, random.randint(11, 22))
    finish(resumed)
    assert_same_run(unbroken, broken)


@pytest.mark.slow
def test_five_times_out_of_five_in_full_size(tmp_path):
    """The documented command, killed twice and resumed, five times over; and two unbroken runs are the same."""
    name = "courtyard_dualref-fbmask_tailsfreeze-free-black8"
    for folder in ("unbroken", "again"):
        finish([*FULL, "--output-dir", str(tmp_path / folder)])
    assert_same_run(tmp_path / "unbroken" / name, tmp_path / "again" / name)
    for turn in range(5):
        root = tmp_path / str(turn)
        resumed = [*FULL, "--output-dir", str(root), "--resume"]
        kill_after(resumed, root / name, random.randint(1, 22))
        kill_after(resumed, root / name, 24 + random.randint(1, 22))
        finish(resumed)
        assert_same_run(tmp_path / "unbroken" / name, root / name)
