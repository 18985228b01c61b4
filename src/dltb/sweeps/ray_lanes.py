"""Lanes that are Ray actors: one for each GPU of a cluster, with a loaded pipeline of its own.

Ray places the actors, restarts them elsewhere when a machine is lost, and shows legs by name in its dashboard. Where the
machines share the sweep's directory, a leg is made in place, and a lost one goes on from its frames. Where they do not, what
there is of a leg goes to the actor's machine and its files come back with the outcome; a lost one goes on from what the
driver has.
"""

import logging
import os
import signal
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from dltb import Interrupted, UsageError
from dltb.imaging.atomic import replacing
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.pool import ModelPool
from dltb.sweeps.executors import LaneLost, Waiting, in_lanes
from dltb.sweeps.plan import parsed
from dltb.sweeps.root import pack_leg, replace_leg, take_leg
from dltb.sweeps.work import Outcome, Task, carry_out_logged

MARK = ".driver"  # a file in the sweep's directory; whoever reads the right word in it shares that directory
REACHED = 5.0  # s in which a cluster must answer
SOON = 2.0  # s between two tries to reach an actor that is being restarted


@dataclass(frozen=True)
class Input:
    """A leg's input file, for machines that do not have it."""

    path: Path  # absolute, on the driver
    digest: str  # SHA-256
    content: tuple[Any]  # reference to its bytes in Ray's object store; in a tuple they travel only when asked for


class Worker:
    """The actor. It knows its machine's disk and one pool of models."""

    def __init__(self) -> None:
        self._pool = ModelPool()
        self._folder = tempfile.TemporaryDirectory(prefix="dltb-sweep-")
        self._own = Path(self._folder.name)

    def sees(self, root: Path, mark: str) -> bool:
        """Whether this machine shares the sweep's directory; answers once the actor runs."""
        return _read(root / MARK) == mark

    def carry_out(
        self, task: Task, mark: str, source: Input, begun: tuple[Any, ...] = ()
    ) -> tuple[Outcome, bytes | None]:
        """Carry out a leg; the files of the leg come back as a tar archive where the driver would not see them.

        ``begun`` holds a reference to such an archive of what the driver has of the leg, if anything.
        """
        if self.sees(task.root, mark):
            return carry_out_logged(replace(task, input=self._place(source)), self._pool, quiet=True), None
        with tempfile.TemporaryDirectory(prefix="leg-", dir=self._own) as folder:
            here = replace(task, root=Path(folder), input=self._place(source))
            for reference in begun:
                replace_leg(here.root, task.leg.name, ray.get(reference))
            outcome = carry_out_logged(here, self._pool, quiet=True)
            return outcome, pack_leg(here.root / task.leg.name)

    def leave(self) -> None:
        """Remove what the actor has put on its machine."""
        self._folder.cleanup()

    def _place(self, source: Input) -> Path:
        """The input on this machine: where it is on the driver's, or a copy under the same name."""
        if source.path.exists() and describe_input(source.path)["input sha256"] == source.digest:
            return source.path
        copy = self._own / "inputs" / source.digest / source.path.name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            with replacing(copy) as temporary:
                temporary.write_bytes(ray.get(source.content[0]))
        return copy


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


class RayLane:
    """One actor."""

    def __init__(self, actor: Any, root: Path, mark: str, inputs: dict[Path, Input]) -> None:
        self._actor, self._mark, self._inputs = actor, mark, inputs
        self._root = root.absolute()  # the actor has a working directory of its own
        self._stopped = self._idle = self._shares = False

    def open(self) -> None:
        """Wait until the actor has a place in the cluster, for as long as that takes."""
        while not self._stopped:
            try:
                self._shares = ray.get(self._actor.sees.remote(self._root, self._mark))
                self._idle = True
                return
            except ray.exceptions.RayActorError:
                time.sleep(SOON)

    def carry_out(self, task: Task) -> Outcome:
        """Hand the leg to the actor and wait for what becomes of it."""
        method = self._actor.carry_out.options(name=task.leg.name)
        self._idle = False
        try:
            absolute, leg = replace(task, root=self._root), self._root / task.leg.name
            begun = (ray.put(pack_leg(leg)),) if leg.exists() and not self._shares else ()
            outcome, files = ray.get(method.remote(absolute, self._mark, self._input(task), begun))
        except ray.exceptions.RayError as error:
            if _is_leg_at_fault(error):
                self._idle = True
                return Outcome(task.leg.name, _told(error), again=True)
            raise LaneLost(f"its Ray worker was lost ({_told(error)})") from None
        self._idle = True
        if files is not None:
            take_leg(task.root, task.leg.name, files, is_complete=outcome.error is None)
        return outcome

    def _input(self, task: Task) -> Input:
        path = find_input(parsed(task.leg)["input"]).resolve()
        if path not in self._inputs:
            digest = describe_input(path)["input sha256"]
            self._inputs[path] = Input(path, digest, (ray.put(path.read_bytes()),))
        return self._inputs[path]

    def stop(self) -> None:
        """End the actor; a leg under way goes on from its last checkpoint the next time."""
        self._stopped = True
        if self._idle:
            ray.wait([self._actor.leave.remote()], timeout=SOON)
        ray.kill(self._actor)

    def close(self) -> None:
        """Nothing is left to do: the actor was ended."""


def _is_leg_at_fault(error: Exception) -> bool:
    """Whether the actor is well, and what it was asked to do raised an exception; a signal to it is its loss."""
    cause = getattr(error, "cause", None)
    return isinstance(error, ray.exceptions.RayTaskError) and not isinstance(cause, Interrupted | KeyboardInterrupt)


def _told(error: Exception) -> str:
    """One line: for an exception of ours what it was, else what Ray says first."""
    cause = getattr(error, "cause", None)
    return f"{type(cause).__name__}: {cause}" if cause else next(iter(str(error).splitlines()), type(error).__name__)


def on_ray(root: Path, address: str, workers: int | None, threads: int) -> Callable[[Waiting], Iterator[Outcome]]:
    """An executor of a Ray cluster; an empty address is the one of RAY_ADDRESS, else one of this machine alone."""

    def execute(waiting: Waiting) -> Iterator[Outcome]:
        mark, inputs = uuid.uuid4().hex, {}
        (root / MARK).write_text(mark, encoding="utf-8")
        try:
            _connect(address)
            count = min(max(1, len(waiting)), workers or _places(threads))
            lanes = [RayLane(actor, root, mark, inputs) for actor in _actors(count, threads)]
            yield from in_lanes(waiting, lanes)
        finally:
            (root / MARK).unlink(missing_ok=True)
            ray.shutdown()

    return execute


def _check_reachable(address: str) -> None:
    """Refuse an address at which nobody listens; Ray itself would go on trying for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # auto, or nothing: Ray looks for the cluster itself
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--ray {address}: nobody listens there ({error}); start a cluster with `ray start --head`"
        ) from None


def _connect(address: str) -> None:
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody unasked
    handler = signal.getsignal(signal.SIGTERM)  # Ray's own would end the sweep without a table
    try:
        ray.init(address=address or None, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"--ray {address}: no Ray cluster can be reached there ({error})") from None
    finally:
        signal.signal(signal.SIGTERM, handler)


def _places(threads: int) -> int:
    """How many actors the cluster has room for: one for each GPU, else for each so many CPUs."""
    there = ray.cluster_resources()
    return int(there.get("GPU", 0)) or max(1, int(there.get("CPU", 1)) // threads)


def _actors(count: int, threads: int) -> list[Any]:
    needs = {"num_gpus": 1, "num_cpus": 1} if ray.cluster_resources().get("GPU") else {"num_cpus": threads}
    # Ray places an actor anew when it is lost; which leg it goes on with is for those that wait.
    worker = ray.remote(Worker).options(max_restarts=-1, max_task_retries=0, **needs)
    return [worker.remote() for _ in range(count)]
