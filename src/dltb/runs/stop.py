"""Ctrl-C and SIGTERM: the pass under way is finished and kept, then the run ends; a second signal ends it at once."""

import os
import signal
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Self, TypeVar

from dltb import Interrupted

T = TypeVar("T")


class StopSignal:
    """Watches for SIGINT and SIGTERM while it is entered."""

    def __init__(self, hint: str) -> None:
        self._hint = hint
        self._number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def guard(self, items: Iterable[T]) -> Iterator[T]:
        """Pass ``items`` on; raise Interrupted instead of the next one after a signal, so nothing finished is lost."""
        for item in items:
            if self._number is not None:
                raise self._interrupted(self._number)
            yield item

    def _interrupted(self, number: int) -> Interrupted:
        return Interrupted(number, f"stopped by {signal.Signals(number).name}; {self._hint}")

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None:
            raise self._interrupted(number)
        self._number = number
        # Not print(): a handler may run in the middle of another print.
        os.write(2, b"stopping after this pass; once more to stop at once\n")
