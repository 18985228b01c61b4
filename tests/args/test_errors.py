"""One line and an exit code for whatever happens."""

import os
import signal
import subprocess
import sys

import pytest

from dltb import Interrupted, RunError, UsageError
from dltb.args.errors import run_tool


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("no such\nfile"), 2, "error: no such file"),
        (RunError("disk full"), 1, "error: disk full"),
        (Interrupted(15, "stopped"), 143, "error: stopped"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (OSError(36, "File name too long", "x"), 2, "error: File name too long: x"),
        (OSError(28, "No space left on device"), 1, "error: [Errno 28] No space left on device"),
    ],
)
def test_errors_become_one_line(error, code, line, capsys):
    """Catches tracebacks, several lines, and exit codes that scripts cannot rely on."""

    def work():
        raise error

    assert run_tool(work) == code
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(("error", "code"), [(Interrupted(15, "stopped"), 143), (KeyboardInterrupt(), 130)])
def test_a_signal_wrapped_by_an_import_is_the_signal(error, code):
    """Catches a traceback for a signal that arrived while a library was importing; an error worded here is kept."""

    def wrapping(kind):
        def work():
            try:
                raise error
            except BaseException as inner:
                raise kind("Failed to import something") from inner

        return work

    assert run_tool(wrapping(RuntimeError)) == code
    assert run_tool(wrapping(UsageError)) == 2


def test_sigterm_outside_the_passes_ends_with_a_line(capsys):
    """Catches a process that dies without a word while its model loads."""
    assert run_tool(lambda: signal.raise_signal(signal.SIGTERM)) == 143
    assert capsys.readouterr().err == "error: stopped by SIGTERM\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(("command", "code"), [("--help", 0), ("no/such/folder", 2)])
def test_streams_that_went_away(command, code):
    """Catches complaints at exit, and a missing stderr that is taken for a broken model."""
    program = f"import sys; from dltb.assemble import main; sys.exit(main([{command!r}]))"
    shell = f'"{sys.executable}" -c "{program}"'
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", f"{shell} | true; exit ${{PIPESTATUS[0]}}"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (1 if code else 0)
    assert subprocess.run(["bash", "-c", f"{shell} >&- 2>&-"], env=environment).returncode == code


def test_success_is_zero():
    """Catches None as an exit code."""
    assert run_tool(lambda: None) == 0
    assert run_tool(lambda: 3) == 3
