"""One thread that writes what the loop hands it, in order, behind a bounded queue."""

import queue
import threading
from collections.abc import Callable
from typing import Any

_STOP = object()


class WriteBehind:
    """Runs jobs in the order given. The first error stops all later jobs and is raised at the next call.

    Order is what checkpoints rest on: when a checkpoint's job runs, everything handed in before it is on disk.
    """

    def __init__(self, depth: int = 8) -> None:
        self._jobs: queue.Queue = queue.Queue(maxsize=depth)
        self._error: BaseException | None = None
        self._last: Callable[[], Any] | None = None
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[..., Any], *args: Any) -> None:
        """Queue ``job(*args)``, waiting while the queue is full; raises the error of an earlier job."""
        if self._error is not None:
            raise self._error
        self._jobs.put((job, *args))

    def drain(self) -> BaseException | None:
        """Run what is queued and return the first error."""
        self._jobs.join()
        return self._error

    def close(self, last: Callable[[], Any] | None = None) -> BaseException | None:
        """Run what is queued, then ``last``, even after an error; stop the thread, and return the first error."""
        self._last = last
        self._jobs.put(_STOP)
        self._thread.join()
        return self._error

    def _work(self) -> None:
        while (item := self._jobs.get()) is not _STOP:
            if self._error is None:
                self._run(*item)
            self._jobs.task_done()
        if self._last is not None:
            self._run(self._last)

    def _run(self, job: Callable[..., Any], *args: Any) -> None:
        try:
            job(*args)
        except BaseException as error:  # raised again in the loop's thread
            self._error = self._error or error
