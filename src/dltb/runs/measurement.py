"""The measurement of a run that is complete: its table, its figures, and in run.json what they were made with.

Frames outlive measurements: a run that is asked for with another metric keeps its passes and is measured again.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dltb import RunError, UsageError
from dltb.imaging.folder import list_frames
from dltb.imaging.frames import read_image
from dltb.metrics.distances import Distance, Metric, score, summarize
from dltb.metrics.dynamics import Cycle, measure_run, table_columns
from dltb.metrics.plot import plot_dynamics, plot_table
from dltb.metrics.tables import Columns, read_columns, write_columns
from dltb.output.files import write_json
from dltb.output.progress import watched
from dltb.output.run_directory import differences, locked, read_manifest
from dltb.output.segments import ANEW
from dltb.runs.metric import MetricChoice, describe_metric, summary_text

TABLE, PLOT, DYNAMICS_PLOT = "distance_metrics.csv", "distance_plot.png", "dynamics_plot.png"
RECORD = "measurement"  # of run.json
DECIDES = (
    "metric",
    "dreamsim_type",
    "patch",
    "versions",
)  # of describe_metric: with others, a number is another number
COLUMNS_TOO = (*DECIDES, "lag")  # with others, the table is another table


def measure_once(directory: Path, choice: MetricChoice, load: Callable[[], Metric]) -> None:
    """Make the table and the figures that are missing or were made with other settings, and say what they hold.

    Raises:
        UsageError: when another process is at it.
    """
    with locked(directory):
        record = read_manifest(directory).get(RECORD) or {}
        current = is_measured(directory, choice)
        if not current:
            other = changes(record, choice, COLUMNS_TOO)
            if other:
                print(f"NOTE: measured again, the frames are kept ({'; '.join(other)})")
            measure(directory, choice, load())
        figures = all((directory / name).exists() for name in (PLOT, DYNAMICS_PLOT))
        if not (current and figures and record.get("converged_below") == choice.converged_below):
            _draw(directory, choice)
            _note(directory, {RECORD: describe_metric(choice)})  # last: what a kill leaves is made again
    _tell(directory, choice)


def changes(record: dict[str, Any], choice: MetricChoice, names: Collection[str] = DECIDES) -> list[str]:
    """What differs between a recorded measurement and this one, of the settings named; nothing where none is recorded."""
    there, here = (
        {name: found[name] for name in names if name in found} for found in (record, describe_metric(choice))
    )
    return differences(there, here) if there else []


def is_measured(directory: Path, choice: MetricChoice) -> bool:
    """Whether the run has a table that was made with these settings and has a row for every pass."""
    manifest = read_manifest(directory)
    record = manifest.get(RECORD) or {}
    if not record or changes(record, choice, COLUMNS_TOO):
        return False
    try:
        names, columns = read_columns(directory / TABLE)
    except UsageError:
        return False
    wanted = ["to_ref", "to_prev"] + ["input_to_ref"] * (manifest["settings"]["anchor_blend"] is not None)
    complete = len(names) == manifest["passes"]["main"]
    return complete and {choice.spec.column(name) for name in wanted} <= set(columns)


def measure(directory: Path, choice: MetricChoice, metric: Metric) -> None:
    """Measure every frame, and every kept input, against the prepared original, and write the table."""
    _note(directory, {RECORD: None})  # until the table is whole, run.json says nothing about it
    original = read_image(directory / "frame_0000_original.png")
    passes = read_manifest(directory)["passes"]["main"]
    paths = _all_passes(directory / "frames", passes)
    frames = map(read_image, watched(paths, "distance", "frames"))
    measured = measure_run(frames, original, metric, batch_size=choice.batch_size, lag=choice.lag)
    input_to_ref = None
    if (directory / "inputs").is_dir():
        inputs = map(read_image, watched(_all_passes(directory / "inputs", passes), "inputs", "frames"))
        scored = score(inputs, original, metric, batch_size=choice.batch_size)
        input_to_ref = [row.to_ref for row in scored]
    columns = table_columns(measured, choice.spec, lag=choice.lag, input_to_ref=input_to_ref)
    write_columns(directory / TABLE, [path.stem for path in paths], columns)
    _note(directory, {"cycle": asdict(measured.cycle) if measured.cycle else None})


def _all_passes(folder: Path, passes: int) -> Sequence[Path]:
    """The frame of every pass; RunError when one is gone."""
    sequence = list_frames(folder)
    gone = sorted(set(range(1, passes + 1)) - set(sequence.numbers))
    if gone:
        raise RunError(f"{folder / f'frame_{gone[0]:04d}.png'} is gone ({len(gone)} missing in all); {ANEW}")
    return sequence.paths


def _note(directory: Path, facts: dict[str, Any]) -> None:
    """Add to run.json."""
    write_json(directory / "run.json", read_manifest(directory) | facts)


def _draw(directory: Path, choice: MetricChoice) -> None:
    table, title = directory / TABLE, directory.name
    plot_table(table, directory / PLOT, title=title, converged_below=choice.converged_below)
    plot_dynamics(table, directory / DYNAMICS_PLOT, title=title)


def _tell(directory: Path, choice: MetricChoice) -> None:
    """Means, peaks and verdicts, from what is on disk."""
    names, columns = read_columns(directory / TABLE)
    rows = _distances(columns, choice)
    print(summary_text(choice, names, rows, summarize(rows, converged_below=choice.converged_below)))
    cycle = read_manifest(directory).get("cycle")
    if cycle:
        print(Cycle(**cycle))


def _distances(columns: Columns, choice: MetricChoice) -> list[Distance]:
    to_ref, to_prev = (columns[choice.spec.column(name)] for name in ("to_ref", "to_prev"))
    return [Distance(ref or 0.0, prev) for ref, prev in zip(to_ref, to_prev, strict=True)]
