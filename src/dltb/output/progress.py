"""Progress with rate and time left: a bar on a terminal, plain lines elsewhere, both on stderr."""

import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from tqdm import tqdm

T = TypeVar("T")
PLAIN_SECONDS = 15  # between two plain lines
PLAIN_FORMAT = "{desc}: {n_fmt}/{total_fmt}{unit}, {rate_noinv_fmt}, {elapsed} elapsed, {remaining} left{postfix}"


class Progress:
    """Progress of one stretch of work; ``total`` None means that the end is not known beforehand."""

    def __init__(self, label: str, total: int | None, done: int = 0, unit: str = "passes") -> None:
        self._plain = not sys.stderr.isatty()
        self._meter = {"prefix": label, "total": total, "initial": done, "unit": f" {unit}"}
        self._bar = tqdm(
            desc=label, total=total, initial=done, unit=f" {unit}", disable=self._plain, dynamic_ncols=True
        )
        self._done = self._said = done
        self._started = self._shown = time.monotonic()

    def step(self, drift: float | None = None) -> None:
        """One more is done; ``drift`` (levels, 0..255) is how far its frame is from the one before."""
        self._done += 1
        if drift is not None:
            self._meter["postfix"] = f"drift {drift:.2f}"
            self._bar.set_postfix_str(self._meter["postfix"], refresh=False)
        self._bar.update()
        if self._plain and time.monotonic() - self._shown >= PLAIN_SECONDS:
            self._line()

    def _line(self) -> None:
        self._shown, self._said = time.monotonic(), self._done
        elapsed = self._shown - self._started
        line = tqdm.format_meter(self._done, elapsed=elapsed, bar_format=PLAIN_FORMAT, **self._meter)
        print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()
        if self._plain and self._done > self._said:
            self._line()


def watched(items: Sequence[T], label: str, unit: str) -> Iterator[T]:
    """Iterate ``items`` under a progress bar."""
    with Progress(label, len(items), unit=unit) as progress:
        for item in items:
            yield item
            progress.step()
