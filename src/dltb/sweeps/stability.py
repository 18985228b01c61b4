"""The legs of dltb-stability-sweep as legs of dltb-distance-feedback, so that they run wherever those of dltb-sweep do."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dltb.output.files import write_json
from dltb.runs.sweep import TOOL
from dltb.runs.sweep import Leg as Blend
from dltb.sweeps.drive import Conditions, Executor, run_sweep
from dltb.sweeps.grid import Grid, Leg
from dltb.sweeps.root import check_record, find_run, read_record
from dltb.sweeps.tools import Value, defaults

FEEDBACK = "dltb-distance-feedback"
LEGS = "legs"  # the folder in which they run


def feedback_settings(options: Mapping[str, Any]) -> dict[str, Value]:
    """Those of a stability sweep's options that are the feedback tool's too, as flags."""
    known = defaults(FEEDBACK).keys() - {"output_dir", "overwrite", "resume", "given"}
    return {name.replace("_", "-"): _as_typed(value) for name, value in options.items() if name in known}


def _as_typed(value: Any) -> Value:
    return ",".join(value) if isinstance(value, tuple) else value


def make_legs(
    settings: Mapping[str, Value], choose: Callable[[Path], Executor], conditions: Conditions, *, anew: bool = False
) -> Callable[[Sequence[Blend], Sequence[str]], None]:
    """What makes blends elsewhere: each becomes a leg, runs, and its run goes where the blend says, finished or not.

    What a killed sweep has left is gone on with, or removed where all is made ``anew``.
    """

    def make(blends: Sequence[Blend], names: Sequence[str]) -> None:
        root = blends[0].root / LEGS
        legs = [Leg(blend.tag, FEEDBACK, {**settings, "anchor-blend": blend.feedback.anchor_blend}) for blend in blends]
        if anew:
            shutil.rmtree(root, ignore_errors=True)
        check_record(root, read_record(root), legs)  # before anything moves
        for blend, name in zip(blends, names, strict=True):
            if blend.running.exists():
                _move(blend.running, root / blend.tag / name)
        try:
            run_sweep(Grid(LEGS, legs, measure=()), root, choose(root), conditions)
        finally:
            for blend in blends:
                _take_back(root / blend.tag, blend)
            shutil.rmtree(root, ignore_errors=True)

    return make


def _take_back(leg: Path, blend: Blend) -> None:
    run = find_run(leg)
    if run is not None:
        write_json(run.directory / "run.json", {**run.manifest, "tool": TOOL})
        _move(run.directory, blend.running)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
