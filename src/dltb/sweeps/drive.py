"""A sweep from its plan to its table: lock, record, legs in an executor, and what to say about it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dltb import Interrupted, RunError
from dltb.output.run_directory import locked
from dltb.sweeps.executors import Waiting
from dltb.sweeps.grid import Grid
from dltb.sweeps.plan import COMPLETE, by_model, describe, plan_legs
from dltb.sweeps.root import TABLE, check_record, read_record, write_error, write_record
from dltb.sweeps.table import SweepTable
from dltb.sweeps.work import Outcome, Task

GO_ON = "what is finished is kept, and the same command goes on"
Executor = Callable[[Waiting], Iterator[Outcome]]


@dataclass(frozen=True)
class Conditions:
    """How legs are carried out, whatever they are."""

    threads: int = 1
    retries: int = 0
    keep_going: bool = False


def show_plan(grid: Grid, root: Path, *, workers: int) -> None:
    """Print what would be done."""
    check_record(root, read_record(root), grid.legs)
    for line in describe(plan_legs(grid, root), root, workers=workers):
        print(line)


def run_sweep(grid: Grid, root: Path, executor: Executor, conditions: Conditions) -> None:
    """Carry out what is missing of the grid.

    Raises:
        UsageError: before anything is changed, when the grid and what is in ``root`` do not go together.
        RunError: at the end, when a leg failed.
    """
    with locked(root):
        known = read_record(root)
        check_record(root, known, grid.legs)
        planned = plan_legs(grid, root)
        pending = [one.leg for one in by_model(planned)]
        print(f"{len(planned)} legs, {sum(one.state == COMPLETE for one in planned)} of them complete; {root / TABLE}")
        root.mkdir(parents=True, exist_ok=True)
        write_record(root, known, grid.legs)
        if pending or not (root / TABLE).exists():
            tasks = [Task(leg, root, grid.measure, conditions.threads) for leg in pending]
            _carry_out(tasks, root, executor, conditions)


def _carry_out(tasks: list[Task], root: Path, executor: Executor, conditions: Conditions) -> None:
    table = SweepTable(root)
    failed: list[Outcome] = []
    for task in tasks:
        write_error(root / task.leg.name, None)
    waiting = Waiting(tasks, retries=conditions.retries, keep_going=conditions.keep_going)
    try:
        with closing(executor(waiting)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                write_error(root / outcome.name, outcome.error)
                row = table.update(outcome.name)
                failed += [outcome] if outcome.error else []
                seconds = row.get("seconds_per_pass")
                rate = f", {seconds:.3g} s a pass" if seconds else ""
                print(f"[{done}/{len(tasks)}] {outcome.name}: {outcome.error or f'complete{rate}'}", flush=True)
    except (KeyboardInterrupt, Interrupted) as stopped:
        number = stopped.exit_code - 128 if isinstance(stopped, Interrupted) else signal.SIGINT
        raise Interrupted(number, f"stopped by {signal.Signals(number).name}; {GO_ON}") from None
    finally:
        for task in tasks:
            table.refresh(task.leg.name)
        table.write()
    if failed:
        rest = "" if conditions.keep_going else "; legs after it were not begun (--keep-going)"
        raise RunError(
            f"{len(failed)} of {len(tasks)} legs failed, the first {failed[0].name}: {failed[0].error}{rest}"
        )
