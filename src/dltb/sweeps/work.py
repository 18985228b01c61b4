"""One leg, carried out in this process: the tool's run on a lent model, then the tools that measure it."""

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import Interrupted, RunError, UsageError
from dltb.runs.pool import ModelPool
from dltb.sweeps.grid import Leg
from dltb.sweeps.root import LOG, find_run, not_measured, write_measured
from dltb.sweeps.tools import LOOP_TOOLS, MEASURING_TOOLS, check_flag


@dataclass(frozen=True)
class Task:
    """What a worker is told: a leg, where it goes, and how it is measured."""

    leg: Leg
    root: Path
    measure: Sequence[Sequence[str]]
    threads: int  # of torch on the CPU; their number decides how sums round
    input: Path | None = None  # where the leg's input lies here, if not where its settings say


@dataclass(frozen=True)
class Outcome:
    """What became of a leg."""

    name: str
    error: str | None = None  # None: it is complete
    again: bool = False  # whether another try may end otherwise


def carry_out(task: Task, pool: ModelPool) -> Outcome:
    """Make, or go on with, a leg.

    Raises:
        Interrupted: when a signal ended it; what is finished is on disk.
    """
    try:
        with pinned_threads(task.threads):
            with pool.guard():
                _run(task, pool)
            _measure(task)
    except (Interrupted, KeyboardInterrupt):
        raise
    except UsageError as error:
        return Outcome(task.leg.name, str(error))
    except RunError as error:
        return Outcome(task.leg.name, str(error), again=True)
    except Exception as error:  # a leg must not take the others with it
        traceback.print_exc()
        return Outcome(task.leg.name, f"{type(error).__name__}: {error}", again=True)
    return Outcome(task.leg.name)


def _run(task: Task, pool: ModelPool) -> None:
    leg = task.leg
    module = LOOP_TOOLS[leg.tool].module
    flags = [word for key, value in leg.settings.items() for word in check_flag(leg.tool, key, value).argument]
    if task.input is not None:
        flags.append(f"--input={task.input}")  # the last one counts
    # An unfinished leg goes on: that is what running a sweep again means.
    args = module.build_parser().parse_args([*flags, f"--output-dir={task.root / leg.name}", "--resume"])
    module.run(args, load=pool.load)


def _measure(task: Task) -> None:
    """Whatever is not there yet; a RunError says which tool failed."""
    run = find_run(task.root / task.leg.name)
    if run is None:
        raise RunError(f"{task.leg.tool} left no run in {task.root / task.leg.name}")
    missing = not_measured(run, task.measure)
    for done, words in enumerate(missing, len(task.measure) - len(missing) + 1):
        tool = MEASURING_TOOLS[words[0]]
        tables = [run.directory / name for name in tool.reads if (run.directory / name).exists()]
        if tool.reads and not tables:
            raise UsageError(
                f"{words[0]} reads {' or '.join(tool.reads)}; put the tool that makes it before it in measure"
            )
        target = tables[0] if tables else run.directory
        code = tool.module.main([*words[1:], str(target)])
        if code > 128:
            raise Interrupted(code - 128, f"stopped while {words[0]} measured {run.directory}")
        if code:
            raise RunError(f"the run is complete, but {words[0]} failed on it")
        write_measured(run, task.measure[:done])


@contextlib.contextmanager
def pinned_threads(count: int) -> Iterator[None]:
    """Let torch compute on the CPU with so many threads, in every executor alike."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def carry_out_logged(task: Task, pool: ModelPool, *, quiet: bool = False) -> Outcome:
    """The same, with what the tools print in the leg's log; ``quiet`` sends progress and notes there too."""
    directory = task.root / task.leg.name
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((directory / LOG).open("a", buffering=1, encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stdout(log))
        if quiet:
            stack.enter_context(contextlib.redirect_stderr(log))
        return carry_out(task, pool)
