"""Progress: plain lines with rate and time left when piped, and a bar on a terminal."""

import io

from dltb.output import progress
from dltb.output.progress import Progress, watched


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_when_piped(monkeypatch, capsys):
    """Catches a log full of carriage returns, and hours of silence in one."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    with Progress("main", 30, done=10) as shown:
        for _ in range(2):
            shown.step()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("main: 11/30 passes,")
    assert lines[-1].startswith("main: 12/30 passes,")
    assert len(lines) == 2, "the last one once"
    assert all("left" in line and "passes/s" in line for line in lines)


def test_a_slow_first_pass_is_not_in_the_rate(monkeypatch, capsys):
    """Catches a time left of hours that a first pass which compiles promises."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    clock = iter([0.0, *[87.0] * 3, *[88.0] * 2, *[89.0] * 2])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = Progress("main", 12)
    for _ in range(3):
        shown.step()
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.endswith("? passes/s, 01:27 elapsed, ? left")
    assert "1.00 passes/s, 01:28 elapsed, 00:10 left" in second
    assert "1.00 passes/s, 01:29 elapsed, 00:09 left" in third


def test_unknown_end(monkeypatch, capsys):
    """Catches a crash where the clip does not say how long it is."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    with Progress("main", None) as shown:
        shown.step()
    assert "1/?" in capsys.readouterr().err


def test_a_bar_on_a_terminal(monkeypatch):
    """Catches plain lines where a person watches."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(watched([1, 2, 3], "drift", "frames")) == [1, 2, 3]
    assert "\r" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()


def test_the_last_drift_is_shown(monkeypatch, capsys):
    """Catches a status line that says how fast a run is but not whether it still moves."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    with Progress("main", 3) as shown:
        shown.step()
        shown.step(4.256)
    first, second = capsys.readouterr().err.splitlines()
    assert "drift" not in first
    assert second.endswith("left, drift 4.26")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress("main", 3) as shown:
        shown.step(1.5)
    assert "drift 1.50" in terminal.getvalue()
