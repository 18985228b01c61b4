"""Where legs run: in this process, or in lanes, each of which carries out one leg after the other somewhere else.

A lane that is lost in the middle of a leg opens again, and the leg goes back to those that wait. Which leg comes next is
the only thing decided here.
"""

import queue
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from dltb import RunError
from dltb.runs.pool import ModelPool
from dltb.sweeps.work import Outcome, Task, carry_out_logged

LOST_TRIES = 3  # lanes that a leg may lose before it counts as failed


class LaneLost(Exception):
    """The process that worked on a leg is gone."""


class Lane(Protocol):
    """One place that carries out legs, one at a time."""

    def carry_out(self, task: Task) -> Outcome:
        """Carry out a leg there, and open the place first if need be; LaneLost when it went away meanwhile."""

    def stop(self) -> None:
        """Have the leg under way stop soon; from another thread."""

    def close(self) -> None:
        """Give the place up."""


class Waiting:
    """The legs that wait; thread-safe. A failed one comes back ``retries`` times."""

    def __init__(self, tasks: Sequence[Task], *, retries: int, keep_going: bool) -> None:
        self._tasks = deque(tasks)
        self._retries, self._keep_going = retries, keep_going
        self._tried: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self) -> Task | None:
        """The next one; None when there is none, or none shall begin any more."""
        with self._lock:
            return self._tasks.popleft() if self._tasks and not self._closed else None

    def settle(self, task: Task, outcome: Outcome) -> Outcome | None:
        """What is final; None when the leg waits again."""
        with self._lock:
            self._tried[outcome.name] += 1
            if outcome.error and outcome.again and self._tried[outcome.name] <= self._retries:
                self._tasks.append(task)
                return None
            if outcome.error and not self._keep_going:
                self._closed = True
            return outcome

    def lose(self, task: Task, reason: str) -> Outcome | None:
        """The same for a leg whose lane is gone; it goes on first, from its frames."""
        with self._lock:
            self._lost[task.leg.name] += 1
            if self._lost[task.leg.name] <= LOST_TRIES:
                self._tasks.appendleft(task)
                return None
        return self.settle(task, Outcome(task.leg.name, f"{reason}, {LOST_TRIES + 1} times"))

    def close(self) -> None:
        """Begin no more."""
        with self._lock:
            self._closed = True


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
    results: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=_feed, args=(lane, waiting, results), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    working = len(lanes)
    try:
        while working:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                working -= 1
            else:
                yield result
    finally:
        waiting.close()
        for lane in lanes if working else ():
            lane.stop()
        for thread in threads:
            thread.join()
        for lane in lanes:
            lane.close()


def _feed(lane: Lane, waiting: Waiting, results: queue.SimpleQueue) -> None:
    try:
        while (task := waiting.take()) is not None:
            try:
                outcome = waiting.settle(task, lane.carry_out(task))
            except LaneLost as lost:
                outcome = waiting.lose(task, str(lost))
            if outcome is not None:
                results.put(outcome)
    except Exception as error:
        results.put(error if isinstance(error, RunError) else RunError(f"{type(error).__name__}: {error}"))
    finally:
        results.put(None)
