"""The pool of models: what is loaded once, and that nothing of one run is left for the next."""

from dataclasses import fields, replace

import numpy as np
import pytest

from dltb import RunError, UsageError
from dltb.args.options import ModelOptions, ScheduleOptions
from dltb.imaging.passes import PassSettings
from dltb.runs.model import ModelChoice, choose_model
from dltb.runs.pool import PER_RUN, ModelPool, pipeline_key
from dltb.runs.schedule import Schedule


@pytest.fixture
def choice():
    return choose_model(ModelOptions(width=64, height=64, device="cpu"))


def counted(pipe):
    opened = []

    def open_pipeline(choice):
        opened.append(choice)
        return pipe

    return ModelPool(open_pipeline), opened


def test_every_field_of_a_choice_is_in_the_key_or_known_to_be_a_runs_own(choice):
    """Catches a new option of loading, such as a speed profile, that the pool does not tell apart."""
    known = {"spec", "device", "weights", "offload", "profile", *PER_RUN}
    names = {field.name for field in fields(ModelChoice)}
    assert names <= known, f"decide whether {names - known} changes the loaded pipeline, then add it here"
    for name in names - set(PER_RUN):
        assert pipeline_key(replace(choice, **{name: "other"})) != pipeline_key(choice), name


def test_one_load_for_runs_that_differ_in_what_a_pass_is_told(tiny_turbo, choice):
    """Catches a model that is loaded for every leg."""
    pool, opened = counted(tiny_turbo.pipe)
    for prompt in ("", "fog"):
        pool.load(replace(choice, settings=replace(choice.settings, prompt=prompt)), print)
    assert len(opened) == 1
    schedule = Schedule(ScheduleOptions(prompt_schedule=((0, ""), (2, "fog"))))
    pool.load(replace(choice, schedule=schedule), print)
    assert len(opened) == 1, "what changes from pass to pass is told the pass"
    pool.load(replace(choice, control="vae"), print)
    assert len(opened) == 1


def test_a_profile_that_changes_the_pipeline_shares_it_for_one_size_only(choice):
    """Catches blocks that are compiled for one size after another until the compiler gives up."""
    larger = replace(choice.settings, width=128)
    assert pipeline_key(replace(choice, settings=larger)) == pipeline_key(choice)
    fast = replace(choice, profile="fast")
    assert pipeline_key(replace(fast, settings=larger)) != pipeline_key(fast)


def test_the_control_without_a_model_loads_none(tiny_turbo, choice):
    """Catches a pipeline that is dropped, or loaded, for a run that needs none."""
    pool, opened = counted(tiny_turbo.pipe)
    pool.load(choice, print)
    pool.load(replace(choice, control="identity"), print)
    pool.load(choice, print)
    assert len(opened) == 1


def passes(generate, picture):
    frame, made = picture, []
    for index in (1, 2):
        frame = generate(frame, index).frame
        made.append(frame)
    return np.stack(made)


@pytest.mark.parametrize(
    "before", [{"num_inference_steps": 9, "strength": 0.9}, {"prompt": "fog", "guidance_scale": 3.0}]
)
def test_what_one_run_leaves_never_reaches_the_next(tiny_turbo, choice, small_picture, before):
    """Catches a scheduler, an embedding or a guidance scale that outlives its run."""
    alone = passes(counted(tiny_turbo.pipe)[0].load(choice, print), small_picture)
    pool, _ = counted(tiny_turbo.pipe)
    passes(pool.load(replace(choice, settings=replace(choice.settings, **before)), print), small_picture)
    assert np.array_equal(passes(pool.load(choice, print), small_picture), alone)


def test_a_run_gets_a_scheduler_of_its_own(tiny_turbo, choice):
    """Catches timesteps and begin index of a pass that was broken off."""
    pool, _ = counted(tiny_turbo.pipe)
    pool.load(choice, print)
    first = tiny_turbo.pipe.scheduler
    first.set_timesteps(7)
    pool.load(choice, print)
    assert tiny_turbo.pipe.scheduler is not first
    assert tiny_turbo.pipe.scheduler.config == first.config


def test_a_pipeline_in_which_a_run_failed_is_not_lent_again(tiny_turbo, choice):
    """Catches hooks or half-moved parts that an error in a pass left behind; a wrong request leaves nothing."""
    pool, opened = counted(tiny_turbo.pipe)
    for error, loads in ((UsageError("a bad flag"), 1), (RunError("out of memory"), 2)):
        pool.load(choice, print)
        with pytest.raises(type(error)), pool.guard():
            raise error
        pool.load(choice, print)
        assert len(opened) == loads


def test_the_fields_that_a_pass_is_told_exist():
    """Catches a renamed field, which would turn every leg into a load of its own."""
    assert set(PER_RUN) <= {field.name for field in fields(ModelChoice)}
    assert PassSettings is ModelChoice.__annotations__["settings"]
