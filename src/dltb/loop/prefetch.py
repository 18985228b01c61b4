"""Work ahead of the loop: decoding on a thread, flow on a few more, both bounded so that memory stays constant.

Flow needs only source frames, so it never waits for the model; the device meanwhile works on the pass before.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from dltb.loop.engine import Frame, Source

T = TypeVar("T")
_END = object()


def prefetch(items: Iterable[T], depth: int = 4) -> Iterator[T]:
    """Iterate ``items`` on a thread, at most ``depth`` ahead; an error surfaces where its item would have been."""
    # Calls of a SimpleQueue are whole: a second Ctrl-C in the middle of one cannot leave the other side waiting for ever.
    ready: queue.SimpleQueue = queue.SimpleQueue()
    free: queue.SimpleQueue = queue.SimpleQueue()
    for _ in range(depth):
        free.put(None)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                free.get(timeout=0.1)
            except queue.Empty:
                continue
            ready.put(item)
            return True
        return False

    def produce() -> None:
        last: Any = _END
        try:
            for item in items:
                if not put(item):
                    break
        except BaseException as error:  # handed to the consumer, who raises it
            last = error
        finally:
            if hasattr(items, "close"):
                items.close()
            put(last)

    worker = threading.Thread(target=produce, name="prefetch", daemon=True)
    worker.start()
    try:
        while (item := ready.get()) is not _END:
            free.put(None)
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join()


class FlowAhead:
    """``estimate_flow(previous, current)`` whose answers were started when the frames were decoded.

    Call ``watch(sources)`` around the sources and hand the object itself to a conditioning; a pair that was not watched
    is computed on the spot. Only the last ``keep`` answers are held. ``of_source`` answers for a watched source in the
    place of ``estimate_flow``, where motion is known by the number of a frame.
    """

    def __init__(
        self,
        estimate_flow: Callable[[Frame, Frame], Any],
        workers: int = 2,
        keep: int = 16,
        *,
        of_source: Callable[[Source], Any] | None = None,
    ) -> None:
        self.workers = workers
        self._estimate = estimate_flow
        self._of_source = of_source or (lambda source: estimate_flow(source.previous, source.frame))
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="flow")
        self._pending: deque[tuple[Frame, Frame, Future]] = deque(maxlen=keep)
        self._lock = threading.Lock()  # the deque is filled on the decoding thread and read on the loop's

    def watch(self, sources: Iterable[Source]) -> Iterator[Source]:
        """Pass ``sources`` on, starting the flow of each as it goes by."""
        for source in sources:
            if source.previous is not None:
                future = self._pool.submit(self._of_source, source)
                with self._lock:
                    self._pending.append((source.previous, source.frame, future))
            yield source

    def __call__(self, previous: Frame, current: Frame) -> Any:
        with self._lock:
            started = [future for before, now, future in self._pending if before is previous and now is current]
        return started[0].result() if started else self._estimate(previous, current)

    def close(self) -> None:
        """Stop the workers; what has not started is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
