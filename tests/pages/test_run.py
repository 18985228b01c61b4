"""Reading run directories as they really lie about."""

import json
import os
import subprocess
import sys
import time

import pytest

from dltb import UsageError
from dltb.pages.run import find_runs, read_run, run_status

MAIN = {"schema": 1, "tool": "dltb-iterate", "status": "running", "settings": {}, "passes": {"main": 2}}


def directory(tmp_path, manifest=MAIN, steps=""):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    (run / "steps.jsonl").write_text(steps)
    return run


def test_a_run_with_tails(runs):
    """Catches tails without their frames, videos or steps, and a tail's frames in the main loop."""
    run = read_run(runs.masked)
    assert run.status == "complete"
    assert [(s.name, s.passes, s.expected, len(s.frames), len(s.steps)) for s in run.stretches] == [
        ("main", 24, 24, 24, 24),
        *((name, 4, 4, 4, 4) for name in ("freeze", "free", "black")),
    ]
    videos = ["processed_stateful.mp4", "tail_freeze.mp4", "tail_free.mp4", "tail_black.mp4"]
    assert [s.video for s in run.stretches] == videos
    assert run.problems == ()


def test_half_a_line_is_left_out(tmp_path):
    """Catches a killed run whose page fails because the last line of its log is half written."""
    lines = '{"phase": "main", "pass": 1, "seconds": 1.0}\n[1]\n{"phase": "main", "pass": 2, "sec'
    run = read_run(directory(tmp_path, steps=lines))
    assert list(run.main.steps) == [1]
    assert run.problems == ("steps.jsonl: 2 of 3 lines are damaged and left out",)


@pytest.mark.parametrize("text", ["{", "[]", '{"tool": "other"}', "\xff"])
def test_a_damaged_manifest(tmp_path, runs, text):
    """Catches frames that nobody sees because run.json is broken; without frames there is nothing to see."""
    broken = directory(tmp_path, text)
    with pytest.raises(UsageError, match="is no run directory"):
        read_run(broken)
    copy = runs.copy(runs.still, tmp_path)
    (copy / "run.json").write_text(text, encoding="latin-1")
    run = read_run(copy)
    assert run.status == "unknown"
    assert len(run.main.frames) == 3
    assert len(run.problems) == 1


def test_odd_values_in_a_manifest(tmp_path):
    """Catches a page that fails on a manifest of another version, or one that was edited by hand."""
    odd = {
        "settings": [],
        "passes": {"main": "x", "free": 3},
        "videos": [1, "tail_free.mp4"],
        "sessions": {},
        "expected": 7,
    }
    run = read_run(directory(tmp_path, MAIN | odd))
    assert [(s.name, s.passes, s.video) for s in run.stretches] == [("main", 0, None), ("free", 3, "tail_free.mp4")]
    assert run.settings == {}


def session(pid, host):
    return {"status": "running", "sessions": [{"pid": pid, "host": host}]}


def test_a_killed_run_is_told_from_one_that_goes_on():
    """Catches `running` for ever after a kill, and `killed` for a run on another machine that shares the folder."""
    import socket

    here = socket.gethostname()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert run_status(session(os.getpid(), here), age=9e9) == "running"
    assert run_status(session(gone.pid, here), age=0) == "killed"
    assert run_status(session(gone.pid, "another-host"), age=1) == "running"
    assert run_status(session(gone.pid, "another-host"), age=9e9) == "silent"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    while sys.platform == "linux" and run_status(session(dead.pid, here), age=0) == "running":
        time.sleep(0.01)  # until it is dead; nobody has waited for it yet
    dead.wait()
    assert run_status({"status": "running"}, age=1) == "running", "a run of an older version"
    assert run_status({"status": "complete"}, age=1) == "complete"
    assert run_status({"status": 3}, age=1) == "unknown"


def test_runs_below_a_root(tmp_path):
    """Catches folders of frames walked through for nothing, runs inside runs, links out of the root, hidden leftovers."""
    for name in ("b/x", "a/deep/er/y", "b/x/frames/z", ".hidden/q"):
        (tmp_path / "root" / name).mkdir(parents=True)
        (tmp_path / "root" / name / "run.json").write_text("{}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("{}")
    (tmp_path / "root" / "link").symlink_to(outside)
    found = [path.relative_to(tmp_path / "root").as_posix() for path in find_runs(tmp_path / "root")]
    assert found == ["a/deep/er/y", "b/x"]
