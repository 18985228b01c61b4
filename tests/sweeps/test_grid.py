"""Grid files: which legs they mean, what the legs are called, and what is refused with the key that is wrong."""

import itertools
import re
import textwrap
from pathlib import Path

import pytest

from dltb import UsageError, sweep
from dltb.sweeps.grid import DEFAULT_MEASURE, preset_names, read_grid
from dltb.sweeps.plan import parsed, plan_legs
from dltb.sweeps.tools import LOOP_TOOLS, MEASURING_TOOLS


def grid(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text('[fixed]\ntool = "dltb-iterate"\niterations = 2\n' + text if "[fixed]" not in text else text)
    return read_grid(str(path))


def names(found):
    return [leg.name for leg in found.legs]


def test_a_product_times_a_zip_times_legs(tmp_path):
    """Catches combinations that are lost, doubled, or in another order than the file's."""
    found = grid(
        tmp_path,
        """
        [product]
        strength = [0.3, 0.5]
        [zip]
        seed = [1, 2]
        prompt = { none = "", oil = "an oil painting" }
        [[leg]]
        [[leg]]
        name = "long"
        iterations = 8
        save-every = 2
        """,
    )
    expected = itertools.product((0.3, 0.5), ((1, "none", ""), (2, "oil", "an oil painting")), ("", "long"))
    assert names(found) == [
        f"strength-{strength}_seed-{seed}_prompt-{label}" + (f"_{leg}" if leg else "")
        for strength, (seed, label, _), leg in expected
    ]
    assert dict(found.legs[3].settings) == {
        "iterations": 8, "strength": 0.3, "seed": 2, "prompt": "an oil painting", "save-every": 2
    }  # fmt: skip
    assert found.measure == tuple((name,) for name in DEFAULT_MEASURE)


def test_lists_in_a_leg_are_a_product_of_its_own(tmp_path):
    """Catches a leg whose list reaches the tool as one value."""
    assert names(grid(tmp_path, "[[leg]]\nseed = [1, 2]\nstrength = [0.3, 0.5]\n[[leg]]\ncontrol = 'vae'")) == [
        "seed-1_strength-0.3", "seed-1_strength-0.5", "seed-2_strength-0.3", "seed-2_strength-0.5", "control-vae"
    ]  # fmt: skip


def test_names_hold_only_what_differs(tmp_path):
    """Catches names that grow with every setting, and a sweep of one leg without a name."""
    assert names(grid(tmp_path, "[product]\nseed = [1]\nstrength = [0.3, 0.5]")) == ["strength-0.3", "strength-0.5"]
    assert names(grid(tmp_path, "[product]\nseed = [1]")) == ["iterate"]
    assert names(grid(tmp_path, "[product]\nfixed-seed = [true, false]")) == ["fixed-seed", "no-fixed-seed"]


def test_texts_that_cannot_stand_in_a_name_stay_apart(tmp_path):
    """Catches two prompts, or two inputs of one file name, in one directory."""
    found = names(grid(tmp_path, "[product]\nprompt = ['a/b fog', 'a b/fog', '', 'a\\\\b', '../x', '%s']" % ("y" * 90)))
    assert len(set(found)) == 6
    assert all("/" not in name and not name.startswith(".") and len(name) < 64 for name in found)


@pytest.mark.parametrize("values", ["{ a = 1, A = 2 }", "[1, 1]"])
def test_two_legs_of_one_name_are_refused(tmp_path, values):
    """Catches legs that overwrite each other, also where the file system does not tell case."""
    with pytest.raises(UsageError, match=r"grid.toml: two legs would be called "):
        grid(tmp_path, f"[product]\nseed = {values}\nstrength = [0.3, 0.5]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[product]\nstrenght = [0.3]", "strenght: dltb-iterate has no --strenght (did you mean strength?)"),
        ("[product]\nstrength = [0.3, 2.0]", "strength = 2.0: 2.0 is out of range: above 0, at most 1"),
        ("[product]\niterations = [1]\n[zip]\niterations = [2]", "iterations: set in more than one of"),
        ("[product]\nseed = [1]\n[[leg]]\nseed = 2", "seed: set in more than one of"),
        ("[zip]\nseed = [1, 2]\nstrength = [0.3]", "zip: lists of one length are needed, not seed 2, strength 1"),
        ("[product]\nseed = []", "seed: an empty list"),
        ("[product]\noutput-dir = ['a']", "output-dir: the sweep itself says where runs go"),
        ("[product]\nresume = [true]", "resume: the sweep itself"),
        ("[product]\nfixed-seed = ['no']", "fixed-seed = 'no': true or false is needed"),
        ("[product]\nseed = [true]", "seed = True: a value is needed"),
        ("[product]\nseed = [[1]]", "seed = [1]: one text, number, true or false is needed"),
        ("[products]\nseed = [1]", "products: unknown; a grid has preset, measure, fixed"),
        ("[fixed]\nseed = 1", "tool: say which tool the legs run"),
        ("[fixed]\ntool = 'dltb-drift'", "tool: unknown tool 'dltb-drift'; known: dltb-oneshot"),
        ("measure = ['dltb-fly']\n[fixed]\ntool = 'iterate'", "measure: unknown tool in 'dltb-fly'"),
        (
            "measure = ['dltb-drift --evry 2']\n[fixed]\ntool = 'iterate'",
            "measure: 'dltb-drift --evry 2': unrecognized",
        ),
        (
            "measure = ['dltb-distance']\n[fixed]\ntool = 'distance-loop'",
            "measure: dltb-distance is not for dltb-distance-loop, which measures itself",
        ),
        ("[[leg]]\nname = '../up'", "'../up' names a directory"),
        ("[product]\nseed = { 'a/b' = 1 }", "'a/b' names a directory"),
        ("preset = 'klein'\n[fixed]", "preset: unknown preset 'klein'; known: blend-sweep"),
        ("[fixed", "not a grid file"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(tmp_path, text, says):
    """Catches a typo that runs for hours under a default, and an error that does not say where."""
    with pytest.raises(UsageError) as refused:
        grid(tmp_path, text)
    assert "grid.toml: " in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_names_the_presets(tmp_path):
    """Catches a traceback, and presets that nobody finds."""
    with pytest.raises(UsageError, match=r"No such file.*presets: blend-sweep, klein-ladder"):
        read_grid(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_grid(name):
    """Catches a preset that lags behind the tools' flags."""
    found = read_grid(name)
    assert len(found.legs) > 1
    for leg in found.legs:
        assert LOOP_TOOLS[leg.tool].passes(parsed(leg), 1000) > 0


def test_a_file_changes_its_preset(tmp_path):
    """Catches a preset whose model or legs cannot be replaced."""
    found = grid(tmp_path, "preset = 'blend-sweep'\n[fixed]\nmodel = 'tiny-turbo'\nmax_frames = 8")
    assert names(found)[:2] == ["boil-test", "baseline"], "one model: its name is in no name"
    assert all(leg.settings["model"] == "tiny-turbo" and leg.settings["max-frames"] == 8 for leg in found.legs)
    other = grid(tmp_path, "preset = 'klein-ladder'\n[fixed]\nmodel = 'tiny-klein'\n[[leg]]\nseed = [1, 2]")
    assert names(other) == ["seed-1", "seed-2"]


def test_a_switch_that_is_off_anyway_is_no_argument(tmp_path):
    """Catches --no-reproject-mask, which no tool has."""
    text = "[fixed]\ntool = 'continuous'\n[product]\nreproject-mask = [false, true]\nreproject = [true]"
    found = grid(tmp_path, text)
    assert [parsed(leg)["reproject_mask"] for leg in found.legs] == [False, True]


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "text",
    [
        (ROOT / "input_example" / "grid.toml").read_text(),
        *re.findall(r"```toml\n(.*?)```", (ROOT / "doc" / "sweeps.md").read_text(), re.DOTALL),
        textwrap.dedent(re.search(r"a grid file:\n(.*?)\n\n", sweep.EPILOG, re.DOTALL).group(1)),
    ],
)
def test_the_grids_that_are_shown_are_grids(tmp_path, text):
    """Catches an example that nobody can run."""
    (tmp_path / "grid.toml").write_text(text)
    found = read_grid(str(tmp_path / "grid.toml"))
    assert len(plan_legs(found, tmp_path / "root")) == len(found.legs) > 1


def test_help_names_every_preset_and_the_docs_every_tool():
    """Catches a preset, or a tool, that is there and that nobody finds."""
    told = sweep.DESCRIPTION
    assert all(name in told for name in preset_names())
    doc = (ROOT / "doc" / "sweeps.md").read_text()
    assert all(f"`{name}`" in doc for name in (*LOOP_TOOLS, *MEASURING_TOOLS, *preset_names()))


def test_values_are_checked_before_a_product_is_made(tmp_path, monkeypatch):
    """Catches half a minute of making millions of legs before the one wrong value is told."""
    monkeypatch.setattr("dltb.sweeps.grid._leg", lambda *_: pytest.fail("a leg was made"))
    for text in ("[product]\nseed = [1, 2]\nstrength = [0.3, 7.5]", "[[leg]]\nseed = [1, 2]\nstrength = [0.3, 7.5]"):
        with pytest.raises(UsageError, match=r"strength = 7.5: .*out of range"):
            grid(tmp_path, text)


def test_a_size_that_nothing_takes_is_refused_by_the_plan(tmp_path):
    """Catches a plan of a run that no model and no encoder can make."""
    with pytest.raises(UsageError, match="--width 16000000: at most 16384 px"):
        plan_legs(grid(tmp_path, "[product]\nwidth = [16000000]"), tmp_path)
