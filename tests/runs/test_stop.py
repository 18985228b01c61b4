"""Signals: the pass under way is kept, and nothing finished is thrown away."""

import signal

import pytest

from dltb import Interrupted
from dltb.runs.stop import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_before_the_next_item(number):
    """Catches an item that is taken and lost, and a wrong exit code."""
    done = []
    with pytest.raises(Interrupted) as stopped, StopSignal("--resume goes on") as stop:
        for item in stop.guard(range(5)):
            if item == 2:
                signal.raise_signal(number)
            done.append(item)
    assert done == [0, 1, 2]
    assert stopped.value.exit_code == 128 + number
    assert "--resume goes on" in str(stopped.value)


def test_a_signal_during_the_last_item_loses_nothing():
    """Catches a run that is called unfinished although every pass was made."""
    with StopSignal("") as stop:
        for item in stop.guard(range(3)):
            if item == 2:
                signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_ends_at_once():
    """Catches a user who cannot stop a pass of ten minutes."""
    with pytest.raises(Interrupted), StopSignal("") as stop:
        for _ in stop.guard(range(3)):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("went on")


def test_handlers_are_put_back():
    """Catches a process that cannot be stopped after its run."""
    before = signal.getsignal(signal.SIGINT)
    with StopSignal(""):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
