"""dltb-distance: how far a run's frames look, to an eye or a model of one, from each other and from the source."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

if TYPE_CHECKING:
    from dltb.imaging.folder import FrameSequence
    from dltb.metrics.distances import DistanceSummary, Metric
    from dltb.metrics.dynamics import Cycle, Growth, Measured
    from dltb.runs.metric import MetricChoice

DESCRIPTION = """\
Measure the perceptual distance of a run's frames and write distance_metrics.csv next to its frames folder, one row a
frame:

  frame             name of the file without .png
  dreamsim_to_ref   distance to the run's frame_0000_original.png or frame_0000_source.png, else to the first frame
  dreamsim_to_prev  distance to the frame taken before it; empty in the first row
  dreamsim_to_lag   distance to the frame taken K before it (--lag); empty in the first K rows
  dreamsim_to_other with --against: distance to the frame of the same number in the other run; empty where it has none
  lab_l lab_a lab_b mean CIELAB: lightness 0..100, green to red, blue to yellow
  saturation        mean HSV saturation, 0..255
  clipped           share of values that are 0 or 255
  detail            mean magnitude of the Laplacian of the grey levels

With another --metric its name stands in the columns. Every distance is 0 for identical frames and grows with the
difference:

  dreamsim  0..2     learned from what people find similar; sees content, tells little of small pixel noise
  flip      0..1     what an eye sees when it alternates between the two frames
  ssim      0..2     1 - SSIM: structure in small windows
  ms-ssim   0..1     1 - MS-SSIM: the same at five scales; frames of at least 161 px
  pixel     0..255   mean absolute difference, as in dltb-drift

The summary gives the means over the last 10 frames and the peaks, and says CONVERGED when the mean distance to the
frame before is below --converged-below, or CYCLE when the run ends in a loop of 2 to 16 frames instead (pixels that move
by half a level or more on average, and come back to within a fifth of that). With --against it says how fast the two runs
part: the rate of the distance per pass while it grows freely, a finite-time Lyapunov exponent when the metric is pixel.
Frames of failure tails are left out. The table does not say which DreamSim, --every, --lag or --patch it was made with:
give it a name of its own with --out, or keep those settings with --json.
"""

EPILOG = """\
example:
  dltb-distance untracked/output_tiny_turbo/test_512_free-running
  dltb-distance untracked/output_tiny_turbo/test_512_free-running --metric flip --json flip.json
  dltb-distance run_a --against run_b --metric pixel
"""
TABLE_NAME = "distance_metrics.csv"


@dataclass(frozen=True)
class DistanceOptions:
    """What dltb-distance is asked for, besides the metric."""

    source: str = option(
        "", "the folder of frames, or the run directory that holds it", metavar="RUN_DIR|FRAMES_DIR", positional=True
    )
    every: int = option(
        1, "take every Nth saved frame; *_to_prev is then to the frame taken before", metavar="N", parse=whole(1)
    )
    device: str | None = option(
        None, "where to run; the default is cuda, else mps, else the cpu", choices=("cuda", "mps", "cpu")
    )
    out: str | None = option(
        None, f"the table to write; the default is {TABLE_NAME} in the run directory", metavar="CSV"
    )
    json: str | None = option(None, "also write settings, summary and rows as JSON", metavar="FILE")
    against: str | None = option(
        None,
        "a second run: also the distance between frames of the same number, and how fast it grows",
        metavar="OTHER_RUN",
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of dltb-distance."""
    parser = ToolParser(prog="dltb-distance", description=DESCRIPTION, epilog=EPILOG)
    add_options(parser, DistanceOptions, "frames and files")
    add_options(parser, MetricOptions, "metric")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run dltb-distance and return its exit code."""

    def work() -> None:
        parsed = build_parser().parse_args(argv)
        options, metric = read_options(DistanceOptions, parsed), read_options(MetricOptions, parsed)
        analyze(options, metric, given=parsed.given)

    return run_tool(work)


def analyze(options: DistanceOptions, metric: MetricOptions, given: frozenset[str] = frozenset()) -> None:
    """Check everything, measure, write the table, print the summary."""
    from dltb.imaging.folder import common_size, find_frames, find_reference, list_frames, run_directory
    from dltb.metrics.columns import write_columns
    from dltb.metrics.distances import check_size, summarize
    from dltb.metrics.dynamics import growth_rate, table_columns
    from dltb.output.files import write_json
    from dltb.runs.metric import choose_metric, inert_options, load_chosen, summary_text

    if not options.source:
        raise UsageError("the path is empty; give a run directory or a frames folder")
    choice = choose_metric(metric, options.device)
    frames = find_frames(options.source)
    sequence = list_frames(frames)
    if not sequence.paths:
        raise UsageError(f"no frames of the main loop in {frames}, only tails")
    taken = sequence.every(options.every)
    reference = find_reference(frames)
    width, height = common_size([*taken.paths, reference] if reference else taken.paths)
    check_size(choice.spec, width=width, height=height)
    partners = None if options.against is None else find_partners(options.against, taken, (width, height))
    out = Path(options.out) if options.out is not None else free_table(run_directory(frames))
    report = Path(options.json) if options.json is not None else None
    check_outputs(out, report)
    for note in inert_options(choice, given):
        print(f"NOTE: {note}")

    measured = measure(taken.paths, reference, load_chosen(choice), choice, partners)
    columns = table_columns(measured, choice.spec, lag=choice.lag, against=partners is not None)
    names, rows = [path.stem for path in taken.paths], measured.rows
    growth = growth_rate(taken.numbers, [row.to_other for row in rows]) if partners is not None else None
    summary = summarize(rows, converged_below=choice.converged_below)
    write_columns(out, names, columns)
    compared_with = (reference or taken.paths[0]).name
    if report:
        source = {"frames": str(frames.resolve()), "reference": compared_with, "every": options.every}
        if options.against is not None:
            source["against"] = str(find_frames(options.against).resolve())
        write_json(report, describe(choice, source, names, columns, summary, measured.cycle, growth))
    print(f"{out}: {len(rows)} frames against {compared_with}")
    if sequence.gaps:
        print(f"NOTE: missing frames: {sequence.describe_gaps()}")
    print(summary_text(choice, names, rows, summary))
    if measured.cycle:
        print(measured.cycle)
    if growth:
        shared = sum(row.to_other is not None for row in rows)
        print(f"{choice.spec.column('to_other')} over {shared} common frames: {growth}")


def find_partners(other: str, taken: "FrameSequence", size: tuple[int, int]) -> list[Path | None]:
    """The frame of the same number in another run, for every frame that is measured."""
    from dltb.imaging.folder import common_size, find_frames, list_frames

    if not other:
        raise UsageError("--against is empty; give a run directory or a frames folder")
    sequence = list_frames(find_frames(other))
    there = dict(zip(sequence.numbers, sequence.paths, strict=True))
    partners = [there.get(number) for number in taken.numbers]
    common = [path for path in partners if path is not None]
    if not common:
        held = f"{sequence.numbers[0]} to {sequence.numbers[-1]}" if there else "no main loop"
        raise UsageError(
            f"--against {other}: no frame number in common, {held} there and {taken.numbers[0]} to {taken.numbers[-1]} here"
        )
    theirs = common_size(common)
    if theirs != size:
        given, here = ("{}x{}".format(*pair) for pair in (theirs, size))
        raise UsageError(
            f"--against {other}: its frames are {given} px, those of this run {here} px; give two runs of one size"
        )
    return partners


def measure(
    paths: Sequence[Path],
    reference: Path | None,
    metric: "Metric",
    choice: "MetricChoice",
    partners: Sequence[Path | None] | None = None,
) -> "Measured":
    """What there is to know of every frame, in the order of the paths."""
    from dltb.imaging.frames import read_image
    from dltb.metrics.dynamics import measure_run
    from dltb.output.progress import watched

    def read(path: Path | None) -> Any:
        return None if path is None else read_image(path)

    frames = map(read_image, watched(paths, "distance", "frames"))
    others = None if partners is None else map(read, partners)
    return measure_run(frames, read(reference), metric, batch_size=choice.batch_size, lag=choice.lag, others=others)


def check_outputs(out: Path, report: Path | None) -> None:
    """Refuse, before anything is computed, a place that cannot be written or a file that this tool did not make."""
    if report and out.absolute() == report.absolute():
        raise UsageError(f"--out and --json are the same file, {out}")
    for path, flag, is_ours in ((out, "--out", is_table), (report, "--json", is_report)):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise UsageError(f"{flag} {path}: {path.parent} is not a folder")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"{flag} {path}: {path.parent} cannot be written to; give another {flag}")
        if path.exists() and not is_ours(path):
            raise UsageError(f"{flag} {path} exists and was not written by dltb-distance; give another name")


def free_table(directory: Path) -> Path:
    """The default table, unless it belongs to a run that measures itself."""
    from dltb.output.run_directory import belongs_to

    if belongs_to(directory, ("dltb-distance-loop", "dltb-distance-feedback", "dltb-stability-sweep")):
        raise UsageError(f"{directory} holds a run with a table of its own; give --out for another one")
    return directory / TABLE_NAME


def is_table(path: Path) -> bool:
    """Whether an existing file is a table of this tool, by its header."""
    head = _head(path).split("\n", 1)[0].split(",")
    return len(head) >= 3 and head[0] == "frame" and head[1].endswith("_to_ref") and head[2].endswith("_to_prev")


def is_report(path: Path) -> bool:
    """Whether an existing file is a JSON report of this tool, by its first key."""
    return _head(path).lstrip("{ \n").startswith('"tool": "dltb-distance"')


def _head(path: Path) -> str:
    """The first bytes of a file as text; empty for what is no regular file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(1000).decode("utf-8", "replace")


def describe(
    choice: "MetricChoice",
    source: dict[str, Any],
    names: Sequence[str],
    columns: dict[str, list[float | None]],
    summary: "DistanceSummary",
    cycle: "Cycle | None" = None,
    growth: "Growth | None" = None,
) -> dict[str, Any]:
    """The JSON report; its ``summary`` names the peaks' frames, and says of a cycle or a growth that there is none."""
    from dltb.runs.metric import describe_metric

    return {
        "tool": "dltb-distance",
        **source,
        **describe_metric(choice),
        "summary": {
            "last": summary.last,
            "mean_to_ref": summary.to_ref,
            "mean_to_prev": summary.to_prev,
            "peak_to_ref": names[summary.peak_ref],
            "peak_to_prev": None if summary.peak_prev is None else names[summary.peak_prev],
            "converged": summary.converged,
        },
        "cycle": asdict(cycle) if cycle else None,
        "growth": asdict(growth) if growth else None,
        "rows": [
            dict(zip(("frame", *columns), row, strict=True)) for row in zip(names, *columns.values(), strict=True)
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
