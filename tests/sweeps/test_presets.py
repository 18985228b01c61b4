"""The presets against the bash drivers whose sweeps they are."""

from pathlib import Path

import pytest

from dltb import stability_sweep
from dltb.runs.sweep import blend_range
from dltb.sweeps.grid import read_grid
from dltb.sweeps.plan import parsed
from dltb.sweeps.tools import LOOP_TOOLS
from tests.scripts.test_dry_run import GOLDEN, commands

DECIDED_ELSEWHERE = ("output_dir", "resume", "overwrite", "given")


def options(tool, values):
    told = {name: value for name, value in values.items() if name not in DECIDED_ELSEWHERE}
    return frozenset({("tool", tool), *told.items()})


def legs_of_driver(case):
    for words in commands((GOLDEN / f"{case}.txt").read_text()):
        tool = Path(words[0]).name
        if tool in LOOP_TOOLS:
            yield options(tool, vars(LOOP_TOOLS[tool].module.build_parser().parse_args(words[1:])))


def test_the_stability_preset_is_the_tools_own_range():
    """Catches a preset that lags behind dltb-stability-sweep."""
    own = stability_sweep.SweepOptions()
    legs = [parsed(leg) for leg in read_grid("stability").legs]
    assert [leg["anchor_blend"] for leg in legs] == list(blend_range(own.min_blend, own.max_blend, own.step))
    assert {leg["frames"] for leg in legs} == {own.frames}


@pytest.mark.parametrize(
    ("preset", "case"),
    [
        ("blend-sweep", "sweep"),
        ("prompt-table", "sweep-prompt"),
        ("klein-ladder", "sweep-klein"),
        ("klein-ladder-dual-ref", "sweep-klein-dual-ref"),
        ("klein-mask", "sweep-klein-mask"),
    ],
)
def test_a_preset_is_its_drivers_sweep(preset, case):
    """Catches a preset and a driver that drift apart. What the recorded dry run leaves out: prompts, steps; what the preset
    leaves out: klein in the blend sweep."""
    legs = {options(leg.tool, parsed(leg)) for leg in read_grid(preset).legs}
    driver = {leg for leg in legs_of_driver(case) if preset != "blend-sweep" or ("model", "flux2-klein-9b") not in leg}
    assert len(driver) > 1
    assert not driver - legs, sorted(min(driver - legs, key=str) ^ min(legs, key=str), key=str)
    if preset in ("blend-sweep", "klein-ladder", "klein-mask"):
        assert driver == legs
