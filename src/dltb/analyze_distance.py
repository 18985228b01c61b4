"""dltb-distance: how far a run's frames look, to an eye or a model of one, from each other and from the source."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.args.metric_options import MetricOptions
from dltb.args.parser import ToolParser, add_options, option, read_options, whole

if TYPE_CHECKING:
    from dltb.metrics.distances import Distance, DistanceSummary, Metric
    from dltb.runs.metric import MetricChoice

DESCRIPTION = """\
Measure the perceptual distance of a run's frames and write distance_metrics.csv next to its frames folder, one row a
frame:

  frame             name of the file without .png
  dreamsim_to_ref   distance to the run's frame_0000_original.png or frame_0000_source.png, else to the first frame
  dreamsim_to_prev  distance to the frame taken before it; empty in the first row

With another --metric its name stands in the columns. Every distance is 0 for identical frames and grows with the
difference:

  dreamsim  0..2     learned from what people find similar; sees content, tells little of small pixel noise
  flip      0..1     what an eye sees when it alternates between the two frames
  ssim      0..2     1 - SSIM: structure in small windows
  ms-ssim   0..1     1 - MS-SSIM: the same at five scales; frames of at least 161 px
  pixel     0..255   mean absolute difference, as in dltb-drift

The summary gives the means over the last 10 frames and the peaks, and says CONVERGED when the mean distance to the
frame before is below --converged-below. Frames of failure tails are left out. The table does not say which DreamSim,
--every or --patch it was made with: give it a name of its own with --out, or keep those settings with --json.
"""

EPILOG = """\
example:
  dltb-distance untracked/output_tiny_turbo/test_512_free-running
  dltb-distance untracked/output_tiny_turbo/test_512_free-running --metric flip --json flip.json
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
    from dltb.output.files import write_json
    from dltb.runs.metric import choose_metric, inert_options, load_chosen

    if not options.source:
        raise UsageError("the path is empty; give a run directory or a frames folder")
    choice = choose_metric(metric, options.device)
    frames = find_frames(options.source)
    sequence = list_frames(frames)
    if not sequence.paths:
        raise UsageError(f"no frames of the main loop in {frames}, only tails")
    paths = sequence.every(options.every).paths
    reference = find_reference(frames)
    width, height = common_size([*paths, reference] if reference else paths)
    check_size(choice.spec, width=width, height=height)
    out = Path(options.out) if options.out is not None else run_directory(frames) / TABLE_NAME
    report = Path(options.json) if options.json is not None else None
    check_outputs(out, report)
    for note in inert_options(choice, given):
        print(f"NOTE: {note}")

    rows = measure(paths, reference, load_chosen(choice), choice.batch_size)
    columns = {
        choice.spec.column("to_ref"): [row.to_ref for row in rows],
        choice.spec.column("to_prev"): [row.to_prev for row in rows],
    }
    names = [path.stem for path in paths]
    summary = summarize(rows, converged_below=choice.converged_below)
    write_columns(out, names, columns)
    if report:
        source = {"frames": str(frames.resolve()), "reference": (reference or paths[0]).name, "every": options.every}
        write_json(report, describe(choice, source, names, columns, summary))
    print(f"{out}: {len(rows)} frames against {(reference or paths[0]).name}")
    if sequence.gaps:
        print(f"NOTE: missing frames: {sequence.describe_gaps()}")
    print(summary_text(choice, names, rows, summary))


def measure(paths: Sequence[Path], reference: Path | None, metric: "Metric", batch_size: int) -> list["Distance"]:
    """The distances of every frame, in the order of the paths."""
    from dltb.imaging.frames import read_image
    from dltb.metrics.distances import score
    from dltb.output.progress import watched

    frames = map(read_image, watched(paths, "distance", "frames"))
    return list(score(frames, read_image(reference) if reference else None, metric, batch_size=batch_size))


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
) -> dict[str, Any]:
    """The JSON report; its ``summary`` names the peaks' frames."""
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
        "rows": [
            dict(zip(("frame", *columns), row, strict=True)) for row in zip(names, *columns.values(), strict=True)
        ],
    }


def summary_text(
    choice: "MetricChoice", names: Sequence[str], rows: Sequence["Distance"], summary: "DistanceSummary"
) -> str:
    """Means, peaks and verdict for a reader."""
    ref, prev = choice.spec.column("to_ref"), choice.spec.column("to_prev")
    means = [f"last {summary.last}: mean {ref} {summary.to_ref:.6f}"]
    peaks = [f"peak {ref} {rows[summary.peak_ref].to_ref:.6f} at {names[summary.peak_ref]}"]
    if summary.to_prev is not None and summary.peak_prev is not None:
        means.append(f"mean {prev} {summary.to_prev:.6f}")
        peaks.append(f"peak {prev} {rows[summary.peak_prev].to_prev:.6f} at {names[summary.peak_prev]}")
    lines = [", ".join(means), ", ".join(peaks)]
    if summary.converged:
        lines.append(f"CONVERGED: mean {prev} is below {choice.converged_below:g}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
