"""The distances of a run that lies on disk: its frames found and checked, measured, written, told."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dltb import UsageError
from dltb.args.metric_options import DistanceOptions, MetricOptions
from dltb.imaging.folder import FrameSequence, common_size, find_frames, find_reference, list_frames, run_directory
from dltb.imaging.frames import read_image
from dltb.metrics.distances import DistanceSummary, Metric, check_size, summarize
from dltb.metrics.dynamics import Growth, Measured, growth_rate, measure_run, table_columns
from dltb.metrics.tables import Columns, write_columns
from dltb.output.files import check_output, first_line, is_report, write_json
from dltb.output.progress import watched
from dltb.output.run_directory import belongs_to, locked
from dltb.runs.metric import MetricChoice, choose_metric, describe_metric, inert_options, load_chosen, summary_text

TOOL, TABLE_NAME = "dltb-distance", "distance_metrics.csv"
SELF_MEASURING = ("dltb-distance-loop", "dltb-distance-feedback", "dltb-stability-sweep")


@dataclass(frozen=True)
class Found:
    """Frames of one size, and what they are compared with."""

    folder: Path
    frames: FrameSequence  # those that are measured
    reference: Path | None  # None: the first frame
    other: Path | None  # the frames folder of another run
    partners: Sequence[Path | None] | None  # its frame of the same number, for each

    @property
    def names(self) -> list[str]:
        return [path.stem for path in self.frames.paths]

    @property
    def compared_with(self) -> str:
        return (self.reference or self.frames.paths[0]).name


def measure_folder(options: DistanceOptions, metric: MetricOptions, *, given: Collection[str] = ()) -> None:
    """Check everything, measure, write the table and the report, print the summary."""
    choice = choose_metric(metric, options.device)
    found = find_run(options, choice)
    table, report = find_outputs(options, found.folder)
    for note in inert_options(choice, given):
        print(f"NOTE: {note}")
    with locked(table, otherwise="give another --out"):
        measured = measure(found, load_chosen(choice), choice)
        columns = table_columns(measured, choice.spec, lag=choice.lag, against=found.partners is not None)
        write_columns(table, found.names, columns)
        summary = summarize(measured.rows, converged_below=choice.converged_below)
        growth = find_growth(found, measured)
        if report:
            write_json(report, describe(found, options.every, choice, columns, summary, measured, growth))
    print(f"{table}: {len(found.names)} frames against {found.compared_with}")
    if found.frames.gaps:
        print(f"NOTE: missing frames: {found.frames.describe_gaps()}")
    print(summary_text(choice, found.names, measured.rows, summary))
    if measured.cycle:
        print(measured.cycle)
    if growth:
        shared = sum(row.to_other is not None for row in measured.rows)
        print(f"{choice.spec.column('to_other')} over {shared} common frames: {growth}")


def find_run(options: DistanceOptions, choice: MetricChoice) -> Found:
    """The frames that are to be measured; UsageError where that cannot be done."""
    if not options.source:
        raise UsageError("the path is empty; give a run directory or a frames folder")
    folder = find_frames(options.source)
    sequence = list_frames(folder)
    if not sequence.paths:
        raise UsageError(f"no frames of the main loop in {folder}, only tails")
    taken, reference = sequence.every(options.every), find_reference(folder)
    width, height = common_size([*taken.paths, reference] if reference else taken.paths)
    check_size(choice.spec, width=width, height=height)
    if options.against is None:
        return Found(folder, taken, reference, None, None)
    if not options.against:
        raise UsageError("--against is empty; give a run directory or a frames folder")
    other = find_frames(options.against)
    return Found(folder, taken, reference, other, find_partners(options.against, other, taken, (width, height)))


def find_partners(given: str, other: Path, taken: FrameSequence, size: tuple[int, int]) -> list[Path | None]:
    """The frame of the same number in another run, for every frame that is measured."""
    sequence = list_frames(other)
    there = dict(zip(sequence.numbers, sequence.paths, strict=True))
    partners = [there.get(number) for number in taken.numbers]
    common = [path for path in partners if path is not None]
    if not common:
        held = f"{sequence.numbers[0]} to {sequence.numbers[-1]}" if there else "no main loop"
        here = f"{taken.numbers[0]} to {taken.numbers[-1]}"
        raise UsageError(f"--against {given}: no frame number in common, {held} there and {here} here")
    theirs = common_size(common)
    if theirs != size:
        there_px, here_px = ("{}x{}".format(*pair) for pair in (theirs, size))
        told = f"its frames are {there_px} px, those of this run {here_px} px"
        raise UsageError(f"--against {given}: {told}; give two runs of one size")
    return partners


def find_outputs(options: DistanceOptions, folder: Path) -> tuple[Path, Path | None]:
    """The table and the report, refused before anything is computed where they cannot be written."""
    for flag, text in (("--out", options.out), ("--json", options.json)):
        if text == "":
            raise UsageError(f"{flag} is empty; give a file, or leave the flag out")
    table = Path(options.out) if options.out is not None else run_directory(folder) / TABLE_NAME
    if table.name == TABLE_NAME and belongs_to(table.resolve().parent, SELF_MEASURING):
        raise UsageError(f"{table} is the table of a run that measures itself; give --out for another one")
    report = Path(options.json) if options.json is not None else None
    if report and table.resolve() == report.resolve():
        raise UsageError(f"--out and --json are the same file, {table}")
    for path, flag, is_ours in ((table, "--out", is_table), (report, "--json", partial(is_report, tool=TOOL))):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise UsageError(f"{flag} {path}: {path.parent} is not a folder")
        check_output(path, is_ours=is_ours, tool=TOOL, otherwise=f"give another {flag}")
    return table, report


def is_table(path: Path) -> bool:
    """Whether an existing file is a table of this tool, by its header."""
    head = first_line(path).split(",")
    return len(head) >= 3 and head[0] == "frame" and head[1].endswith("_to_ref") and head[2].endswith("_to_prev")


def measure(found: Found, metric: Metric, choice: MetricChoice) -> Measured:
    """What there is to know of every frame, in their order."""

    def read(path: Path | None) -> np.ndarray | None:
        return None if path is None else read_image(path)

    frames = map(read_image, watched(found.frames.paths, "distance", "frames"))
    others = None if found.partners is None else map(read, found.partners)
    return measure_run(
        frames, read(found.reference), metric, batch_size=choice.batch_size, lag=choice.lag, others=others
    )


def find_growth(found: Found, measured: Measured) -> Growth | None:
    """How fast the two runs part; None without another run."""
    if found.partners is None:
        return None
    rows = measured.rows
    return growth_rate(found.frames.numbers, [row.to_other for row in rows], [row.levels for row in rows])


def describe(
    found: Found,
    every: int,
    choice: MetricChoice,
    columns: Columns,
    summary: DistanceSummary,
    measured: Measured,
    growth: Growth | None,
) -> dict[str, Any]:
    """The JSON report; its ``summary`` names the peaks' frames, and says of a cycle or a growth that there is none."""
    names = found.names
    source = {"frames": str(found.folder.resolve()), "reference": found.compared_with, "every": every}
    return {
        "tool": TOOL,
        **source,
        **({"against": str(found.other.resolve())} if found.other else {}),
        **describe_metric(choice),
        "summary": {
            "last": summary.last,
            "mean_to_ref": summary.to_ref,
            "mean_to_prev": summary.to_prev,
            "peak_to_ref": names[summary.peak_ref],
            "peak_to_prev": None if summary.peak_prev is None else names[summary.peak_prev],
            "converged": summary.converged,
        },
        "cycle": asdict(measured.cycle) if measured.cycle else None,
        "growth": asdict(growth) if growth else None,
        "rows": [
            dict(zip(("frame", *columns), row, strict=True)) for row in zip(names, *columns.values(), strict=True)
        ],
    }
