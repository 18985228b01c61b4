"""A sweep of the feedback loop over its anchor blend: which blends settle, when, and at what distance.

One pipeline load for all passes, one metric load for all verdicts. A leg is an ordinary feedback run under ``running/``;
once judged it moves to ``stable/`` (reduced to the frames that open its plateaus) or whole to ``unstable/``. What is
judged is not made again, so a sweep that was interrupted goes on where it stopped. The table and the figure are of every
judged leg under the root, whichever command made it; legs that differ in more than their blend are refused.

Under ``--overwrite`` the legs of the range first move to ``replaced/``, each until its successor is judged.
"""

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.args.metric_options import MetricOptions
from dltb.args.options import ModelOptions, OutputOptions
from dltb.metrics.plot import plot_plateaus
from dltb.metrics.series import judge
from dltb.metrics.tables import read_columns, write_columns
from dltb.output.files import write_json
from dltb.output.naming import control_tag, output_root
from dltb.output.recorder import RunPlan
from dltb.output.run_directory import Decision, belongs_to, differences, locked, read_manifest
from dltb.runs.feedback import Feedback, free_memory, plan_feedback, play_passes
from dltb.runs.measured import FEWEST, choose_both
from dltb.runs.measurement import RECORD, TABLE, changes, is_measured, measure_once
from dltb.runs.metric import MetricChoice, check_loads, load_chosen
from dltb.runs.model import ModelChoice, load_model

TOOL = "dltb-stability-sweep"
GO_ON = "what is finished is kept; the same command goes on (without --overwrite)"
SERIES = ("to_prev", "to_ref")  # a blend is stable when both are
SWEEP_TABLE, SWEEP_PLOT = "stability_sweep.csv", "stability_plot.png"
VERDICTS, RUNNING, REPLACED = ("stable", "unstable"), "running", "replaced"


@dataclass(frozen=True)
class Leg:
    """One blend of a sweep, and where it stands."""

    feedback: Feedback
    root: Path

    @property
    def tag(self) -> str:
        """Name of its directory."""
        return f"a{self.feedback.anchor_blend:g}"

    @property
    def running(self) -> Path:
        """Where its run is made and measured."""
        return self.root / RUNNING / self.tag

    @property
    def judged(self) -> Path | None:
        """Where it went when it was judged; None before."""
        return next((place for place in judged_legs(self.root) if place.name == self.tag), None)


def judged_legs(root: Path) -> list[Path]:
    """The directories of all judged legs, whichever sweep made them."""
    return [place for verdict in VERDICTS for place in sorted((root / verdict).glob("a*")) if any(place.glob("[!.]*"))]


def run_sweep(
    template: Feedback,
    blends: Collection[float],
    model: ModelOptions,
    metric: MetricOptions,
    output: OutputOptions,
    *,
    control: str | None = None,
    given: Collection[str] = (),
    make_elsewhere: Callable[[Sequence["Leg"], Sequence[str]], None] | None = None,
) -> int:
    """Make, measure, judge and sort every blend; write the table and the figure.

    ``make_elsewhere(legs, names)`` makes and measures runs in other processes and puts each where its leg says; ``names``
    are those that the feedback tool gives their directories. By default the runs are made here.
    """
    if template.passes < FEWEST:
        raise UsageError(f"--frames {template.passes} is too few for a verdict, which needs {FEWEST} or more")
    choice, measure_with = choose_both(model, metric, given, control)
    tag = f"stability_s{choice.settings.strength:g}{control_tag(control)}"
    root = output_root(output.output_dir, choice.spec.key) / tag
    legs = [Leg(replace(template, anchor_blend=blend), root) for blend in blends]
    with locked(root):
        plans = {leg.tag: _plan(leg, choice, output) for leg in legs}
        _check_one_table(root, plans, measure_with, output.overwrite)
        pending = [leg for leg in legs if output.overwrite or leg.judged is None]
        if make_elsewhere is None:
            _make(pending, plans, choice, measure_with, output.overwrite)
        elif unmade := [leg for leg in pending if plans[leg.tag].decision is not Decision.COMPLETE]:
            if output.overwrite:
                _put_aside(unmade, plans)
            make_elsewhere(unmade, [leg.feedback.directory_name(choice) for leg in unmade])
        _judge_all(pending, measure_with)
        _clear(root, legs)
        count, rows = len(judged_legs(root)), list(_rows(root))
        _summarise(root, rows, measure_with)
    print(f"{len(rows)} of {count} blends are stable; table: {root / SWEEP_TABLE}")
    return 0


def _plan(leg: Leg, choice: ModelChoice, output: OutputOptions) -> RunPlan:
    """The leg's run where it is: judged already, or to be made. An unfinished leg always goes on."""
    place = leg.judged if leg.judged and not output.overwrite else leg.running
    plan = plan_feedback(leg.feedback, choice, replace(output, resume=not output.overwrite), place)
    if place == leg.judged:
        shutil.rmtree(leg.running, ignore_errors=True)  # left by a kill between the two; the settings are the same
    return plan


def _check_one_table(root: Path, plans: Mapping[str, RunPlan], metric: MetricChoice, overwrite: bool) -> None:
    """Refuse a sweep whose rows would stand beside others that differ in more than the blend."""
    wanted = _shared(next(iter(plans.values())).settings)
    for place in judged_legs(root):
        if not belongs_to(place, (TOOL,)):
            raise UsageError(f"{place} is no leg of a sweep; move it away, or choose another --output-dir")
        in_range = place.name in plans
        if in_range and overwrite:
            continue
        manifest = read_manifest(place)
        other = differences(_shared(manifest["settings"]), wanted) + changes(manifest.get(RECORD) or {}, metric)
        if other:
            instead = "replace it with --overwrite" if in_range else "move it away"
            raise UsageError(
                f"{place} is of this sweep's table but was made with other settings ({'; '.join(other)}); "
                f"choose another --output-dir, or {instead}"
            )


def _shared(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What all legs of one table have in common."""
    return {name: value for name, value in settings.items() if name != "anchor_blend"}


def _make(
    legs: Sequence[Leg], plans: Mapping[str, RunPlan], choice: ModelChoice, metric: MetricChoice, overwrite: bool
) -> None:
    """Every missing pass of every leg, on one loaded model."""
    unmade = [leg for leg in legs if plans[leg.tag].decision is not Decision.COMPLETE]
    if unmade:
        check_loads(metric)
        _play(unmade, plans, choice, overwrite)
        free_memory(choice.device)


def _play(legs: Sequence[Leg], plans: Mapping[str, RunPlan], choice: ModelChoice, overwrite: bool) -> None:
    notes: list[str] = []
    generate: Callable = load_model(choice, notes.append)
    if overwrite:
        plans = _put_aside(legs, plans)
    for number, leg in enumerate(legs, 1):
        print(f"blend {leg.feedback.anchor_blend:g} ({number} of {len(legs)})")
        play_passes(plans[leg.tag], generate, choice, leg.feedback, notes, hint=GO_ON)


def _put_aside(legs: Sequence[Leg], plans: Mapping[str, RunPlan]) -> dict[str, RunPlan]:
    """Move what there is of the legs to ``replaced/``, all before the first pass, so that what is there afterwards is new.

    An interrupted sweep can then go on like any other. Returns plans of runs that start.
    """
    for leg in legs:
        for state in (*VERDICTS, RUNNING):
            place, aside = leg.root / state / leg.tag, leg.root / REPLACED / state / leg.tag
            if place.exists():
                aside.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(aside, ignore_errors=True)
                place.replace(aside)
    return {leg.tag: replace(plans[leg.tag], decision=Decision.NEW) for leg in legs}


def _judge_all(legs: Sequence[Leg], choice: MetricChoice) -> None:
    """Measure what has no table, on one loaded metric, and send every leg where it belongs."""
    if not legs:
        return
    metric = load_chosen(choice)
    for leg in legs:
        if not is_measured(leg.running, choice):
            measure_once(leg.running, choice, lambda: metric)
        _sort(leg, judge_leg(leg.running / TABLE, choice))


def judge_leg(table: Path, choice: MetricChoice) -> dict[str, Any]:
    """Verdicts on the to_prev and the to_ref series of a leg, with plateau value and first settled frame number."""
    names, columns = read_columns(table)
    found: dict[str, Any] = {}
    for name in SERIES:
        verdict = judge(columns[choice.spec.column(name)])
        frame = None if verdict.index is None else int(names[verdict.index].split("_")[-1])
        found[name] = {
            "verdict": verdict.verdict,
            "value": verdict.value,
            "frame": frame,
            "reason": verdict.reason,
        }
    return found


def _sort(leg: Leg, verdicts: dict[str, Any]) -> None:
    """Keep the verdict in run.json, then move the leg; each step can be repeated after a kill."""
    manifest = read_manifest(leg.running)
    write_json(leg.running / "run.json", manifest | {"stability": verdicts})
    stable = all(verdicts[name]["verdict"] == "stable" for name in SERIES)
    words = ", ".join(f"{name} {verdicts[name]['verdict']}" for name in SERIES)
    print(f"blend {leg.feedback.anchor_blend:g}: {words}")
    target = leg.root / ("stable" if stable else "unstable") / leg.tag
    target.parent.mkdir(exist_ok=True)
    if stable:
        _keep_openings(leg.running, verdicts, target)
        shutil.rmtree(leg.running)
    else:
        leg.running.replace(target)


def _keep_openings(run: Path, verdicts: dict[str, Any], target: Path) -> None:
    """Of a stable leg, the frames that open its plateaus and run.json."""
    kept = target.with_name(f".{target.name}.part")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for name in {f"frames/frame_{verdicts[series]['frame']:04d}.png" for series in SERIES} | {"run.json"}:
        shutil.copy2(run / name, kept)
    kept.replace(target)


def _clear(root: Path, legs: Sequence[Leg]) -> None:
    """Remove what judged legs have replaced."""
    for leg in legs:
        for old in (root / REPLACED).glob(f"*/{leg.tag}"):
            shutil.rmtree(old)
    for folder in (root / RUNNING, *(root / REPLACED).glob("*"), root / REPLACED):
        with contextlib.suppress(OSError):
            folder.rmdir()  # empty, unless a leg of another range waits there


def _rows(root: Path) -> Iterator[dict[str, float]]:
    """A line of the table for every stable leg, in order of their blends."""
    manifests = [read_manifest(place) for place in judged_legs(root) if place.parent.name == "stable"]
    for manifest in sorted(manifests, key=lambda manifest: manifest["settings"]["anchor_blend"]):
        row = {"anchor-blend": manifest["settings"]["anchor_blend"]}
        for name in SERIES:
            short, found = name.removeprefix("to_"), manifest["stability"][name]
            row |= {f"v_{short}": found["value"], f"i_{short}": found["frame"]}
        yield row


def _summarise(root: Path, rows: Sequence[dict[str, float]], choice: MetricChoice) -> None:
    """The table of the stable blends and its figure; without one the figure is gone."""
    names = ("v_prev", "i_prev", "v_ref", "i_ref")
    columns = {name: [row[name] for row in rows] for name in names}
    write_columns(root / SWEEP_TABLE, [f"{row['anchor-blend']:g}" for row in rows], columns, label="anchor-blend")
    if rows:
        plot_plateaus([row["anchor-blend"] for row in rows], columns, root / SWEEP_PLOT, choice.spec.title)
    else:
        (root / SWEEP_PLOT).unlink(missing_ok=True)


def blend_range(lowest: float, highest: float, step: float) -> Iterator[float]:
    """lowest, lowest + step, ... up to highest, without the dust of repeated addition."""
    count = int((highest - lowest) / step + 1e-9) + 1
    return (round(lowest + step * number, 10) for number in range(count))
