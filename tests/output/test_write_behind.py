"""The writer's thread: in order, bounded, and loud."""

import threading
import time

import pytest

from dltb.output.write_behind import BESIDE, WriteBehind


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


def test_what_ends_first_beside_the_writer_waits_for_its_turn():
    """Catches a log that names passes out of order, and a checkpoint that does not wait for a slow file."""
    slow, done = threading.Event(), []
    writer = WriteBehind()
    writer.submit(writer.beside, slow.wait, lambda: done.append("slow"))
    writer.submit(writer.beside, lambda: None, lambda: done.append("quick"))
    writer.submit(writer.beside, None, lambda: done.append("none"))
    writer.submit(slow.set)
    writer.submit(writer.settle)
    writer.submit(lambda: done.append("checkpoint"))
    assert writer.close() is None
    assert done == ["slow", "quick", "none", "checkpoint"]


def test_nothing_is_left_under_way_while_the_queue_is_empty():
    """Catches a pass that is said to be there only when the next one, an hour later, is written."""
    said = threading.Event()
    writer = WriteBehind()
    writer.submit(writer.beside, lambda: time.sleep(0.1), said.set)
    assert said.wait(10)
    assert writer.close() is None


def test_more_is_never_under_way_than_there_are_threads():
    """Catches frames that pile up in memory behind a slow disk."""
    hold, begun, handed = threading.Event(), [], []

    def job():
        begun.append(1)
        hold.wait(10)

    writer = WriteBehind(depth=100)
    for number in range(20):
        writer.submit(writer.beside, job)
        writer.submit(handed.append, number)
    while len(begun) < BESIDE or len(handed) < BESIDE:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(handed) == len(begun) == BESIDE
    hold.set()
    assert writer.close() is None
    assert len(handed) == 20


def test_an_error_beside_the_writer_stops_what_comes_after_it():
    """Catches a checkpoint that speaks for a PNG that was never written."""
    done = []

    def fail():
        raise OSError("full")

    writer = WriteBehind()
    writer.submit(writer.beside, fail, lambda: done.append("said"))
    writer.submit(writer.beside, None, lambda: done.append("later"))
    writer.submit(writer.settle)
    writer.submit(lambda: done.append("checkpoint"))
    assert isinstance(writer.close(), OSError)
    assert not done
