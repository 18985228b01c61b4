"""One line and an exit code for whatever happens."""

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
        (OSError(36, "File name too long", "x"), 1, "error: File name too long: x"),
    ],
)
def test_errors_become_one_line(error, code, line, capsys):
    """Catches tracebacks, several lines, and exit codes that scripts cannot rely on."""

    def work():
        raise error

    assert run_tool(work) == code
    assert capsys.readouterr().err == line + "\n"


def test_success_is_zero():
    """Catches None as an exit code."""
    assert run_tool(lambda: None) == 0
    assert run_tool(lambda: 3) == 3
