"""Comparing two sweeps of one grid, and waiting for one that runs elsewhere."""

import csv
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.clips import assert_same_run

TIMED = ("seconds_per_pass",)


def stable_rows(root: Path) -> list[dict[str, str]]:
    """The rows of a sweep's table, less what is never twice the same."""
    if not (root / "sweep.csv").exists():
        return []
    with (root / "sweep.csv").open(newline="") as file:
        return [{key: cell for key, cell in row.items() if key not in TIMED} for row in csv.DictReader(file)]


def assert_same_sweep(first: Path, second: Path) -> None:
    """The same table but for seconds, and in every leg the same files and bytes."""
    rows = stable_rows(first)
    assert rows
    assert rows == stable_rows(second)
    for row in rows:
        assert_same_run(first / row["run"], second / row["run"])
        for name in ("drift_metrics.csv", "stabilization_report.csv"):
            assert (first / row["run"] / name).read_bytes() == (second / row["run"] / name).read_bytes()


def passes(log: Path) -> int:
    """Lines of a run's steps.jsonl."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for(condition: Callable[[], bool], process: subprocess.Popen | None = None, seconds: float = 240) -> None:
    """Wait until the condition holds; fail when time is over or the process ends before."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        if process is not None and process.poll() is not None:
            raise AssertionError(f"ended early: {process.communicate()}")
        time.sleep(0.02)
