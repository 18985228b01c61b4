"""Work ahead of the loop: same items in the same order, bounded, and errors where they belong."""

import threading
import time

import numpy as np
import pytest

from dltb.loop.engine import Source
from dltb.loop.prefetch import FlowAhead, prefetch


def test_items_arrive_in_order():
    """Catches a queue that reorders or loses."""
    assert list(prefetch(iter(range(100)), depth=3)) == list(range(100))


def test_depth_bounds_what_is_ahead():
    """Catches decoding a whole clip into memory while the device works on its first frame."""
    made = []

    def items():
        for item in range(1000):
            made.append(item)
            yield item

    ahead = prefetch(items(), depth=3)
    next(ahead)
    time.sleep(0.3)
    assert len(made) <= 1 + 3 + 1  # taken, queued, waiting for room
    ahead.close()


def test_an_error_surfaces_after_the_items_before_it():
    """Catches an error that is lost on its thread, or that swallows good frames."""

    def items():
        yield 1
        raise ValueError("broken file")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken file"):
        next(ahead)


def test_closing_early_ends_the_thread_and_closes_the_source():
    """Catches a decoder that stays open after a run that stopped."""
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    ahead = prefetch(items(), depth=2)
    next(ahead)
    ahead.close()
    assert closed.is_set()
    assert not any(thread.name == "prefetch" for thread in threading.enumerate())


def pairs(count: int) -> list[Source]:
    frames = [np.full((2, 2, 3), n, np.uint8) for n in range(count + 1)]
    return [Source(n, frames[n], frames[n - 1]) for n in range(1, count + 1)]


def test_watched_flow_is_computed_once_and_ahead():
    """Catches computing a flow again in the loop, where the device would wait for it."""
    calls = []

    def estimate(previous, current):
        calls.append((int(previous[0, 0, 0]), int(current[0, 0, 0])))
        return calls[-1]

    flow = FlowAhead(estimate)
    for source in list(flow.watch(pairs(5))):
        assert flow(source.previous, source.frame) == (source.index - 1, source.index)
    flow.close()
    assert sorted(calls) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_unwatched_flow_is_computed_on_the_spot_and_memory_is_bounded():
    """Catches a conditioning of one's own that asks for other pairs, and futures that pile up."""
    flow = FlowAhead(lambda previous, current: int(current.sum()), keep=4)
    sources = list(flow.watch(pairs(50)))
    assert len(flow._pending) == 4
    assert flow(sources[0].previous, sources[0].frame) == int(sources[0].frame.sum())
    flow.close()


def test_an_error_in_a_flow_reaches_the_loop():
    """Catches a worker's error that is never raised."""

    def broken(previous, current):
        raise ValueError("no flow")

    flow = FlowAhead(broken)
    (source,) = flow.watch(pairs(1))
    with pytest.raises(ValueError, match="no flow"):
        flow(source.previous, source.frame)
    flow.close()
