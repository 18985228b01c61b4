"""The page about several runs: side by side under one scrubber, an A/B wipe, and the tables that compare them."""

import base64
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.metrics.bootstrap import Interval
from dltb.metrics.compare import SOURCE, Key, Row, difference, measure, summarize
from dltb.output.progress import Progress
from dltb.pages.frames import find_clip
from dltb.pages.panels import Pictures
from dltb.pages.render import render
from dltb.pages.report import Link, RunPage, short_facts, text
from dltb.pages.run import Run
from dltb.runs.compared import common_numbers, find_source, open_runs, read_steps

SUMMARIES = ("summary.csv", "stability_sweep.csv")  # what a sweep leaves in its root
GRID_TABLE = "sweep.csv"  # of dltb-sweep; most of its columns say what all legs have in common
SUMMARY_ROWS = 1000
MOST_COMPARED = 12
# Settings that say where a run was made rather than what it is.
NOT_TOLD = ("input sha256", "make_conditioning")
_METRICS, _ZONES = ("mad", "detail", "saturation", "delta_prev"), ("inside", "outside", "inside-outside", "frame")


@dataclass(frozen=True)
class Table:
    """A table for a page."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Member:
    """One of several runs, reduced to what they are compared by."""

    run: Run
    label: str
    href: str  # of its own page
    numbers: list[int]
    cells: list[int]  # the picture of each pass; -1: none
    full: list[str | None]
    charts: list[dict[str, Any]]
    pictures: list[str] = field(repr=False)  # WebP as base64

    @classmethod
    def of(cls, page: RunPage, label: str, *, href: str, link: Link, limit: int) -> "Member":
        """Keep at most ``limit`` passes of the main loop, with the outputs alone."""
        stretch, shown, charts = next(page.stretches)
        step = max(1, -(-len(shown.numbers) // limit))
        places = sorted({*range(0, len(shown.numbers), step), *([len(shown.numbers) - 1] if shown.numbers else [])})
        encoded, own = page.pictures.encoded(), Pictures()
        cells = [shown.cells["output"][place] for place in places]
        numbers = [shown.numbers[place] for place in places]
        return cls(
            run=page.run,
            label=label,
            href=href,
            numbers=numbers,
            cells=[own.add(encoded[cell]) if cell >= 0 else -1 for cell in cells],
            full=[link(stretch.frames[n]) if n in stretch.frames else None for n in numbers],
            charts=charts,
            pictures=[base64.b64encode(picture).decode() for picture in own.encoded()],
        )

    @property
    def last(self) -> str | None:
        """The last picture there is."""
        shown = [cell for cell in self.cells if cell >= 0]
        return self.pictures[shown[-1]] if shown else None


def comparison_page(
    members: Sequence[Member],
    *,
    title: str,
    sweeps: Sequence[Path] = (),
    clip: Path | None = None,
    statistics: bool = True,
    home: str = "",
    nonce: str = "",
) -> str:
    """The HTML about several runs; ``sweeps`` are folders in which one may have left its summary."""
    tables = [*_sweep_tables(sweeps), _differences(members), _endings(members)]
    compared, why = None, "" if len(members) == 1 else "they take a while; dltb-report makes them"
    if statistics and len(members) > 1:
        compared, why = _compared(members, clip)
    return render(
        "comparison.html.j2",
        nonce=nonce,
        home=home,
        title=title,
        members=members,
        facts=[short_facts(member.run) for member in members],
        tables=[table for table in (*tables, compared) if table is not None and table.rows],
        why_not_compared=why,
        data={"runs": [_data(member) for member in members]},
    )


def _data(member: Member) -> dict[str, Any]:
    drawn = {one["name"]: {"x": one["x"], "y": one["y"], "verdict": one["verdict"]} for one in _series(member)}
    told = {"label": member.label, "numbers": member.numbers, "cells": member.cells, "full": member.full}
    return told | {"pictures": member.pictures, "series": drawn}


def _series(member: Member) -> Iterator[dict[str, Any]]:
    return (one for chart in member.charts for one in chart["series"])


def _differences(members: Sequence[Member]) -> Table | None:
    """The settings in which the runs differ."""
    if len(members) < 2:
        return None
    settings = [member.run.settings for member in members]
    names = [name for name in dict.fromkeys(n for own in settings for n in own) if name not in NOT_TOLD]
    told = {name: [text(own[name]) if name in own else "" for own in settings] for name in names}
    differing = [name for name in names if len(set(told[name])) > 1]
    rows = [(member.label, *(told[name][i] for name in differing)) for i, member in enumerate(members)]
    return Table("Settings that differ", ("run", *differing), rows if differing else ())


def _endings(members: Sequence[Member]) -> Table:
    """Where every series of every run ends, and its verdict."""
    names = list(dict.fromkeys(one["name"] for member in members for one in _series(member) if one["verdict"]))
    found = [{one["name"]: one for one in _series(member)} for member in members]
    rows = [
        (member.label, *(_ending(own.get(name)) for name in names)) for member, own in zip(members, found, strict=True)
    ]
    return Table("Where the series end: last value, verdict", ("run", *names), rows if names else ())


def _ending(series: Mapping[str, Any] | None) -> str:
    if series is None:
        return ""
    return f"{series['last']:.4g}" + (f", {series['verdict']['headline']}" if series["verdict"] else "")


def _sweep_tables(folders: Sequence[Path]) -> Iterator[Table]:
    for folder in folders:
        for name in SUMMARIES:
            if (folder / name).is_file():
                yield _read_csv(folder / name)
        if (folder / GRID_TABLE).is_file():
            yield _differing(_read_csv(folder / GRID_TABLE))


def _differing(table: Table) -> Table:
    """The first column, which names the leg, and those in which rows differ, less the paths of the runs."""
    even = [row for row in table.rows if len(row) == len(table.head)]
    varied = [place for place in range(1, len(table.head)) if len({row[place] for row in even}) > 1]
    kept = [place for place in [0, *varied] if table.head[place] != "run"]
    rows = [[row[place] for place in kept] for row in even]
    return replace(table, head=[table.head[place] for place in kept], rows=rows)


def _read_csv(path: Path) -> Table:
    """Any CSV as it is; one that cannot be read says so."""
    title = f"{path.parent.name}/{path.name}"
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = list(csv.reader(io.StringIO(file.read(4 << 20))))
    except (OSError, csv.Error) as error:
        return Table(title, ("problem",), [(str(error),)])
    note = f"the first {SUMMARY_ROWS} of {len(rows) - 1} rows" if len(rows) > SUMMARY_ROWS + 1 else ""
    return Table(title, rows[0] if rows else (), rows[1 : SUMMARY_ROWS + 1], note)


def _compared(members: Sequence[Member], clip: Path | None) -> tuple[Table | None, str]:
    """The statistics of dltb-compare, or why there are none."""
    if not all(member.run.is_video for member in members):
        return None, "it takes runs of a clip"
    if len(members) > MOST_COMPARED:
        return None, f"it takes at most {MOST_COMPARED} runs here, since every two of them are compared"
    try:
        runs = open_runs([str(member.run.directory) for member in members])
        found, _ = find_clip(members[0].run, clip)
        source = find_source(str(found) if found else None, runs[0])
        numbers = common_numbers(runs)
        with Progress("compare", len(numbers), unit="frames") as progress:
            steps = (
                step for step in read_steps(runs, source, numbers, on_note=lambda note: None) if not progress.step()
            )
            series, _ = measure(steps, [run.label for run in runs])
    except UsageError as error:
        return None, str(error)
    labels = dict(zip([run.label for run in runs], [member.label for member in members], strict=True))
    note = (
        f"Over the {len(numbers)} frames that all runs saved; mean [95 % interval], paired difference to the first run"
    )
    return _statistics(summarize(series, list(labels)), labels, note), ""


def _statistics(rows: Sequence[Row], labels: Mapping[str, str], note: str) -> Table:
    found, first = {row.key: row.interval for row in rows}, next(iter(labels))
    cells = []
    for metric in _METRICS:
        for zone in _ZONES:
            for run, label in {SOURCE: "the source itself", **labels}.items():
                interval = found.get(Key(run, zone, metric))
                minus = found.get(Key(difference(run, first), zone, metric))
                if interval is not None:
                    cells.append((metric, zone, label, _interval(interval), _interval(minus), str(interval.samples)))
    head = ("metric", "zone", "run", "mean", f"minus {labels[first]}", "frames")
    return Table("Comparison with the source, inside and outside its disocclusions", head, cells, note)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    ends = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval.low is not None else ""
    return f"{interval.mean:.2f}{ends}"
