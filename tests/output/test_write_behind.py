"""The writer's thread: in order, bounded, and loud."""

import threading

import pytest

from dltb.output.write_behind import WriteBehind


def test_jobs_run_in_order_and_close_waits_for_them():
    """Catches a checkpoint that overtakes the files it speaks for."""
    done = []
    writer = WriteBehind(depth=2)
    for number in range(50):
        writer.submit(done.append, number)
    assert writer.close() is None
    assert done == list(range(50))


def test_the_first_error_stops_later_jobs_and_reaches_the_loop():
    """Catches a run that goes on for hours after the disk is full, or that checkpoints what was never written."""
    done = []
    writer = WriteBehind()

    def fail():
        raise OSError("full")

    writer.submit(fail)
    assert isinstance(writer.drain(), OSError)
    with pytest.raises(OSError, match="full"):
        for _ in range(1000):
            writer.submit(done.append, 1)
    assert isinstance(writer.close(lambda: done.append(threading.current_thread().name)), OSError)
    assert done == ["writer"], "the last job alone, and on the writer's thread"
