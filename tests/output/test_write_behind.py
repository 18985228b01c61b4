"""The writer's thread: in order, bounded, and loud."""

import signal
import threading
import time
from functools import partial

import pytest

from dltb.output.write_behind import BESIDE, WriteBehind


def wait_for(there):
    deadline = time.monotonic() + 10
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def fail():
    raise OSError("full")


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
    writer.submit(fail)
    assert isinstance(writer.drain(), OSError)
    with pytest.raises(OSError, match="full"):
        for _ in range(1000):
            writer.submit(done.append, 1)
    assert isinstance(writer.close(lambda: done.append(threading.current_thread().name)), OSError)
    assert done == ["writer"], "the last job alone, and on the writer's thread"


def test_an_interrupt_anywhere_leaves_a_writer_that_closes():
    """Catches a job whose hand-over a second Ctrl-C cut in two: the writer sleeps for ever, and the run never ends."""

    class Stopped(Exception):
        pass

    def stop(number, frame):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for number in range(400):
            writer, done = WriteBehind(depth=2), []
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00001 * (number % 50))
                while True:
                    writer.submit(done.append, len(done))
            except Stopped:
                signal.setitimer(signal.ITIMER_REAL, 0)
            closing = threading.Thread(target=writer.close, daemon=True)
            closing.start()
            closing.join(10)
            assert not closing.is_alive(), f"stopped for ever, try {number}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
    wait_for(lambda: len(begun) >= BESIDE and len(handed) >= BESIDE)
    time.sleep(0.05)
    assert len(handed) == len(begun) == BESIDE
    hold.set()
    assert writer.close() is None
    assert len(handed) == 20


def test_an_error_beside_the_writer_stops_what_comes_after_it():
    """Catches a checkpoint that speaks for a PNG that was never written."""
    done = []
    writer = WriteBehind()
    writer.submit(writer.beside, fail, lambda: done.append("said"))
    writer.submit(writer.beside, None, lambda: done.append("later"))
    writer.submit(writer.settle)
    writer.submit(lambda: done.append("checkpoint"))
    assert isinstance(writer.close(), OSError)
    assert not done


@pytest.mark.parametrize("where", ["job", "beside"])
def test_nothing_is_under_way_when_an_error_is_handed_over(where):
    """Catches files closed and videos joined while threads still write, and their remains that fill the disk."""
    go, begun, done = threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        go.wait(10)
        time.sleep(0.1)
        done.append("slow")

    writer = WriteBehind()
    writer.submit(go.wait)  # so that all of it is queued before the queue is empty
    if where == "beside":
        writer.submit(writer.beside, lambda: begun.wait(10) and fail())
    writer.submit(writer.beside, slow)
    writer.submit(begun.wait)
    if where == "job":
        writer.submit(fail)
    go.set()
    assert isinstance(writer.drain(), OSError)
    assert done == ["slow"]
    writer.close()


def test_what_was_begun_before_an_error_is_still_said_to_be_there():
    """Catches files that are there and that no log names, as something else failed before their turn."""
    go, said = threading.Event(), []
    writer = WriteBehind()
    writer.submit(go.wait)
    for number in range(BESIDE):
        writer.submit(writer.beside, lambda: time.sleep(0.1), lambda number=number: said.append(number))
    writer.submit(fail)
    go.set()
    assert isinstance(writer.drain(), OSError)
    assert said == list(range(BESIDE))
    writer.close()


@pytest.mark.parametrize("fails", ["the job", "what it says"])
def test_after_a_failure_in_order_nothing_later_is_said(fails):
    """Catches a log with a gap: a pass is missing and the next one, whose file is there, follows."""
    go, said = threading.Event(), []
    writer = WriteBehind()
    writer.submit(go.wait)
    writer.submit(writer.beside, lambda: None, lambda: said.append(0))
    if fails == "the job":
        writer.submit(writer.beside, fail, lambda: said.append(1))
    else:
        writer.submit(writer.beside, lambda: None, fail)
    writer.submit(writer.beside, lambda: None, lambda: said.append(2))
    go.set()
    assert isinstance(writer.drain(), OSError)
    assert said == [0]
    writer.close()


def test_close_alone_loses_nothing():
    """Catches files that are dropped, or never said to be there, where `drain` was broken off."""
    go, done, said = threading.Event(), [], []

    def slow(number):
        time.sleep(0.02)
        done.append(number)

    writer = WriteBehind(depth=100)
    writer.submit(go.wait)
    for number in range(BESIDE + 1):
        writer.submit(writer.beside, partial(slow, number), partial(said.append, number))
    threading.Timer(0.1, go.set).start()  # after `close` has begun: the queue is not empty when the last job ends
    assert writer.close() is None
    assert sorted(done) == said == list(range(BESIDE + 1))


def test_what_has_no_job_takes_no_thread_and_no_endless_memory():
    """Catches a writer that stands still behind one slow file after a few passes without one, or never."""
    hold, handed = threading.Event(), []
    writer = WriteBehind(depth=BESIDE + 5)

    def hand_over():
        writer.beside(lambda: hold.wait(10))
        for number in range(BESIDE + 20):
            writer.beside(None)
            handed.append(number)

    writer.submit(hand_over)
    wait_for(lambda: len(handed) >= BESIDE + 4)
    time.sleep(0.05)
    assert len(handed) == BESIDE + 4
    hold.set()
    assert writer.close() is None
    assert len(handed) == BESIDE + 20
