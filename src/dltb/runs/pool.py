"""A pipeline that stays loaded from one run to the next, for whoever makes several runs in one process.

What is lent is as good as new: a run finds the scheduler that loading would have given it, and a pipeline in which a run
failed is not lent again.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from dltb import UsageError
from dltb.runs.model import ModelChoice, load_chosen, load_model

PER_RUN = (
    "settings",
    "given",
    "control",
    "schedule",
)  # the fields of a choice that change nothing about what is loaded


class ModelPool:
    """Lends the pipeline that was loaded last to runs that want that very one; only one is in memory at a time.

    ``pool.load`` takes the place of ``load_model``.
    """

    def __init__(self, open_pipeline: Callable[[ModelChoice], Any] = load_chosen) -> None:
        self._open = open_pipeline
        self._key: tuple | None = None
        self._pipe: Any = None

    def load(self, choice: ModelChoice, note: Callable[[str], None]) -> Callable:
        """``generate(images, index) -> Pass`` as ``load_model`` returns it."""
        return load_model(choice, note, open_pipeline=self._lend)

    def _lend(self, choice: ModelChoice) -> Any:
        key = pipeline_key(choice)
        if key != self._key:
            self.clear()  # before the next one loads: the two need not fit in memory together
            self._pipe, self._key = self._open(choice), key
        import torch

        torch.backends.cudnn.benchmark = False  # torch's default; a profile sets it for its own runs
        scheduler = self._pipe.scheduler
        self._pipe.scheduler = type(scheduler).from_config(scheduler.config)
        return self._pipe

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Forget the pipeline when a run in this block fails, unless the request was at fault."""
        try:
            yield
        except UsageError:
            raise
        except BaseException:
            self.clear()
            raise

    def clear(self) -> None:
        """Let the pipeline go, and its memory on the device."""
        if self._pipe is None:
            return
        self._key = self._pipe = None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def pipeline_key(choice: ModelChoice) -> tuple:
    """Everything about a choice that decides what is loaded or what is done to it: all but what every pass is told.

    Under a profile that changes the pipeline the size of a pass is part of it: the compiled blocks are of that size.
    """
    size = None if choice.profile == "exact" else (choice.settings.width, choice.settings.height)
    return (size, *(getattr(choice, field.name) for field in fields(choice) if field.name not in PER_RUN))
