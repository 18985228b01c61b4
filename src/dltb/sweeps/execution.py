"""The flags that say where legs run, and the executor that they mean."""

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.args.parser import add_options, option, whole


@dataclass(frozen=True)
class ExecutionOptions:
    """Where and how legs run; of all of it only ``threads`` can change a bit of a result."""

    workers: int | None = option(
        None,
        "run legs side by side in N processes, each pinned to a CUDA device in turn; the default is one leg at a time in "
        "this process",
        metavar="N",
        parse=whole(1, at_most=1024),
    )
    threads: int = option(
        1,
        "threads of torch on the CPU in every process; results depend on it, so it is the same however legs are run",
        metavar="N",
        parse=whole(1, at_most=1024),
    )
    retries: int = option(0, "try a leg that failed so many times again", metavar="N", parse=whole(0, at_most=100))
    keep_going: bool = option(False, "after a leg that failed, go on with the others; else no further leg begins")


def add_execution(parser: argparse.ArgumentParser, *, leave_out: Sequence[str] = ()) -> None:
    """Add the flags of ExecutionOptions and --ray, whose value may be left away."""
    add_options(parser, ExecutionOptions, "execution", leave_out=leave_out)
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const="",
        help="run legs on a Ray cluster, one actor for each GPU (--workers: how many); without ADDRESS the cluster of "
        "RAY_ADDRESS, else this machine. Needs the extra: dltb[ray]",
    )


def choose_executor(execution: ExecutionOptions, root: Path, ray: str | None) -> Callable:
    """This process, others beside it, or those of a cluster."""
    from dltb.sweeps.executors import in_this_process
    from dltb.sweeps.processes import in_processes

    if ray is not None:
        if importlib.util.find_spec("ray") is None:
            raise UsageError(
                "--ray needs the package ray: `uv sync --extra ray` in a checkout, or `pip install 'dltb[ray]'`"
            )
        from dltb.sweeps.ray_lanes import on_ray

        return on_ray(root, ray, execution.workers, execution.threads)
    if execution.workers is None:
        return in_this_process
    return in_processes(execution.workers, execution.threads)
