"""Running a tool as a plain script, in an interpreter in which chosen packages are not there."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src" / "dltb"
PROGRAM = """
import runpy, sys
for name in {missing!r}:
    sys.modules[name] = None  # an import of it raises ImportError
sys.path[0] = {folder!r}
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_script(name: str, *arguments: str, missing: Sequence[str]) -> None:
    """``python src/dltb/<name> <arguments>`` without the packages in ``missing``; a failure shows what it printed."""
    argv = [str(SOURCES / name), *arguments]
    program = PROGRAM.format(missing=tuple(missing), folder=str(SOURCES), argv=argv)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
