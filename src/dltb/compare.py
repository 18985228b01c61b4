"""dltb-compare: what differs between runs of one clip, as statistics, since their frames do not stay comparable."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.parser import ToolParser, add_options, number, option, read_options, whole

if TYPE_CHECKING:
    from dltb.metrics.bootstrap import Interval
    from dltb.metrics.compare import Curves, Key, Row
    from dltb.runs.compared import ComparedRun

DESCRIPTION = """\
Compare runs of one clip. The loop amplifies every difference, so runs that differ in one flag soon show different frames:
they are compared by statistics over the frames that all of them saved. Measured on each frame, inside and outside the
disocclusion zones of the source clip (what --reproject-mask would repaint: --reproject-mask's own defaults, on the source
frames n-1 and n, and the same for every run):

  mad          mean absolute difference to the source frame, 0..255
  detail       mean |Laplacian| of the luma, in levels: high in noise and smears with hard edges, low in blur
  saturation   mean S of HSV, 0..255
  delta_prev   mean absolute difference to the frame taken before it: churn

The row "source" is the ground truth. "minus A" (run "B - A" in the CSV) is the difference to the first run over the same
frames, pair by pair; it settles a question when its interval leaves out 0. Intervals: moving-block bootstrap, whose blocks
are as long as a series' autocorrelation asks for; none for fewer than 6 frames. They say how well the mean over these
frames is known; another clip or seed may differ by more, and where a series has a trend it is the mean of this stretch
only.

Writes into --out:

  compare.csv          run, zone, metric, mean, low, high, frames; zones: frame, inside, outside,
                       inside-outside (the difference of the two in each frame), tail <mode>. The source alone has
                       masked_percent and out_of_frame_percent (of a frame's pixels), tails have luma and delta_prev
  compare_curves.csv   curve, frame, value: MAD between frames of equal number, for every pair of runs and for every pair
                       of tails of a run (which start from one state), and the luma of every tail
  compare.png          all of it as a figure
"""

EPILOG = """\
example, with and without the mask:
  dltb-klein --model tiny-klein --conditioning dual-ref --save-every 1
  dltb-klein --model tiny-klein --conditioning dual-ref --save-every 1 --reproject-mask
  dltb-compare untracked/output_tiny_klein/courtyard_dualref untracked/output_tiny_klein/courtyard_dualref-fbmask
"""
TABLE, CURVES, PLOT = "compare.csv", "compare_curves.csv", "compare.png"


@dataclass(frozen=True)
class CompareOptions:
    """What dltb-compare is asked for, besides the runs."""

    source: str | None = option(
        None,
        "the clip that the runs were made from; not needed for the example clip",
        metavar="VIDEO",
    )
    out: str = option(
        "untracked/compare",
        "folder of the results, made if missing; an older comparison in it is replaced",
        metavar="DIR",
    )
    confidence: float = option(
        0.95, "share of such intervals that hold the mean", metavar="F", parse=number(0.5, 0.999)
    )
    resamples: int = option(1000, "bootstrap samples of each series", metavar="N", parse=whole(100, at_most=100_000))


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-compare."""
    parser = ToolParser(prog="dltb-compare", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run directories of dltb-continuous or dltb-klein")
    add_options(parser, CompareOptions, "comparison")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-compare and return its exit code."""

    def work() -> None:
        parsed = build_parser().parse_args(argv)
        compare(parsed.runs, read_options(CompareOptions, parsed))

    return run_tool(work)


def compare(paths: Sequence[str], options: CompareOptions) -> None:
    """Check everything, measure, write the files, print the table."""
    from dltb.metrics.compare import summarize
    from dltb.metrics.compare_plot import letters_of
    from dltb.runs.compared import common_numbers, find_source, open_runs

    runs = open_runs(paths)
    source = find_source(options.source, runs[0])
    numbers = common_numbers(runs)
    out = Path(options.out)
    check_out(options.out)
    letters = letters_of([run.label for run in runs])
    for text in notes(runs, numbers):
        print(f"NOTE: {text}")
    series, curves = measure_runs(runs, source, numbers)
    rows = summarize(series, list(letters), confidence=options.confidence, resamples=options.resamples)
    write(out, rows, curves, list(letters), options.confidence)
    print(f"{', '.join(str(out / name) for name in (TABLE, CURVES, PLOT))}: {len(numbers)} frames against {source}")
    print(report(rows, curves, letters, options.confidence))


def check_out(text: str) -> None:
    """Refuse, before anything is measured, a place that cannot be written or holds files that this tool did not make."""
    if not text:
        raise UsageError("--out is empty; give a folder, or leave the flag out")
    out = Path(text)
    place = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out}: cannot write in {place}; give another folder")
    for name in (TABLE, CURVES, PLOT):
        path = out / name
        if os.path.lexists(path) and not is_ours(path):
            raise UsageError(f"{path} exists and was not written by dltb-compare; give another --out")


def is_ours(path: Path) -> bool:
    """Whether an existing file is one of this tool's: a table by its header, the figure by its text chunk."""
    from PIL import Image

    from dltb.metrics.compare import CURVE_COLUMNS, ROW_COLUMNS
    from dltb.metrics.compare_plot import MADE_BY

    if not path.is_file():
        return False
    if path.name == PLOT:
        try:
            with Image.open(path, formats=("PNG",)) as image:
                return image.info.get("Software") == MADE_BY["Software"]
        except (OSError, ValueError, SyntaxError):
            return False
    header = ",".join(ROW_COLUMNS if path.name == TABLE else CURVE_COLUMNS)
    with path.open("rb") as file:
        return file.readline(1000).decode("utf-8", "replace").rstrip("\r\n") == header


def notes(runs: Sequence["ComparedRun"], numbers: Sequence[int]) -> list[str]:
    """What a reader of the numbers should know about the runs."""
    said = [f"{run.directory} is unfinished" for run in runs if not run.complete]
    said += [f"{run.directory}: missing frames: {run.main.describe_gaps()}" for run in runs if run.main.gaps]
    left_out = {run.directory: len(run.main.numbers) - len(numbers) for run in runs}
    said += [
        f"{place}: {count} saved frames are not in all runs, left out" for place, count in left_out.items() if count
    ]
    return said


def measure_runs(
    runs: Sequence["ComparedRun"], source: Path, numbers: Sequence[int]
) -> tuple[dict["Key", dict[int, float]], "Curves"]:
    """Series and curves of the main loops, then of the tails."""
    from dltb.metrics.compare import measure, measure_tails
    from dltb.output.progress import Progress
    from dltb.runs.compared import read_steps, read_tails

    def watched_steps():
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


def write(out: Path, rows: Sequence["Row"], curves: "Curves", runs: Sequence[str], confidence: float) -> None:
    """Write the three files whole, or none of them."""
    from dltb.imaging.atomic import replacing
    from dltb.metrics.compare import write_curves, write_rows
    from dltb.metrics.compare_plot import plot_comparison

    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        table, lines, plot = (stack.enter_context(replacing(out / name)) for name in (TABLE, CURVES, PLOT))
        write_rows(table, rows)
        write_curves(lines, curves)
        plot_comparison(rows, curves, runs, plot, confidence=confidence)


def report(rows: Sequence["Row"], curves: "Curves", letters: Mapping[str, str], confidence: float) -> str:
    """The table, aligned: one line a metric, zone and run; then how far runs and tails came apart."""
    from dltb.metrics.compare import SOURCE, Key, difference

    first, found = next(iter(letters)), {row.key: row.interval for row in rows}
    cells = [["metric", "zone", "run", f"mean [{100 * confidence:g} % interval]", f"minus {letters[first]}", "frames"]]
    for metric, zone in sorted({(row.key.metric, row.key.zone) for row in rows}, key=in_order):
        told = (metric, zone)
        for run, letter in {SOURCE: SOURCE, **letters}.items():
            interval = found.get(Key(run, zone, metric))
            if interval is not None:
                minus = cell(found.get(Key(difference(run, first), zone, metric)))
                cells.append([*told, letter, cell(interval), minus, str(interval.samples)])
                told = ("", "")
    names = [f"{letter}: {run}" for run, letter in letters.items()]
    return "\n".join([*names, *aligned(cells), *curve_lines(curves, letters)])


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns stand under each other."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def in_order(pair: tuple[str, str]) -> tuple[int, int, str]:
    """Where a (metric, zone) stands in the table."""
    from dltb.metrics.compare import CHURN, DETAIL, LUMA, MAD, SATURATION
    from dltb.metrics.zones import EXCESS, FRAME, INSIDE, OUTSIDE

    metrics, zones = (MAD, DETAIL, SATURATION, CHURN, LUMA), (INSIDE, OUTSIDE, EXCESS, FRAME)
    metric, zone = pair
    place = metrics.index(metric) if metric in metrics else len(metrics)
    return place, zones.index(zone) if zone in zones else len(zones), zone


def cell(interval: "Interval | None") -> str:
    """`31.00 [29.80, 32.30]`, the mean alone where it has no interval, nothing where there is none."""
    if interval is None:
        return ""
    mean, *ends = (f"{round(x, 2) + 0:.2f}" for x in (interval.mean, interval.low, interval.high) if x is not None)
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def curve_lines(curves: "Curves", letters: Mapping[str, str]) -> list[str]:
    """The ends of every curve."""
    lines = []
    for curve, values in curves.items():
        first, last = min(values), max(values)
        lines.append(f"{curve.name(letters)}: {values[first]:.2f} at {first}, {values[last]:.2f} at {last}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
