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
    """Progress of one stretch of work; ``total`` None means that the end is not known beforehand.

    The rate counts from the second pass on: the first may compile, and would say an end that is hours off.
    """

    def __init__(self, label: str, total: int | None, done: int = 0, unit: str = "passes") -> None:
        self._plain = not sys.stderr.isatty()
        self._meter = {"prefix": label, "total": total, "initial": done, "unit": f" {unit}"}
        self._bar = tqdm(
            desc=label, total=total, initial=done, unit=f" {unit}", disable=self._plain, dynamic_ncols=True
        )
        self._done = self._said = self._begun = done
        self._started = self._shown = self._first_done = time.monotonic()

    def step(self, drift: float | None = None) -> None:
        """One more is done; ``drift`` (levels, 0..255) is how far its frame is from the one before."""
        self._done += 1
        if drift is not None:
            self._meter["postfix"] = f"drift {drift:.2f}"
            self._bar.set_postfix_str(self._meter["postfix"], refresh=False)
        self._advance()
        if self._plain and time.monotonic() - self._shown >= PLAIN_SECONDS:
            self._line()

    def _advance(self) -> None:
        if self._done > self._begun + 1:
            self._bar.update()
            return
        self._first_done = time.monotonic()
        self._bar.n = self._bar.initial = self._bar.last_print_n = self._done
        self._bar.last_print_t = time.time()  # tqdm's clock
        self._bar.refresh()

    def _line(self) -> None:
        self._shown, self._said = time.monotonic(), self._done
        elapsed = self._shown - self._started
        line = tqdm.format_meter(self._done, elapsed=elapsed, rate=self._rate(), bar_format=PLAIN_FORMAT, **self._meter)
        print(line, file=sys.stderr, flush=True)

    def _rate(self) -> float | None:
        """Passes a second after the first; 0 is not known yet, None is tqdm's average."""
        timed, seconds = self._done - self._begun - 1, self._shown - self._first_done
        if timed == 0 and self._done == self._meter["total"]:
            return None
        return timed / seconds if seconds > 0 else 0

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
