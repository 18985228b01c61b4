"""Worker processes: the bytes of one process, a worker that is killed, and a sweep that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dltb import UsageError
from dltb.sweep import main
from dltb.sweeps import processes
from dltb.sweeps.executors import LOST_TRIES, LaneLost, Waiting, in_lanes
from dltb.sweeps.grid import Leg
from dltb.sweeps.work import Outcome, Task
from tests.sweeps.same import assert_same_sweep, passes, stable_rows, wait_for

GRID = """
[fixed]
tool = "dltb-iterate"
width = 64
height = 64
iterations = 24
[product]
strength = [0.3, 0.6]
prompt = { none = "", fog = "fog" }
"""


@pytest.fixture
def grid(tmp_path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def start(grid: Path, root: Path, workers: int) -> subprocess.Popen:
    argv = [sys.executable, "-m", "dltb.sweep", str(grid), "--output-dir", str(root), "--workers", str(workers)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def children(pid: int) -> list[int]:
    """The worker processes of a sweep, by /proc; the one that cleans up after multiprocessing is none."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found += [int(path.name)] if b"spawn_main" in (path / "cmdline").read_bytes() else []
        except (OSError, ValueError):
            continue
    return found


def made(root: Path) -> int:
    return sum(passes(log) for log in root.glob("*/*/steps.jsonl"))


@pytest.mark.usefixtures("shared_models")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the workers in /proc")
def test_a_killed_worker_and_a_killed_sweep_end_in_the_bytes_of_one_process(tmp_path, grid):
    """Catches legs that are lost with their worker, workers that outlive their sweep and hold its legs, threads that
    round otherwise in a worker, and a table that depends on any of it."""
    assert main([str(grid), "--output-dir", str(tmp_path / "alone")]) == 0
    root = tmp_path / "broken"
    sweep = start(grid, root, workers=2)
    wait_for(lambda: made(root) >= 12)
    os.kill(children(sweep.pid)[0], signal.SIGKILL)
    wait_for(lambda: len(children(sweep.pid)) == 2 and made(root) >= 40, sweep)
    workers = children(sweep.pid)
    sweep.kill()
    sweep.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert main([str(grid), "--output-dir", str(root)]) == 0
    assert_same_sweep(tmp_path / "alone", root)


def test_a_signal_ends_the_legs_with_their_pass(tmp_path, grid):
    """Catches a Ctrl-C that leaves workers behind, loses finished passes, or hides what became of the legs."""
    root = tmp_path / "stopped"
    sweep = start(grid, root, workers=1)
    wait_for(lambda: made(root) >= 5, sweep)
    workers = children(sweep.pid)
    sweep.send_signal(signal.SIGINT)
    output, errors = sweep.communicate(timeout=100)
    assert sweep.returncode == 130, (output, errors)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert {"interrupted"} <= {row["status"] for row in stable_rows(root)} <= {"interrupted", "planned", "complete"}
    assert "Traceback" not in errors
    assert "leaked" not in errors


class Fragile:
    """A lane that is lost on the leg called bad, every time or at first."""

    def __init__(self, losses):
        self.losses = losses

    def open(self):
        pass

    def carry_out(self, task):
        if task.leg.name == "bad" and self.losses:
            self.losses -= 1
            raise LaneLost("its worker process died (SIGKILL)")
        return Outcome(task.leg.name)

    def stop(self):
        pass

    def close(self):
        pass


def carried_out(losses, **how):
    tasks = [Task(Leg(name, "dltb-iterate", {}), Path(), (), 1) for name in ("bad", "good")]
    waiting = Waiting(tasks, retries=how.get("retries", 0), keep_going=how.get("keep_going", True))
    return {outcome.name: outcome.error for outcome in in_lanes(waiting, [Fragile(losses)])}


def test_a_leg_that_kills_every_worker_fails_in_the_end():
    """Catches a leg that runs out of memory over and over for ever, and takes the others' place."""
    assert carried_out(LOST_TRIES) == {"bad": None, "good": None}
    assert carried_out(99) == {"bad": "its worker process died (SIGKILL), 4 times", "good": None}
    assert carried_out(99, keep_going=False) == {"bad": "its worker process died (SIGKILL), 4 times"}


def test_an_error_in_a_lane_reaches_the_sweep():
    """Catches a sweep that waits for ever for a thread that died."""

    class Broken(Fragile):
        def carry_out(self, task):
            raise PermissionError("no more processes")

    tasks = [Task(Leg("one", "dltb-iterate", {}), Path(), (), 1)]
    with pytest.raises(Exception, match="no more processes"):
        list(in_lanes(Waiting(tasks, retries=0, keep_going=False), [Broken(0)]))


def test_no_leg_begins_after_a_stop(tmp_path):
    """Catches a leg that a lane had just taken when Ctrl-C came, and that then runs to its end."""
    lane = processes.ProcessLane({})
    lane.open()
    try:
        lane.stop()
        with pytest.raises(LaneLost, match="the sweep was stopped"):
            lane.carry_out(Task(Leg("one", "dltb-iterate", {}), tmp_path, (), 1))
    finally:
        lane.close()


def test_workers_are_pinned_to_one_device_each(monkeypatch):
    """Catches two workers on one card while another is idle, and cards that the user has hidden."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    pinned = [found["CUDA_VISIBLE_DEVICES"] for found in processes.worker_environments(3, 1)]
    assert pinned == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-ab")
    assert [found["CUDA_VISIBLE_DEVICES"] for found in processes.worker_environments(2, 1)] == ["5", "GPU-ab"]


def test_mps_is_one_device(monkeypatch):
    """Catches two models in the memory of one Mac."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert len(processes.worker_environments(1, 1)) == 1
    with pytest.raises(UsageError, match="one MPS device"):
        processes.worker_environments(2, 1)
