"""Lanes that are processes of this machine, each pinned to a device and with a loaded pipeline of its own."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from types import FrameType
from typing import NoReturn

from dltb import Interrupted, UsageError
from dltb.runs.pool import ModelPool
from dltb.sweeps.executors import LaneLost, Waiting, in_lanes
from dltb.sweeps.work import Outcome, Task, carry_out_logged


class ProcessLane:
    """One worker process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process: multiprocessing.Process | None = None
        self._connection: Connection | None = None
        self._busy = self._stopped = False
        self._turn = threading.Lock()  # between a leg that begins and a stop

    def open(self) -> None:
        """Start the process."""
        if self._stopped:
            return
        context = multiprocessing.get_context("spawn")  # a forked torch may hang or find no CUDA
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._environment), daemon=True)
        self._process.start()
        theirs.close()

    def carry_out(self, task: Task) -> Outcome:
        """Hand the leg to the process and wait for what becomes of it."""
        try:
            with self._turn:
                if self._stopped:
                    raise LaneLost("the sweep was stopped")
                self._connection.send(task)
                self._busy = True
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise LaneLost(f"its worker process died ({_told_exit(self._process.exitcode)})") from None
        finally:
            self._busy = False

    def stop(self) -> None:
        """Have the process finish its pass, if it makes one, and end."""
        with self._turn:
            self._stopped = True
            if self._busy and self._process.is_alive():
                self._process.terminate()

    def close(self) -> None:
        """Wait for the process to end."""
        if self._process is not None:
            self._connection.close()
            self._process.join()


def _told_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit {code}"


def _serve(connection: Connection, environment: Mapping[str, str]) -> None:
    """What a worker process does: legs, one after the other, until nobody sends any more."""
    os.environ.update(environment)
    os.setsid()  # Ctrl-C on the terminal reaches the sweep alone, which tells its workers once
    signal.signal(signal.SIGTERM, _leave)  # between legs; a leg under way handles it itself
    threading.Thread(target=end_with_parent, daemon=True).start()
    pool = ModelPool()
    try:
        while True:
            connection.send(carry_out_logged(connection.recv(), pool, quiet=True))
    except (EOFError, Interrupted, KeyboardInterrupt):
        return


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit()


def end_with_parent() -> None:
    """A command that is killed must not leave workers that hold its legs; for a thread of such a worker."""
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGKILL)


def worker_environments(count: int, threads: int) -> Sequence[dict[str, str]]:
    """For each worker process the variables that pin it: one CUDA device each, in turn; MPS and the CPU need none.

    Raises:
        UsageError: for several workers on MPS, which is one device.
    """
    import torch

    shared = {"OMP_NUM_THREADS": str(threads)}
    if torch.cuda.is_available():
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]
        return [{**shared, "CUDA_VISIBLE_DEVICES": devices[number % len(devices)]} for number in range(count)]
    if torch.backends.mps.is_available() and count > 1:
        raise UsageError(f"--workers {count}: there is one MPS device; give --workers 1, or leave the flag out")
    return [shared] * count


def in_processes(workers: int, threads: int) -> Callable[[Waiting], Iterator[Outcome]]:
    """An executor of so many worker processes, fewer where there are fewer legs."""

    def execute(waiting: Waiting) -> Iterator[Outcome]:
        count = max(1, min(workers, len(waiting)))
        return in_lanes(waiting, [ProcessLane(environment) for environment in worker_environments(count, threads)])

    return execute
