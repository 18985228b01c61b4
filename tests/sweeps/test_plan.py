"""The plan against what runs: legs that are said to share a load do share it."""

import itertools
from dataclasses import replace

import pytest

from dltb.args.options import ModelOptions
from dltb.runs.model import choose_model
from dltb.runs.pool import pipeline_key
from dltb.sweeps.grid import Grid, Leg
from dltb.sweeps.plan import parsed, plan_legs

PROFILES = ("exact", "fast")
SETTINGS = (
    {},
    {"prompt": "fog", "seed": 3, "strength": 0.6},
    {"width": 128, "height": 64},
    {"width": 64, "height": 64},
    {"control": "vae"},
    {"device": "cpu", "num-inference-steps": 6},
    {"model": "tiny-klein"},
)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_plan_loads_what_the_pool_loads(tmp_path, profile):
    """Catches models that are counted but not loaded, and legs in an order that loads one model again and again."""
    legs = [Leg(str(n), "dltb-iterate", {"device": "cpu", **more}) for n, more in enumerate(SETTINGS)]
    planned = plan_legs(
        Grid("g", [Leg(leg.name, leg.tool, {**leg.settings, "profile": profile}) for leg in legs], ()), tmp_path
    )
    pool = [pipeline_key(replace(_chosen(leg), profile=profile)) for leg in legs]
    for one, other in itertools.combinations(range(len(legs)), 2):
        shared = planned[one].load_key == planned[other].load_key
        assert shared is (pool[one] == pool[other]), (SETTINGS[one], SETTINGS[other])


def _chosen(leg):
    values = parsed(leg)
    options = {name: values[name] for name in ModelOptions.__dataclass_fields__}
    return choose_model(ModelOptions(**options), control=values["control"])
