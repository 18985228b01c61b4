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


def test_a_copy_that_fails_ends_neither_the_saving_nor_the_last_save(tmp_path):
    """Catches a hiccup of the bucket after which nothing is saved any more, or that ends the task without its results."""
    results, home = tmp_path / "results", tmp_path / "home"
    results.mkdir()
    stubs = {
        tmp_path
        / "bin"
        / "rsync": f'echo >> {tmp_path}/calls\n[ $(wc -l < {tmp_path}/calls) -gt 1 ] && cp -R "$3" "$4"',
        tmp_path / "bin" / "sleep": "/bin/sleep 0.05",
        home / "dltb" / ".venv" / "bin" / "dltb-sweep": (
            'for leg in a b; do mkdir -p untracked/sweep/$leg/run; echo \'"status": "complete"\' '
            f"> untracked/sweep/$leg/run/run.json; done\n"
            f"until [ -e {tmp_path}/calls ] && [ $(wc -l < {tmp_path}/calls) -ge 4 ]; do /bin/sleep 0.05; done\n"
            f"mkdir -p untracked/sweep/last && cp -R untracked/sweep/a/run untracked/sweep/last"
        ),
    }
    for path, text in stubs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    told = {
        "HOME": str(home),
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "GRID": "g",
        "SKYPILOT_NUM_GPUS_PER_NODE": "1",
    }
    task = TASK["run"].replace("/results", str(results))
    done = subprocess.run(["bash", "-c", task], env=told, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in results.iterdir()} >= {"a", "b", "last"}


def test_every_variable_is_set_by_the_task_or_by_skypilot():
    """Catches a variable that nobody gives a value."""
    told = {*TASK["envs"], *TASK["secrets"], "SKYPILOT_NUM_GPUS_PER_NODE"}
    used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", str(TASK)))
    assert used <= told
    assert {"BUNDLE", "GRID", "RESULTS"} <= used
