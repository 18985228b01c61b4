"""Runs of one clip that are to be compared: found, checked against each other, and read side by side with their source."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.imaging.folder import FrameSequence, common_size, find_frames, list_frames, list_tails, run_directory
from dltb.imaging.frames import existing_file, prepare_frame, read_image
from dltb.imaging.video import read_video
from dltb.metrics.compare import SOURCE, Step
from dltb.output.run_directory import read_manifest
from dltb.runs.inputs import describe_input, find_input

EXAMPLE = "input_example/courtyard.mp4"
SHARED = {
    "input sha256": str,
    "width": int,
    "height": int,
}  # settings without which frames of equal number show different things


@dataclass(frozen=True)
class ComparedRun:
    """One leg, as it lies on disk."""

    label: str  # the shortest end of its path that tells it from the others
    directory: Path
    settings: dict[str, Any]
    complete: bool
    main: FrameSequence
    tails: dict[str, FrameSequence]

    @property
    def size(self) -> tuple[int, int]:  # width, height, px
        return self.settings["width"], self.settings["height"]


def open_runs(paths: Sequence[str]) -> list[ComparedRun]:
    """The runs, none twice, that show the same source at the same size; anything else is a UsageError."""
    if len(paths) < 2:
        raise UsageError(f"{'one run' if paths else 'no run'} given; give at least two run directories to compare")
    if not all(paths):
        raise UsageError("a path is empty; give run directories")
    folders = [find_frames(path) for path in paths]
    resolved = [run_directory(folder).resolve() for folder in folders]
    for place, directory in enumerate(resolved):
        if directory in resolved[:place]:
            raise UsageError(f"{paths[place]} is given twice; give different runs")
    runs = [_open(*pair) for pair in zip(_labels(resolved), folders, strict=True)]
    for run in runs[1:]:
        _check_same_source(runs[0], run)
    return runs


def _open(label: str, frames: Path) -> ComparedRun:
    directory = run_directory(frames)
    if not (directory / "run.json").is_file():
        raise UsageError(f"{directory} is not a run directory: it has no run.json, which names its source")
    manifest = read_manifest(directory)
    settings = manifest["settings"]
    if "mode" not in settings or not all(isinstance(settings.get(name), kind) for name, kind in SHARED.items()):
        raise UsageError(
            f"{directory} is no run of a clip ({manifest['tool']}); give runs of dltb-continuous or dltb-klein"
        )
    main, tails = list_frames(frames), list_tails(frames)
    if not main.paths:
        raise UsageError(f"no frames of the main loop in {frames}, only tails")
    run = ComparedRun(label, directory, settings, manifest["status"] == "complete", main, tails)
    _check_size(run)
    return run


def _check_size(run: ComparedRun) -> None:
    width, height = common_size([*run.main.paths, *(path for tail in run.tails.values() for path in tail.paths)])
    if (width, height) != run.size:
        raise UsageError(
            f"the frames in {run.directory} are {width}x{height} px but its run.json says "
            f"{run.size[0]}x{run.size[1]}; make the run again"
        )


def _labels(directories: Sequence[Path]) -> list[str]:
    """The last part of each path, or as many as it takes to tell all apart, from each other and from the source."""
    longest = max(len(directory.parts) for directory in directories)
    for count in range(1, longest + 1):
        labels = ["/".join(directory.parts[-count:]) for directory in directories]
        if len({*labels, SOURCE}) == len(labels) + 1:
            return labels
    return [str(directory) for directory in directories]


def _check_same_source(first: ComparedRun, other: ComparedRun) -> None:
    """Refuse a run whose frames have other sources or another size."""
    if other.settings["input sha256"] != first.settings["input sha256"]:
        told = [f"{run.directory} of {_clip_name(run)}" for run in (first, other)]
        raise UsageError(f"runs of different sources: {told[0]}, {told[1]}; compare runs of one clip")
    if other.size != first.size:
        told = [f"{run.directory} {run.size[0]}x{run.size[1]}" for run in (first, other)]
        raise UsageError(f"runs of different sizes: {told[0]}, {told[1]}; compare runs of one size")


def _clip_name(run: ComparedRun) -> str:
    return f"{run.settings.get('input', 'a clip')} (sha256 {run.settings['input sha256'][:12]}...)"


def find_source(text: str | None, run: ComparedRun) -> Path:
    """The clip that a run was made from: the file given, or the example clip if it was that one."""
    wanted = run.settings["input sha256"]
    if text is not None:
        path = existing_file(text)
        found = describe_input(path)["input sha256"]
        if found != wanted:
            raise UsageError(
                f"--source {path} is another file (sha256 {found[:12]}...) than the source of these runs, "
                f"{_clip_name(run)}; give that one"
            )
        return path
    if run.settings.get("input") == Path(EXAMPLE).name:
        with contextlib.suppress(UsageError):  # a package without the example inputs
            path = find_input(EXAMPLE)
            if describe_input(path)["input sha256"] == wanted:
                return path
    raise UsageError(f"these runs were made from {_clip_name(run)}; say where it lies with --source VIDEO")


def common_numbers(runs: Sequence[ComparedRun]) -> list[int]:
    """The frames that all runs have saved."""
    shared = sorted(set.intersection(*(set(run.main.numbers) for run in runs)))
    if not shared:
        told = "; ".join(f"{run.directory}: {_told(run.main.numbers)}" for run in runs)
        raise UsageError(f"no frame is saved in all of these runs ({told}); make them with the same --save-every")
    return shared


def _told(numbers: Sequence[int]) -> str:
    """`10, 20, ..., 300`."""
    if len(numbers) <= 4:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"


def read_steps(
    runs: Sequence[ComparedRun], source: Path, numbers: Sequence[int], *, on_note: Callable[[str], None]
) -> Iterator[Step]:
    """The source frames of these numbers, prepared as the runs did, each with the one before and the runs' frames."""
    prepare = partial(prepare_frame, width=runs[0].size[0], height=runs[0].size[1])
    paths = [dict(zip(run.main.numbers, run.main.paths, strict=True)) for run in runs]
    wanted, reached = set(numbers), 0
    clip = itertools.chain([None], read_video(source, limit=numbers[-1], on_note=on_note))
    for reached, (previous, current) in enumerate(itertools.pairwise(clip), 1):
        if reached in wanted:
            before = None if previous is None else prepare(previous)
            frames = [read_image(own[reached]) for own in paths]
            yield Step(reached, before, prepare(current), frames)
    if reached < numbers[-1]:
        raise UsageError(f"{source} has {reached} frames, but the runs hold frame {numbers[-1]}; give their source")


def read_tails(run: ComparedRun) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, frame by tail) for the numbers that all tails of a run have saved."""
    if not run.tails:
        return
    shared = set.intersection(*(set(tail.numbers) for tail in run.tails.values()))
    paths = {mode: dict(zip(tail.numbers, tail.paths, strict=True)) for mode, tail in run.tails.items()}
    for number in sorted(shared):
        yield number, {mode: read_image(own[number]) for mode, own in paths.items()}
