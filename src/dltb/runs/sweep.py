"""A sweep of the feedback loop over its anchor blend: which blends settle, when, and at what distance.

One pipeline load for all passes, one metric load for all verdicts. A leg is an ordinary feedback run under ``running/``;
once judged it moves to ``stable/`` (reduced to the frames that open its plateaus) or whole to ``unstable/``. What is
judged is not made again, so a sweep that was interrupted goes on where it stopped.
"""

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dltb.args.metric_options import MetricOptions
from dltb.args.options import ModelOptions, OutputOptions
from dltb.metrics.plot import plot_plateaus
from dltb.metrics.series import judge
from dltb.metrics.tables import read_columns, write_columns
from dltb.output.files import write_json
from dltb.output.naming import control_tag, output_root
from dltb.output.recorder import RunPlan
from dltb.output.run_directory import Decision, read_manifest
from dltb.runs.measured import (
    TABLE,
    Feedback,
    check_frame_size,
    choose_img2img,
    free_memory,
    is_measured,
    measure,
    plan_feedback,
    play_passes,
)
from dltb.runs.metric import MetricChoice, choose_metric, load_chosen
from dltb.runs.model import ModelChoice, load_model

GO_ON = "what is finished is kept; the same command goes on (without --overwrite)"
SERIES = ("to_prev", "to_ref")  # a blend is stable when both are
SWEEP_TABLE, SWEEP_PLOT = "stability_sweep.csv", "stability_plot.png"


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
        return self.root / "running" / self.tag

    @property
    def judged(self) -> Path | None:
        """Where it went when it was judged; None before."""
        places = (self.root / verdict / self.tag for verdict in ("stable", "unstable"))
        return next((place for place in places if (place / "run.json").exists()), None)


def run_sweep(
    template: Feedback,
    blends: Collection[float],
    model: ModelOptions,
    metric: MetricOptions,
    output: OutputOptions,
    *,
    control: str | None = None,
    given: Collection[str] = (),
) -> int:
    """Make, measure, judge and sort every blend; write the table and the figure."""
    choice = choose_img2img(model, given, control)
    measure_with = choose_metric(metric, model.device)
    check_frame_size(choice, measure_with)
    root = (
        output_root(output.output_dir, choice.spec.key)
        / f"stability_s{choice.settings.strength:g}{control_tag(control)}"
    )
    legs = [Leg(replace(template, anchor_blend=blend), root) for blend in blends]
    # An unfinished leg always goes on: that is what running a sweep again means.
    plans = {leg.tag: _plan(leg, choice, measure_with, replace(output, resume=not output.overwrite)) for leg in legs}
    pending = [leg for leg in legs if plans[leg.tag].directory == leg.running]
    _make(pending, plans, choice)
    _judge_all(pending, measure_with)
    rows = [row for leg in legs if (row := _row(leg)) is not None]
    _summarise(root, rows, measure_with)
    print(f"{len(rows)} of {len(legs)} blends are stable; table: {root / SWEEP_TABLE}")
    return 0


def _plan(leg: Leg, choice: ModelChoice, metric: MetricChoice, output: OutputOptions) -> RunPlan:
    """The leg's run where it is: judged already, or to be made (a judged leg goes under --overwrite)."""
    judged = leg.judged
    if judged is not None and not output.overwrite:
        plan = plan_feedback(leg.feedback, choice, metric, output, judged)
        shutil.rmtree(leg.running, ignore_errors=True)  # left by a kill between the two; the settings are the same
        return plan
    return plan_feedback(leg.feedback, choice, metric, output, leg.running)


def _make(legs: list[Leg], plans: Mapping[str, RunPlan], choice: ModelChoice) -> None:
    """Every missing pass of every leg, on one loaded model."""
    unmade = [leg for leg in legs if plans[leg.tag].decision is not Decision.COMPLETE]
    if unmade:
        _play(unmade, plans, choice)
        free_memory(choice.device)


def _play(legs: list[Leg], plans: Mapping[str, RunPlan], choice: ModelChoice) -> None:
    notes: list[str] = []
    generate: Callable = load_model(choice, notes.append)
    for number, leg in enumerate(legs, 1):
        print(f"blend {leg.feedback.anchor_blend:g} ({number} of {len(legs)})")
        play_passes(plans[leg.tag], generate, choice, leg.feedback, notes, hint=GO_ON)


def _judge_all(legs: list[Leg], choice: MetricChoice) -> None:
    """Measure what has no table, on one loaded metric, and send every leg where it belongs."""
    if not legs:
        return
    metric = load_chosen(choice)
    for leg in legs:
        if not is_measured(leg.running, choice, leg.feedback):
            measure(leg.running, choice, metric)
        _sort(leg, judge_leg(leg.running / TABLE, choice))
    with contextlib.suppress(OSError):
        legs[0].running.parent.rmdir()  # empty, unless a leg of another sweep waits there


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
    for old in (leg.root / "stable" / leg.tag, leg.root / "unstable" / leg.tag):
        shutil.rmtree(old, ignore_errors=True)
    target = leg.root / ("stable" if stable else "unstable") / leg.tag
    target.parent.mkdir(exist_ok=True)
    if not stable:
        leg.running.replace(target)
        return
    kept = target.with_name(f".{leg.tag}.part")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for name in {f"frames/frame_{verdicts[series]['frame']:04d}.png" for series in SERIES} | {"run.json"}:
        shutil.copy2(leg.running / name, kept)
    kept.replace(target)
    shutil.rmtree(leg.running)


def _row(leg: Leg) -> dict[str, float] | None:
    """The leg's line of the table; None where it is not stable."""
    if leg.judged is None or leg.judged.parent.name != "stable":
        return None
    verdicts = read_manifest(leg.judged)["stability"]
    row = {"anchor-blend": leg.feedback.anchor_blend or 0.0}
    for name, short in (("to_prev", "prev"), ("to_ref", "ref")):
        row |= {f"v_{short}": verdicts[name]["value"], f"i_{short}": verdicts[name]["frame"]}
    return row


def _summarise(root: Path, rows: list[dict[str, float]], choice: MetricChoice) -> None:
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
