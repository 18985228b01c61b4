"""What a sweep will do, before it does anything: which legs there are, how far each is, how long it takes, what it fills.

Imports no torch; what a model says to its settings is asked once for each combination.
"""

import functools
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.models.checks import check_schedule, resolve_geometry
from dltb.models.table import MODELS, model_key
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.space import EXTRA_PNGS, disk_bytes, told_size
from dltb.sweeps.grid import Grid, Leg
from dltb.sweeps.root import Run, find_run, not_measured
from dltb.sweeps.tools import LOOP_TOOLS, check_flag, defaults

NEW, UNFINISHED, UNMEASURED, COMPLETE = "new", "unfinished", "to be measured", "complete"
PASS_KEYS = ("model", "width", "height", "num_inference_steps", "strength")  # what the time of a pass depends on most


@dataclass(frozen=True)
class PlannedLeg:
    """A leg, and how far it is."""

    leg: Leg
    state: str
    passes: int | None  # in all; None: the clip does not say how long it is
    made: int
    load_key: tuple  # equal for legs that can share a loaded pipeline
    pass_key: tuple  # equal for legs whose passes take about as long
    pixels: int  # of a frame
    save_every: int
    filmed: bool

    @property
    def to_make(self) -> int | None:
        """Passes that are still to be made."""
        if self.state in (COMPLETE, UNMEASURED):
            return 0
        return None if self.passes is None else max(0, self.passes - self.made)


def plan_legs(grid: Grid, root: Path) -> list[PlannedLeg]:
    """Every leg, checked as far as it can be without its model, with its state on disk.

    Raises:
        UsageError: naming the leg, when one cannot run or holds something else.
    """
    return [_plan_leg(leg, grid, root / leg.name) for leg in grid.legs]


def parsed(leg: Leg) -> dict[str, Any]:
    """All options of the leg's tool, by field name, defaults included."""
    flags = [check_flag(leg.tool, key, value) for key, value in leg.settings.items()]
    return {**defaults(leg.tool), **{flag.name: flag.value for flag in flags}}


def _plan_leg(leg: Leg, grid: Grid, directory: Path) -> PlannedLeg:
    values = parsed(leg)
    try:
        model, width, height = _check_model(leg.tool, *(values.get(name) for name in PASS_KEYS))
        source = _describe_source(LOOP_TOOLS[leg.tool].takes_clip, values["input"])
        run = find_run(directory)
        if run is not None:
            _check_same_input(run, source)
    except UsageError as error:
        raise UsageError(f"leg {leg.name}: {error}") from None
    return PlannedLeg(
        leg=leg,
        state=_state(run, LOOP_TOOLS[leg.tool].leaves, grid.measure),
        passes=LOOP_TOOLS[leg.tool].passes(values, source.frames),
        made=sum(run.manifest.get("passes", {}).values()) if run else 0,
        load_key=_load_key(values, model, width, height),
        pass_key=(
            model,
            width,
            height,
            values["num_inference_steps"],
            values.get("strength") if uses_strength(model) else None,
            values.get("profile"),
        ),
        pixels=width * height,
        save_every=values.get("save_every", 1),
        filmed=LOOP_TOOLS[leg.tool].films,
    )


def _load_key(values: Mapping[str, Any], model: str, width: int, height: int) -> tuple:
    """runs.pool.pipeline_key by what the flags say, before torch says what the devices are."""
    size = None if values.get("profile", "exact") == "exact" else (width, height)
    return (model, size, *(str(values.get(name)) for name in ("weights", "device", "offload", "profile")))


def uses_strength(model: str) -> bool:
    """Whether --strength changes what a pass of the model does."""
    return MODELS[model].uses_strength


@functools.lru_cache(maxsize=None, typed=True)
def _check_model(
    tool: str, model: str, width: int | None, height: int | None, steps: int, strength: float | None
) -> tuple[str, int, int]:
    """Key, width and height; what the model refuses without being loaded is refused here."""
    spec = MODELS[model_key(model)]
    if LOOP_TOOLS[tool].klein_only and not spec.edits_references:
        raise UsageError(f"{spec.key} is no FLUX.2 klein model, which {tool} takes")
    if LOOP_TOOLS[tool].img2img_only and not spec.uses_strength:
        raise UsageError(f"{spec.key} has no strength; {tool} takes img2img models such as tiny-turbo, sd-turbo")
    check_schedule(spec, strength=strength, num_inference_steps=steps)
    return spec.key, *resolve_geometry(spec, width, height)


@dataclass(frozen=True)
class _Source:
    digest: str
    frames: int | None


@functools.cache
def _describe_source(is_clip: bool, text: str) -> _Source:
    path = find_input(text)
    digest = describe_input(path)["input sha256"]
    if not is_clip:
        from dltb.imaging.frames import probe_image

        probe_image(path)
        return _Source(digest, 1)
    from dltb.imaging.video import probe_video

    return _Source(digest, probe_video(path).frame_count)


def _check_same_input(run: Run, source: _Source) -> None:
    there = run.manifest["settings"].get("input sha256", source.digest)
    if there != source.digest:
        raise UsageError(
            f"{run.directory} was made from another file of that name (sha256 {there[:12]}..., now "
            f"{source.digest[:12]}...); give another --output-dir, or move that directory away"
        )


def _state(run: Run | None, own_table: str | None, measure: Sequence[Sequence[str]]) -> str:
    if run is None:
        return NEW
    if run.manifest.get("status") != "complete":
        return UNFINISHED
    if own_table is not None and not (run.directory / own_table).exists():
        return UNMEASURED
    return UNMEASURED if not_measured(run, measure) else COMPLETE


def describe(planned: Sequence[PlannedLeg], root: Path, *, workers: int) -> Iterator[str]:
    """The plan in lines: one for each leg, then legs, passes, time and disk in all."""
    for one in planned:
        count = "?" if one.passes is None else one.passes
        yield f"{one.leg.name}: {one.leg.tool}, {count} passes, {one.state}"
    yield _told_legs(planned)
    yield _told_passes(planned)
    yield _told_time(planned, root, workers)
    yield _told_disk(planned, root)


def _told_legs(planned: Sequence[PlannedLeg]) -> str:
    counts = {state: sum(one.state == state for one in planned) for state in (COMPLETE, UNMEASURED, UNFINISHED, NEW)}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    loads = len({one.load_key for one in planned if one.to_make != 0})
    return f"legs: {len(planned)} ({told}); models to load: {loads}"


def _told_passes(planned: Sequence[PlannedLeg]) -> str:
    known = sum(one.to_make or 0 for one in planned)
    unknown = sum(one.to_make is None for one in planned)
    return f"passes: {known} to make" + (
        f", and {unknown} legs whose clip does not say how long it is" if unknown else ""
    )


def _told_time(planned: Sequence[PlannedLeg], root: Path, workers: int) -> str:
    seconds = measured_seconds(planned, root)
    open_legs = [one for one in planned if one.to_make != 0]
    timed = [one for one in open_legs if one.pass_key in seconds and one.to_make is not None]
    if not open_legs:
        return "time: none, all passes are made"
    if not timed:
        return "time: unknown until a leg of this model and size has run here"
    total = sum(one.to_make * seconds[one.pass_key] for one in timed) / workers
    rest = len(open_legs) - len(timed)
    told = f"time: about {_told_duration(total)} by the passes measured here, loading not counted"
    return told + (f"; {rest} legs have no measured pass" if rest else "")


def measured_seconds(planned: Sequence[PlannedLeg], root: Path) -> dict[tuple, float]:
    """Median seconds of a pass for every kind of pass that a leg of this sweep has made."""
    found: dict[tuple, list[float]] = {}
    for one in planned:
        run = find_run(root / one.leg.name) if one.made else None
        seconds = run.manifest.get("median_seconds_per_pass") if run else None
        if seconds:
            found.setdefault(one.pass_key, []).append(seconds)
    return {key: statistics.median(values) for key, values in found.items()}


def _told_duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _told_disk(planned: Sequence[PlannedLeg], root: Path) -> str:
    need = sum(map(_disk, planned))
    place = next(parent for parent in (root, *root.absolute().parents) if parent.exists())
    return f"disk: about {told_size(need)} ({told_size(shutil.disk_usage(place).free)} free)"


def _disk(one: PlannedLeg) -> float:
    passes = one.to_make or 0
    if not passes:
        return 0.0
    pngs = passes // one.save_every
    inputs = passes if LOOP_TOOLS[one.leg.tool].keeps_inputs else 0
    return disk_bytes(one.pixels, pngs=pngs + inputs + EXTRA_PNGS, filmed=passes if one.filmed else 0)


def by_model(planned: Sequence[PlannedLeg]) -> list[PlannedLeg]:
    """The legs that have something left to do, those that share a pipeline in one stretch."""
    order: Mapping[tuple, int] = {
        key: place for place, key in enumerate(dict.fromkeys(one.load_key for one in planned))
    }
    return sorted((one for one in planned if one.state != COMPLETE), key=lambda one: order[one.load_key])
