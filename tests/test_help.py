"""Every tool's --help in a fresh interpreter in which heavy imports fail."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
HEAVY = ("torch", "diffusers", "transformers", "accelerate", "cv2", "matplotlib", "av", "PIL", "numpy")
PROGRAM = """
import importlib, sys
for name in {heavy}:
    sys.modules[name] = None  # an import of it raises ImportError
for entry in {entries}:
    module, function = entry.split(":")
    try:
        getattr(importlib.import_module(module), function)(["--help"])
    except SystemExit as stopped:
        assert stopped.code == 0, entry
"""


def test_help_needs_nothing_heavy():
    """Catches an import that crept to the top of a module and costs every --help its half second."""
    program = PROGRAM.format(heavy=HEAVY, entries=list(SCRIPTS.values()))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in SCRIPTS:
        assert f"usage: {name}" in done.stdout


@pytest.mark.parametrize("entry", SCRIPTS.values())
def test_a_wrong_flag_needs_nothing_heavy(entry, capsys):
    """Catches argument checks that happen only after loading; every tool's parser is strict."""
    module, function = entry.split(":")
    tool = getattr(__import__(module, fromlist=[function]), function)
    with pytest.raises(SystemExit) as stopped:
        tool(["--no-such-flag"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
