"""The SkyPilot task: what its shell lines call exists, and is called as it wants to be."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dltb.sweep import build_parser

ROOT = Path(__file__).parents[2]
TASK = yaml.safe_load((ROOT / "scripts" / "sweep.sky.yaml").read_text())


@pytest.mark.parametrize("part", ["setup", "run"])
def test_the_shell_lines_are_sound(part):
    """Catches what shellcheck catches; it cannot see into YAML by itself."""
    tool = str(Path(sys.executable).with_name("shellcheck"))
    done = subprocess.run([tool, "-s", "bash", "-"], input=TASK[part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_it_calls_exists():
    """Catches a renamed script or flag."""
    assert (ROOT / re.search(r"scripts/\S+\.sh", TASK["setup"]).group()).is_file()
    line = re.search(r"bin/dltb-sweep (.*?) \|\|", TASK["run"], re.DOTALL).group(1)
    filled = line.replace("\\\n", " ").replace("$SKYPILOT_NUM_GPUS_PER_NODE", "2")
    args = build_parser().parse_args(shlex.split(filled))
    assert (args.workers, args.keep_going, args.retries) == (2, True, 1)


def test_every_variable_is_set_by_the_task_or_by_skypilot():
    """Catches a variable that nobody gives a value."""
    told = {*TASK["envs"], *TASK["secrets"], "SKYPILOT_NUM_GPUS_PER_NODE"}
    used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", str(TASK)))
    assert used <= told
    assert {"BUNDLE", "GRID", "RESULTS"} <= used
