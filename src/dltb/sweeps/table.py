"""sweep.csv: one row a run with its settings, what became of it, and what it measured; made from run directories alone.

So it is the same whether it grows while a sweep runs or is rebuilt afterwards, and it reads bash sweeps too.
"""

import csv
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.metrics.tables import read_columns, write_csv
from dltb.sweeps.grid import Leg
from dltb.sweeps.root import TABLE, Run, find_run, read_error, read_record, read_run

Row = Mapping[str, Any]
LAST = 10  # frames over which a series is averaged, as in the tools' own summaries
STATES = {"running": "unfinished"}  # run.json says running also after a kill; the others are taken as they stand
FIRST = ("leg", "run", "tool", "status", "reason", "passes_made", "seconds_per_pass")
MEASURED = "measured: "  # marks these columns until all rows are together
WRITE_EVERY = 1.0  # s, at most, while legs end


class SweepTable:
    """The table of a sweep's root while its legs run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._legs = read_record(root)
        self._rows = dict(_rows(root, self._legs))
        self._written = -WRITE_EVERY

    def refresh(self, name: str) -> None:
        """Read one leg again."""
        self._rows[name] = _leg_row(self._root, self._legs[name])

    def update(self, name: str) -> Row:
        """The same, and write the table unless that was done just now."""
        self.refresh(name)
        if time.monotonic() - self._written >= WRITE_EVERY:
            self.write()
        return self._rows[name]

    def write(self) -> None:
        """Write the table whole."""
        write_table(self._root / TABLE, list(self._rows.values()))
        self._written = time.monotonic()


def collect(root: Path) -> int:
    """Rebuild the table of ``root`` from what is there; the number of its rows comes back.

    Raises:
        UsageError: when there is no run below it.
    """
    if not root.is_dir():
        raise UsageError(f"--collect {root}: no such folder; give the root of a sweep, or any folder of runs")
    rows = dict(_rows(root, read_record(root)))
    if not rows:
        raise UsageError(f"--collect {root}: no run.json of dltb below it")
    write_table(root / TABLE, list(rows.values()))
    return len(rows)


def _rows(root: Path, legs: Mapping[str, Leg]) -> Iterator[tuple[str, Row]]:
    """The sweep's own legs in their order, then every other run below the root by its path."""
    for leg in legs.values():
        yield leg.name, _leg_row(root, leg)
    for directory in find_runs(root, leave_out=set(legs)):
        run = read_run(directory)
        if run is not None:
            name = directory.relative_to(root).as_posix()
            yield name, _row(name, root, run, None)


def find_runs(root: Path, leave_out: set[str] = frozenset()) -> Iterator[Path]:
    """Run directories below ``root``, by name, less those in its subdirectories ``leave_out``."""
    for folder, below, files in os.walk(root):
        here = Path(folder)
        if "run.json" in files:
            below.clear()
            yield here
        elif here == root:
            below[:] = [name for name in below if name not in leave_out]
        below[:] = sorted(name for name in below if not name.startswith("."))


def _leg_row(root: Path, leg: Leg) -> Row:
    directory = root / leg.name
    error = read_error(directory)
    try:
        run = find_run(directory)
    except UsageError as several:
        run, error = None, str(several)
    if run is not None:
        return _row(leg.name, root, run, error)
    told = {"leg": leg.name, "run": None, "tool": leg.tool, "status": "failed" if error else "planned", "reason": error}
    return told | {key.replace("-", "_"): value for key, value in leg.settings.items()}


def _row(name: str, root: Path, run: Run, error: str | None) -> Row:
    manifest = run.manifest
    status = str(manifest.get("status"))
    try:
        measured, problem = _measured(run), None
    except UsageError as damaged:  # one table must not hide the other runs
        measured, problem = {}, f"not measured: {damaged}"
    own = {
        "leg": name,
        "run": run.directory.relative_to(root).as_posix(),
        "tool": manifest["tool"],
        "status": STATES.get(status, status),
        "reason": error or problem or manifest.get("reason"),
        "passes_made": sum(manifest.get("passes", {}).values()),
        "seconds_per_pass": manifest.get("median_seconds_per_pass"),
    }
    measured = {MEASURED + key: value for key, value in measured.items()}
    settings = {key: value for key, value in manifest["settings"].items() if not key.endswith(" version")}
    return own | measured | {key.replace(" ", "_"): value for key, value in settings.items() if key not in own}


def _measured(run: Run) -> dict[str, Any]:
    """The last values of every series of the run's tables, and the verdicts on them."""
    found: dict[str, Any] = {}
    for table, prefix in (("drift_metrics.csv", "drift_"), ("distance_metrics.csv", "")):
        if (run.directory / table).exists():
            _, columns = read_columns(run.directory / table)
            found |= {prefix + key.removeprefix("delta_"): _last_mean(key, values) for key, values in columns.items()}
    try:
        return found | dict(_verdicts(run))
    except (csv.Error, LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        raise UsageError(f"the verdicts of {run.directory} cannot be read ({type(error).__name__}: {error})") from None


def _last_mean(key: str, values: list[float | None]) -> float | None:
    """Mean of the last values; the first of a pixel drift to the frame before is a definition, not a measurement."""
    known = [value for value in (values[1:] if key == "delta_prev" else values)[-LAST:] if value is not None]
    return statistics.fmean(known) if known else None


def _verdicts(run: Run) -> Iterator[tuple[str, Any]]:
    """For every series that was judged its verdict, and if it settled, at which value and from which frame on."""
    judged = list((run.manifest.get("stability") or {}).items())  # a leg of dltb-stability-sweep
    report = run.directory / "stabilization_report.csv"
    if report.exists():
        with report.open(newline="", encoding="utf-8") as file:
            judged += [(line["series"], line) for line in csv.DictReader(file)]
    for series, line in judged:
        yield f"{series}_verdict", line["verdict"]
        if line["verdict"] == "stable":
            yield from ((f"{series}_plateau", line["value"]), (f"{series}_settled_at", line["frame"]))


def write_table(path: Path, rows: list[Row]) -> None:
    """Write the CSV whole or not at all; a column that a row does not have is empty there."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = [*FIRST]
    for is_measured in (True, False):
        columns += [key for key in keys if key.startswith(MEASURED) is is_measured and key not in FIRST]
    header = [key.removeprefix(MEASURED) for key in columns]
    write_csv(path, header, ([_cell(row.get(key)) for key in columns] for row in rows))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.8g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
