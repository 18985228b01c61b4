"""Experiment trackers (TensorBoard, Weights & Biases, trackio, ...) through accelerate's one interface.

A tracker only watches: whatever goes wrong with one is said once, and the run goes on without it.
"""

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dltb import UsageError

PROJECT = "dltb"
FOLDER = "trackers"  # in the run directory, for trackers that write files
# Where the package has another name than the tracker, or several serve.
_PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX")}
# How each is told the run's name; the others take the project's name alone.
_RUN_NAME = {
    "wandb": "name",
    "trackio": "name",
    "swanlab": "experiment_name",
    "mlflow": "run_name",
    "clearml": "task_name",
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse, before anything loads, trackers whose packages are not installed."""
    for name in names:
        packages = _PACKAGES.get(name, (name,))
        if importlib.util.find_spec("accelerate") is None:
            raise UsageError("--log-with needs accelerate: `uv sync` in a checkout, or `pip install 'dltb[models]'`")
        if not any(importlib.util.find_spec(package) for package in packages):
            raise UsageError(f"--log-with {name} needs the package {packages[0]}: `uv pip install {packages[0]}`")


class Trackers:
    """The trackers of one run. Some keep their run by thread, so all methods are called on one."""

    def __init__(self, names: Sequence[str], directory: Path, run_name: str, note: Callable[[str], None]) -> None:
        self._names, self._folder, self._run_name, self._note = names, directory / FOLDER, run_name, note
        self._open: dict[str, Any] = {}

    def start(self, settings: Mapping[str, Any]) -> None:
        """Open every tracker and hand it the settings."""
        for name in self._names:
            with self._giving_up(name):
                tracker = self._make(name)
                tracker.start()
                self._open[name] = tracker
                tracker.store_init_configuration({key: _plain(value) for key, value in settings.items()})

    def log(self, phase: str, step: int, facts: Mapping[str, Any]) -> None:
        """The numbers of one pass as ``<phase>/<name>``; ``step`` only ever grows, as some trackers demand."""
        numbers = {f"{phase}/{name}": value for name, value in facts.items() if isinstance(value, int | float)}
        for name, tracker in list(self._open.items()):
            with self._giving_up(name):
                tracker.log(numbers, step=step)

    def log_frame(self, phase: str, step: int, frame: np.ndarray) -> None:
        """A frame, uint8 [H, W, 3], for trackers that take pictures."""
        for name, tracker in list(self._open.items()):
            with self._giving_up(name):
                _log_frame(name, tracker, f"{phase}/frame", frame, step)

    def finish(self) -> None:
        """Close every tracker."""
        for name in list(self._open):
            with self._giving_up(name):
                self._open.pop(name).finish()

    def _make(self, name: str) -> Any:
        from accelerate import PartialState
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        PartialState(cpu=True)  # accelerate asks it which process logs; this way it touches no accelerator
        kind = LOGGER_TYPE_TO_CLASS[name]
        if kind.requires_logging_directory:
            self._folder.mkdir(exist_ok=True)
            return kind(self._run_name, str(self._folder))
        named = {_RUN_NAME[name]: self._run_name} if name in _RUN_NAME else {}
        return kind(PROJECT, **named)

    @contextlib.contextmanager
    def _giving_up(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._open.pop(name, None)
            self._note(f"the run goes on without {name}: {' '.join(str(error).split()) or type(error).__name__}")


def _log_frame(name: str, tracker: Any, key: str, frame: np.ndarray, step: int) -> None:
    """accelerate hands pictures on as they are, and every tracker takes them in another shape."""
    if name == "tensorboard":
        tracker.log_images({key: frame[None]}, step=step, dataformats="NHWC")
    elif name in ("wandb", "swanlab"):
        tracker.log_images({key: [frame]}, step=step)
    elif name in ("aim", "clearml"):
        tracker.log_images({key: frame}, step=step)
    elif name == "trackio":
        import trackio

        tracker.log({key: trackio.Image(frame)}, step=step)


def _plain(value: Any) -> bool | int | float | str | None:
    """Trackers take no lists or fractions."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
