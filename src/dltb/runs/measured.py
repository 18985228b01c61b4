"""Runs that are measured as soon as they are made: passes first, then a distance per frame.

The model is unloaded before the metric loads, so the two never share the device's memory; what the metric needs is
tried before the first pass all the same, so that no run is made that cannot be measured.
"""

import sys
from collections.abc import Callable, Collection
from functools import partial

from dltb.args.metric_options import MetricOptions
from dltb.args.options import ModelOptions, OutputOptions
from dltb.imaging.frames import probe_image
from dltb.metrics.distances import check_size
from dltb.metrics.series import SHORTEST
from dltb.output.naming import output_root
from dltb.output.recorder import RunPlan
from dltb.output.run_directory import Decision
from dltb.runs.feedback import Feedback, choose_img2img, free_memory, plan_feedback, play_passes
from dltb.runs.measurement import DYNAMICS_PLOT, PLOT, TABLE, measure_once
from dltb.runs.metric import MetricChoice, check_loads, choose_metric, inert_options, load_chosen
from dltb.runs.model import ModelChoice, load_model
from dltb.runs.session import report

FEWEST = SHORTEST + 1  # passes whose series can be judged: the first has no distance to the one before


def run_measured(
    feedback: Feedback,
    model: ModelOptions,
    metric: MetricOptions,
    output: OutputOptions,
    *,
    control: str | None = None,
    given: Collection[str] = (),
    load: Callable | None = None,
) -> int:
    """Make the passes that are missing, then the table and the figures that are missing.

    ``load`` stands in for ``load_model``, to lend what is loaded already; such a model stays loaded beside the metric.
    """
    probe = probe_image(feedback.image)
    choice, measure_with = choose_both(model, metric, given, control)
    directory = output_root(output.output_dir, choice.spec.key) / feedback.directory_name(choice)
    plan = plan_feedback(feedback, choice, output, directory)
    if feedback.passes < FEWEST:
        say(f"{feedback.passes} passes are too few for dltb-stabilization to judge; it needs {FEWEST} or more")
    if plan.decision is not Decision.COMPLETE:
        check_loads(measure_with)
        make_passes(plan, choice, feedback, probe.notes, load=load or load_model)
    measure_once(plan.directory, measure_with, partial(load_chosen, measure_with))
    report(plan, {"main": feedback.passes})
    for name in (TABLE, PLOT, DYNAMICS_PLOT):
        print(f"{name}: {plan.directory / name}")
    return 0


def choose_both(
    model: ModelOptions, metric: MetricOptions, given: Collection[str], control: str | None
) -> tuple[ModelChoice, MetricChoice]:
    """Model and metric, checked against each other; options of the metric without effect are said."""
    choice = choose_img2img(model, given, control)
    measure_with = choose_metric(metric, model.device)
    check_size(measure_with.spec, width=choice.settings.width or 0, height=choice.settings.height or 0)
    for text in inert_options(measure_with, set(given) - {"device"}):  # the device is the model's too
        say(text)
    return choice, measure_with


def say(text: str) -> None:
    """A remark about the request, before the work."""
    print(f"NOTE: {text}", file=sys.stderr, flush=True)


def make_passes(
    plan: RunPlan, choice: ModelChoice, feedback: Feedback, notes: Collection[str] = (), *, load: Callable
) -> None:
    """Load the model, run what is missing, and unload it unless somebody else holds it."""
    said = list(notes)
    play_passes(plan, load(choice, said.append), choice, feedback, said)
    free_memory(choice.device)
