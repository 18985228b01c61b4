"""Lanes that are Ray actors: one for each GPU of a cluster, with a loaded pipeline of its own.

Ray places the actors, restarts them elsewhere when a machine is lost, and shows legs by name in its dashboard. Where the
machines share the sweep's directory, a leg is made in place, and a lost one goes on from its frames. Where they do not, a
leg is made in a folder of the actor's machine, a lost one is made anew, and its files come back with the outcome.
"""

import io
import logging
import os
import signal
import socket
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from dltb import UsageError
from dltb.runs.inputs import describe_input, find_input
from dltb.runs.pool import ModelPool
from dltb.sweeps.executors import LaneLost, Waiting, in_lanes
from dltb.sweeps.plan import parsed
from dltb.sweeps.root import replace_leg
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
        self._own = Path(tempfile.mkdtemp(prefix="dltb-sweep-"))

    def ready(self) -> bool:
        """Answers once the actor runs."""
        return True

    def carry_out(self, task: Task, mark: str, source: Input) -> tuple[Outcome, bytes | None]:
        """Carry out a leg; the files of the leg come back as a tar archive where the driver would not see them."""
        is_shared = _read(task.root / MARK) == mark
        here = replace(task, root=task.root if is_shared else self._own / mark, input=self._place(source))
        outcome = carry_out_logged(here, self._pool, quiet=True)
        return outcome, None if is_shared else pack(here.root / task.leg.name)

    def _place(self, source: Input) -> Path:
        """The input on this machine: where it is on the driver's, or a copy under the same name."""
        if source.path.exists() and describe_input(source.path)["input sha256"] == source.digest:
            return source.path
        copy = self._own / "inputs" / source.digest / source.path.name
        if not copy.exists():
            copy.parent.mkdir(parents=True)
            copy.write_bytes(ray.get(source.content[0]))
        return copy


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def pack(directory: Path) -> bytes:
    """A directory as a tar archive, its own name left out; PNG and mp4 would not shrink."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory, arcname=".")
    return packed.getvalue()


class RayLane:
    """One actor."""

    def __init__(self, actor: Any, mark: str, inputs: dict[Path, Input]) -> None:
        self._actor, self._mark, self._inputs = actor, mark, inputs
        self._stopped = False

    def open(self) -> None:
        """Wait until the actor has a place in the cluster, for as long as that takes."""
        while not self._stopped:
            try:
                ray.get(self._actor.ready.remote())
                return
            except ray.exceptions.RayActorError:
                time.sleep(SOON)

    def carry_out(self, task: Task) -> Outcome:
        """Hand the leg to the actor and wait for what becomes of it."""
        method = self._actor.carry_out.options(name=task.leg.name)
        try:
            absolute = replace(task, root=task.root.absolute())  # the actor has a working directory of its own
            outcome, files = ray.get(method.remote(absolute, self._mark, self._input(task)))
        except ray.exceptions.RayError as error:
            raise LaneLost(f"its Ray worker was lost ({str(error).splitlines()[0]})") from None
        if files is not None:
            replace_leg(task.root, task.leg.name, files)
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
        ray.kill(self._actor)

    def close(self) -> None:
        """Nothing is left to do: the actor was ended."""


def on_ray(root: Path, address: str, workers: int | None, threads: int) -> Callable[[Waiting], Iterator[Outcome]]:
    """An executor of a Ray cluster; an empty address is the one of RAY_ADDRESS, else one of this machine alone."""

    def execute(waiting: Waiting) -> Iterator[Outcome]:
        mark, inputs = uuid.uuid4().hex, {}
        (root / MARK).write_text(mark, encoding="utf-8")
        try:
            _connect(address)
            count = min(max(1, len(waiting)), workers or _places(threads))
            lanes = [RayLane(actor, mark, inputs) for actor in _actors(count, threads)]
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
