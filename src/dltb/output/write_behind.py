"""One thread that writes what the loop hands it, in order, behind a bounded queue; a few beside it for what is slow."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

BESIDE = 3  # threads: a PNG may take longer than a pass
_STOP = object()


class WriteBehind:
    """Runs jobs in the order given. The first error stops all later jobs and is raised at the next call.

    No job is under way any more, beside it or not, when ``drain`` and ``close`` return, after an error too.

    Order is what checkpoints rest on: a checkpoint's job calls ``settle``, and then everything handed in before it is on
    disk.

    A second Ctrl-C raises wherever the loop's thread is, inside of a call to this class too. A ``queue.Queue`` may then hold
    a job that wakes nobody; a call of a ``SimpleQueue`` is whole or was not made. So the bound is a queue of free places.
    """

    def __init__(self, depth: int = 8) -> None:
        self._depth = depth
        self._jobs: SimpleQueue = SimpleQueue()  # (job, where None goes when it is taken, and when it is over)
        self._free: SimpleQueue = SimpleQueue()
        for _ in range(depth):
            self._free.put(None)
        self._error: BaseException | None = None
        self._last: Callable[[], Any] | None = None
        self._pool = ThreadPoolExecutor(BESIDE, thread_name_prefix="beside the writer")
        self._under_way: deque[tuple[Future | None, Callable[[], Any]]] = deque()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[..., Any], *args: Any) -> None:
        """Queue ``job(*args)``, waiting while the queue is full; raises the error of an earlier job."""
        if self._error is not None:
            raise self._error
        self._free.get()
        self._jobs.put((partial(job, *args), self._free, SimpleQueue()))

    def beside(self, job: Callable[[], Any] | None, then: Callable[[], Any] = lambda: None) -> None:
        """Within a job: begin ``job`` on another thread; ``then`` runs on this one, in order, when it has ended well.

        Waits while more jobs are under way than there are threads, or more of what is in order waits than the queue holds;
        while no job is queued all of it is waited for. Without a ``job`` only the order counts.
        """
        self._under_way.append((self._pool.submit(job) if job else None, then))
        while self._under_way and (self._is_full() or _is_over(self._under_way[0][0])):
            self._end_first()

    def _is_full(self) -> bool:
        return len(self._begun()) > BESIDE or len(self._under_way) > self._depth

    def _begun(self) -> list[Future]:
        return [begun for begun, _ in self._under_way if begun is not None]

    def settle(self) -> None:
        """Within a job: wait for all that was begun beside it."""
        while self._under_way:
            self._end_first()

    def _end_first(self) -> None:
        begun, then = self._under_way.popleft()
        try:
            if begun is not None:
                begun.result()
            then()
        except BaseException:
            # What comes after it may be done, but is never said to be: there would be a gap.
            wait(self._begun())
            self._under_way.clear()
            raise

    def drain(self) -> BaseException | None:
        """Run what is queued and return the first error."""
        over: SimpleQueue = SimpleQueue()
        self._jobs.put((self.settle, SimpleQueue(), over))
        over.get()
        return self._error

    def close(self, last: Callable[[], Any] | None = None) -> BaseException | None:
        """Run what is queued, then ``last``, even after an error; stop the thread, and return the first error."""
        self._last = last
        self._jobs.put(_STOP)
        self._thread.join()
        return self._error

    def _work(self) -> None:
        while (item := self._jobs.get()) is not _STOP:
            job, taken, over = item
            taken.put(None)
            if self._error is None:
                self._run(job)
            if self._error is not None or self._jobs.empty():
                self._run(self.settle)
            over.put(None)
        self._run(self.settle)
        self._pool.shutdown()
        if self._last is not None:
            self._run(self._last)

    def _run(self, job: Callable[[], Any]) -> None:
        try:
            job()
        except BaseException as error:  # raised again in the loop's thread
            self._error = self._error or error


def _is_over(begun: Future | None) -> bool:
    return begun is None or begun.done()
