"""A comparison of runs: checked, measured step by step, written into a folder, told."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from PIL import Image

from dltb import UsageError
from dltb.imaging.atomic import replacing
from dltb.metrics.compare import (
    CURVE_COLUMNS,
    ROW_COLUMNS,
    Curves,
    Row,
    Series,
    Step,
    measure,
    measure_tails,
    summarize,
    write_curves,
    write_rows,
)
from dltb.metrics.compare_plot import plot_comparison
from dltb.metrics.compare_text import comparison_text
from dltb.output.files import check_output, first_line
from dltb.output.identity import KEY, run_id
from dltb.output.progress import Progress
from dltb.output.run_directory import differences, locked
from dltb.runs.compared import ComparedRun, common_numbers, find_source, open_runs, read_steps, read_tails

TOOL = "dltb-compare"
TABLE, CURVES, PLOT = "compare.csv", "compare_curves.csv", "compare.png"
ELSEWHERE = "give another --out"


def compare_runs(paths: Sequence[str], *, source: str | None, out: str, confidence: float, resamples: int) -> None:
    """Check everything, measure, write the files, print the table."""
    folder = find_out(out)
    runs = open_runs(paths)
    clip = find_source(source, runs[0])
    numbers = common_numbers(runs)
    told = describe(runs, confidence=confidence, resamples=resamples)
    with locked(folder / TABLE, otherwise=ELSEWHERE):
        check_older(folder, told)
        for text in notes(runs, numbers):
            print(f"NOTE: {text}")
        series, curves = measure_runs(runs, clip, numbers)
        names = [run.label for run in runs]
        rows = summarize(series, names, confidence=confidence, resamples=resamples)
        write(folder, rows, curves, names, told)
    print(f"{', '.join(str(folder / name) for name in (TABLE, CURVES, PLOT))}: {len(numbers)} frames against {clip}")
    print(comparison_text(rows, curves, names, confidence=confidence))


def find_out(text: str) -> Path:
    """The folder of the results; refused where it cannot be written or holds files that this tool did not make."""
    if not text:
        raise UsageError("--out is empty; give a folder, or leave the flag out")
    for name in (TABLE, CURVES, PLOT):
        check_output(Path(text) / name, is_ours=is_ours, tool=TOOL, otherwise=ELSEWHERE)
    return Path(text)


def is_ours(path: Path) -> bool:
    """Whether an existing file is one of this tool's: a table by its header, the figure by its text chunk."""
    if path.name != PLOT:
        return first_line(path) == ",".join(ROW_COLUMNS if path.name == TABLE else CURVE_COLUMNS)
    return text_of(path).get("Software") == TOOL


def text_of(figure: Path) -> dict[str, str]:
    """Text chunks of a PNG; none where there is no PNG."""
    try:
        with Image.open(figure, formats=("PNG",)) as image:
            return {name: value for name, value in image.info.items() if isinstance(value, str)}
    except (OSError, ValueError, SyntaxError):
        return {}


def describe(runs: Sequence[ComparedRun], **settings: float) -> dict[str, Any]:
    """What tells this comparison from another: the runs, where they lie and how they were made, and the settings."""
    inputs = {str(run.directory.resolve()): run.settings for run in runs}
    return {"runs": ", ".join(run.label for run in runs), "inputs": run_id(TOOL, inputs), **settings}


def check_older(folder: Path, told: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another comparison, or one that does not say which it is; the same one is replaced."""
    if not any((folder / name).exists() for name in (TABLE, CURVES, PLOT)):
        return
    older = text_of(folder / PLOT).get(KEY)
    if older is None:
        raise UsageError(f"{folder} holds a comparison that does not say which runs it is of; {ELSEWHERE}")
    if different := differences(json.loads(older), told):
        raise UsageError(f"{folder} holds another comparison ({'; '.join(different)}); {ELSEWHERE}")


def notes(runs: Sequence[ComparedRun], numbers: Sequence[int]) -> list[str]:
    """What a reader of the numbers should know about the runs."""
    said = [f"{run.directory} is unfinished" for run in runs if not run.complete]
    said += [f"{run.directory}: missing frames: {run.main.describe_gaps()}" for run in runs if run.main.gaps]
    left_out = {run.directory: len(run.main.numbers) - len(numbers) for run in runs}
    said += [
        f"{place}: {count} saved frames are not in all runs, left out" for place, count in left_out.items() if count
    ]
    return said


def measure_runs(runs: Sequence[ComparedRun], source: Path, numbers: Sequence[int]) -> tuple[Series, Curves]:
    """Series and curves of the main loops, then of the tails."""

    def watched_steps() -> Iterator[Step]:
        with Progress("compare", len(numbers), unit="frames") as progress:
            for step in read_steps(runs, source, numbers, on_note=lambda text: print(f"NOTE: {text}")):
                yield step
                progress.step()

    series, curves = measure(watched_steps(), [run.label for run in runs])
    for run in runs:
        own_series, own_curves = measure_tails(read_tails(run), run.label)
        series |= own_series
        curves |= own_curves
    return series, curves


def write(out: Path, rows: Sequence[Row], curves: Curves, runs: Sequence[str], told: Mapping[str, Any]) -> None:
    """Write the three files whole, or none of them; the figure says what ``describe`` told."""
    text = {"Software": TOOL, KEY: json.dumps(told)}
    with ExitStack() as stack:
        table, lines, plot = (stack.enter_context(replacing(out / name)) for name in (TABLE, CURVES, PLOT))
        write_rows(table, rows)
        write_curves(lines, curves)
        plot_comparison(rows, curves, runs, plot, confidence=told["confidence"], text=text)
