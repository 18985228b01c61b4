"""Where legs run: in this process, or in lanes, each of which carries out one leg after the other somewhere else.

A lane that is lost in the middle of a leg opens again, and the leg goes back to those that wait. Which leg comes next is
the only thing decided here.
"""

import queue
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from dltb import DltbError, RunError
from dltb.runs.pool import ModelPool
from dltb.sweeps.work import Outcome, Task, carry_out_logged

LOST_TRIES = 3  # lanes that a leg may lose before it counts as failed


class LaneLost(Exception):
    """The process that worked on a leg is gone."""


class Lane(Protocol):
    """One place that carries out legs, one at a time."""

    def open(self) -> None:
        """Make the place ready, also after it was lost; returns once it is, or after ``stop``."""

    def carry_out(self, task: Task) -> Outcome:
        """Carry out a leg there; LaneLost when the place goes away meanwhile."""

    def stop(self) -> None:
        """Have the leg under way stop soon, and open no more; called from another thread."""

    def close(self) -> None:
        """Give the place up, once no leg is under way."""


class Waiting:
    """The legs that wait; thread-safe. A failed one comes back ``retries`` times."""

    def __init__(self, tasks: Sequence[Task], *, retries: int, keep_going: bool) -> None:
        self._tasks = deque(tasks)
        self._in_hand = 0
        self.taken = 0  # legs handed out so far, again and again counted
        self._closed = False
        self._retries, self._keep_going = retries, keep_going
        self._tried: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits, or may begin any more, and nothing is under way."""
        return self._in_hand == 0 and (self._closed or not self._tasks)

    def take(self) -> Task | None:
        """The next one; while others are under way, wait in case one comes back. None when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._closed or self.is_over)
            if self._closed or not self._tasks:
                return None
            self._in_hand += 1
            self.taken += 1
            return self._tasks.popleft()

    def settle(self, task: Task, outcome: Outcome) -> Outcome | None:
        """What is final; None when the leg waits again."""
        with self._changed:
            self._tried[outcome.name] += 1
            is_final = not (outcome.error and outcome.again and self._tried[outcome.name] <= self._retries)
            if not is_final:
                self._tasks.append(task)
            elif outcome.error and not self._keep_going:
                self._closed = True
            self._put_down()
        return outcome if is_final else None

    def lose(self, task: Task, reason: str) -> Outcome | None:
        """The same for a leg whose place is gone; it goes on first, from its frames."""
        with self._changed:
            self._lost[task.leg.name] += 1
            if self._lost[task.leg.name] <= LOST_TRIES:
                self._tasks.appendleft(task)
                self._put_down()
                return None
        return self.settle(task, Outcome(task.leg.name, f"{reason}, {LOST_TRIES + 1} times"))

    def _put_down(self) -> None:
        self._in_hand -= 1
        self._changed.notify_all()

    def close(self) -> None:
        """Begin no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def in_this_process(waiting: Waiting) -> Iterator[Outcome]:
    """One leg after the other, here, on one pool of models."""
    pool = ModelPool()
    done = 0
    while (task := waiting.take()) is not None:
        done += 1
        print(f"leg {done}: {task.leg.name}", flush=True)
        outcome = waiting.settle(task, carry_out_logged(task, pool))
        if outcome is not None:
            yield outcome


def in_lanes(waiting: Waiting, lanes: Sequence[Lane]) -> Iterator[Outcome]:
    """Legs side by side, one in each lane; outcomes come in the order in which legs end."""
    results: queue.SimpleQueue[Outcome | Exception | None] = queue.SimpleQueue()  # one for every leg taken
    threads = [threading.Thread(target=_feed, args=(lane, waiting, results), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    received = 0
    try:
        while received < waiting.taken or not waiting.is_over:
            result = results.get()
            received += 1
            if isinstance(result, Exception):
                raise result
            if result is not None:
                yield result
    finally:
        waiting.close()
        for lane in lanes:
            lane.stop()
        for thread in threads:
            thread.join()
        for lane in lanes:
            lane.close()


def _feed(lane: Lane, waiting: Waiting, results: queue.SimpleQueue) -> None:
    try:
        lane.open()
        while (task := waiting.take()) is not None:
            try:
                results.put(waiting.settle(task, lane.carry_out(task)))
            except LaneLost as lost:
                results.put(waiting.lose(task, str(lost)))
                lane.open()
    except Exception as error:
        results.put(error if isinstance(error, DltbError) else RunError(f"{type(error).__name__}: {error}"))
