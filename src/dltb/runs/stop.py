"""Ctrl-C and SIGTERM: the pass under way is finished and kept, then the run ends; a second signal ends it at once."""

import signal
import sys
from types import FrameType, TracebackType
from typing import Self

from dltb import DltbError


class Interrupted(DltbError):
    """A signal ended the run; exit code 128 + its number."""

    def __init__(self, number: int, hint: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; {hint}")
        self.exit_code = 128 + number


class StopSignal:
    """Watches for SIGINT and SIGTERM while it is entered; ``check`` raises Interrupted after one arrived."""

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

    def check(self) -> None:
        """Raise Interrupted when a signal has arrived."""
        if self._number is not None:
            raise Interrupted(self._number, self._hint)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None:
            raise Interrupted(number, self._hint)
        self._number = number
        print("stopping after this pass; once more to stop at once", file=sys.stderr, flush=True)
