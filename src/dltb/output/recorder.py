"""Writes a run: run.json first and last, and behind the loop its PNGs, videos, steps.jsonl and checkpoints.

Passes go through one queue, in order. Their PNGs are packed on threads beside it; a pass is logged in its turn, when its
PNG is there, and a checkpoint waits for all that came before it.
"""

import contextlib
import itertools
import json
import os
import shutil
import socket
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from dltb import Interrupted, RunError, UsageError, __version__
from dltb.imaging.frames import shrunk, write_png, write_stored_png
from dltb.output import checkpoint as checkpoints
from dltb.output.checkpoint import Checkpoint, ResumePoint
from dltb.output.files import write_json
from dltb.output.identity import describe_output, png_text, run_id
from dltb.output.run_directory import SCHEMA, Decision, decide, fresh_directory, locked, read_manifest
from dltb.output.segments import ANEW, SegmentedVideo
from dltb.output.trackers import Trackers
from dltb.output.write_behind import WriteBehind

PREVIEW_SIDE = 256  # px, the longer side at most


@dataclass(frozen=True)
class Phase:
    """A stretch of passes with numbers of its own: the main loop or one tail."""

    name: str  # "main", or the tail's mode
    passes: int | None  # None where the end of the clip decides
    video: str | None = None  # file name

    @property
    def prefix(self) -> str:
        """What its PNG names begin with."""
        return "" if self.name == "main" else f"{self.name} "

    @property
    def preview(self) -> str:
        """File name of the small video of the passes so far."""
        return "preview.mp4" if self.name == "main" else f"preview_{self.name}.mp4"


@dataclass(frozen=True)
class RunPlan:
    """What a run directory is told about its run before the first pass."""

    tool: str
    directory: Path
    decision: Decision
    settings: Mapping[str, Any]  # what must be the same for a resume
    environment: Mapping[str, Any]
    phases: Sequence[Phase]
    save_every: int
    fps: Fraction = Fraction(30)
    video_every: int = 1  # 1: every pass is a video frame
    metadata: bool = True  # PNG and mp4 files say what made them
    preview_every: int | None = None  # passes between two states of the preview
    log_with: Sequence[str] = ()  # names of trackers

    def describe(self, **place: Any) -> str:
        """What an output of this run says about itself; nothing without ``metadata``."""
        return describe_output(self.tool, self.settings, **place) if self.metadata else ""


class RunRecorder:
    """The open run directory. Use as a context manager around the passes."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.directory = plan.directory
        self._partial = plan.directory / "partial"
        self._position: Checkpoint | None = None
        self._seconds: list[float] = []
        self.passes: dict[str, int] = {}  # finished passes of each phase
        self._videos: dict[str, SegmentedVideo] = {}
        self._previews: dict[str, SegmentedVideo] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked(self.directory))
            self._check_unchanged()
            self._position = checkpoints.load(self._partial) if self.plan.decision is Decision.RESUME else None
            self.passes = dict(self._position.passes) if self._position else {}
            with fresh_directory(self.directory, self.plan.decision):
                self._manifest = self._open_manifest()
            for folder in (self._partial, self.directory / "frames"):
                folder.mkdir(exist_ok=True)
            self._log = stack.enter_context(self._open_log())
            name = f"{self.directory.name}-{self._manifest['id']}"
            self._trackers = Trackers(self.plan.log_with, self.directory, name, self.note)
            self._writer = WriteBehind()
            stack.callback(self._writer.close, self._trackers.finish)  # after run.json: a server may keep it waiting
            self._writer.submit(self._trackers.start, self.plan.settings)
            self._stack = stack.pop_all()
        return self

    def _open_log(self) -> BinaryIO:
        """steps.jsonl, cut back to the checkpoint."""
        path, wanted = self.directory / "steps.jsonl", self._position.log_bytes if self._position else 0
        log = path.open("ab")
        if log.tell() < wanted:
            log.close()
            raise RunError(f"the run cannot go on: {path} is shorter than at its checkpoint; {ANEW}")
        log.truncate(wanted)
        log.seek(0, os.SEEK_END)
        return log

    def _check_unchanged(self) -> None:
        """Loading takes a while, and another process may have used the directory meanwhile."""
        plan = self.plan
        again = (plan.decision is Decision.RESUME, plan.decision is Decision.REPLACE)
        if decide(self.directory, plan.settings, resume=again[0], overwrite=again[1]) is not plan.decision:
            raise UsageError(f"{self.directory} was used by another process meanwhile; run the command again")

    def start(self, phase: Phase) -> ResumePoint:
        """Where ``phase`` begins: at its first pass, after its last checkpoint, or nowhere since it is finished.

        Raises:
            RunError: when files that the passes before left are gone.
        """
        point = self._resume_point(phase)
        self._check_kept(phase, point)
        if point.finished:
            return point
        self.passes[phase.name] = point.start
        if phase.video:
            video = self._segmented(phase.video, phase)
            video.keep_through(point.start, self._first_passes(point.start))
            self._videos[phase.name] = video
        if self.plan.preview_every is not None:
            preview = self._segmented(phase.preview, phase)
            preview.keep_through(point.start, ())
            self._previews[phase.name] = preview
        return point

    def _segmented(self, name: str, phase: Phase) -> SegmentedVideo:
        comment = self.plan.describe(phase=phase.name)
        return SegmentedVideo(self._partial / Path(name).stem, self.directory / name, self.plan.fps, comment)

    def _first_passes(self, index: int) -> set[int]:
        """First filmed pass of every segment up to a checkpoint after pass ``index``."""
        filmed = range(self.plan.video_every, index + 1, self.plan.video_every)
        return {min(group) for _, group in itertools.groupby(filmed, lambda n: (n - 1) // checkpoints.EVERY)}

    def _check_kept(self, phase: Phase, point: ResumePoint) -> None:
        numbers = range(self.plan.save_every, point.start + 1, self.plan.save_every)
        wanted = [self._frame_path(phase, number) for number in numbers]
        if point.finished and phase.video and point.start >= self.plan.video_every:
            wanted.append(self.directory / phase.video)
        gone = [path for path in wanted if not path.exists()]
        if gone:
            raise RunError(f"the run cannot go on: {gone[0]} is gone ({len(gone)} missing in all); {ANEW}")

    def _frame_path(self, phase: Phase, index: int) -> Path:
        return self.directory / "frames" / f"{phase.prefix}frame_{index:04d}.png"

    def record(
        self,
        phase: Phase,
        index: int,
        frame: np.ndarray,
        source: np.ndarray | None,
        facts: Mapping[str, Any],
        later: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Hand over one finished pass; ``source`` is the fresh frame that a resume needs, None where it never changes.

        ``later`` gives further facts, away from the loop's thread.
        """
        self._writer.submit(self._write_pass, phase, index, frame, source, facts, later)

    def save_image(self, name: str, frame: np.ndarray) -> None:
        """Write ``name`` in the run directory, behind the passes handed over before."""
        self._writer.submit(self._writer.beside, partial(self._write_png, self.directory / name, frame))

    def keep(self, name: str, frame: np.ndarray) -> None:
        """Keep a frame for a resume, out of the way of users until the run is complete."""
        self._writer.submit(write_stored_png, self._partial / name, frame)

    def read_kept(self, name: str) -> np.ndarray:
        """A frame that ``keep`` was given, in this session or one before."""
        return checkpoints.read_frame(self._partial / name)

    def keep_memory(self, phase: Phase, index: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep what else belongs to the state after pass ``index``; only a pass with a checkpoint needs it."""
        if index % checkpoints.EVERY == 0:
            self._writer.submit(checkpoints.save_memory, self._partial, phase.name, index, arrays)

    def read_memory(self, phase: Phase, index: int) -> dict[str, np.ndarray]:
        """What ``keep_memory`` was given for the checkpoint after pass ``index``."""
        return checkpoints.load_memory(self._partial, phase.name, index)

    def finish(self, phase: Phase, state: np.ndarray, source: np.ndarray | None) -> None:
        """Join the phase's video and keep ``state``, from which the next phase starts."""
        self._writer.submit(self._finish, phase, state, source)

    def note(self, text: str) -> None:
        """Keep a remark for run.json."""
        if text not in self._manifest["notes"]:
            self._manifest["notes"].append(text)

    def describe(self, name: str, value: Any) -> None:
        """Set what run.json will say under ``name``."""
        self._manifest[name] = value

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._stack:
            late = self._drained()
            # Where the writer failed, the loop only ran into it: the writer's error is the cause.
            cause = late or error
            if cause is None:
                self._close("complete")
            else:
                self._give_up(cause)
        if late is not None and late is not error:
            raise late

    def _drained(self) -> BaseException | None:
        """The writer's error, once it is done; a second Ctrl-C does not hurry what run.json has to tell."""
        try:
            return self._writer.drain()
        except (Interrupted, KeyboardInterrupt):
            return self._writer.drain()

    # Below: what runs on the writer's thread (_write_png: on one beside it), or once at the start and the end.

    def _write_pass(
        self,
        phase: Phase,
        index: int,
        frame: np.ndarray,
        source: np.ndarray | None,
        facts: Mapping[str, Any],
        later: Callable[[], Mapping[str, Any]],
    ) -> None:
        if phase.name in self._videos and index % self.plan.video_every == 0:
            self._videos[phase.name].write(index, frame)
        self._write_preview(phase, index, frame)
        saved = index % self.plan.save_every == 0
        place = {"phase": phase.name, "pass": index, "seed": facts.get("seed")}
        png = partial(self._write_png, self._frame_path(phase, index), frame, **place) if saved else None
        shown = frame if saved else None  # what is not saved need not wait in memory
        self._writer.beside(png, lambda: self._log_pass(phase, index, shown, {**facts, **later()}))
        if index % checkpoints.EVERY == 0:
            self._checkpoint(phase, frame, source, finished=False)

    def _log_pass(self, phase: Phase, index: int, saved: np.ndarray | None, facts: Mapping[str, Any]) -> None:
        """Say that a pass is there, when its PNG is; ``saved`` is the frame that the PNG holds."""
        self._append({"phase": phase.name, "pass": index, **facts})
        self.passes[phase.name] = index
        self._seconds.append(facts["seconds"])
        step = sum(self.passes.values())
        self._trackers.log(phase.name, step, facts)
        if saved is not None:
            self._trackers.log_frame(phase.name, step, saved)

    def _write_png(self, path: Path, frame: np.ndarray, **place: Any) -> None:
        description = self.plan.describe(**place)
        write_png(path, frame, text=png_text(description) if description else None)

    def _write_preview(self, phase: Phase, index: int, frame: np.ndarray) -> None:
        if phase.name in self._previews:
            self._previews[phase.name].write(index, shrunk(frame, PREVIEW_SIDE))
            if index % self.plan.preview_every == 0:
                self._previews[phase.name].join()

    def _append(self, record: Mapping[str, Any]) -> None:
        try:
            self._log.write((json.dumps(record) + "\n").encode())
            self._log.flush()
        except OSError as error:
            raise RunError(
                f"cannot write {self._log.name}: {error.strerror}; what was written before is kept"
            ) from error

    def _checkpoint(self, phase: Phase, state: np.ndarray, source: np.ndarray | None, *, finished: bool) -> None:
        for video in (self._videos.get(phase.name), self._previews.get(phase.name)):
            if video is not None:
                video.close_segment()
        self._writer.settle()
        frames = {"state": state} if source is None else {"state": state, "source": source}
        place = Checkpoint(
            phase=phase.name,
            index=self.passes[phase.name],
            finished=finished,
            log_bytes=self._log.tell(),
            passes=dict(self.passes),
            frames=tuple(frames),
        )
        checkpoints.save(self._partial, place, frames)

    def _finish(self, phase: Phase, state: np.ndarray, source: np.ndarray | None) -> None:
        video = self._videos.pop(phase.name, None)
        if video is not None:
            video.join()
        self._checkpoint(phase, state, source, finished=True)
        if video is not None:
            video.remove()
        if phase.name in self._previews:
            self._previews.pop(phase.name).join()

    def _resume_point(self, phase: Phase) -> ResumePoint:
        order = [p.name for p in self.plan.phases]
        if self._position is None:
            return ResumePoint()
        if self._position.phase not in order:
            raise RunError(f"the run cannot go on: its checkpoint names the phase {self._position.phase!r}; {ANEW}")
        if order.index(phase.name) > order.index(self._position.phase):
            return ResumePoint()
        if phase.name == self._position.phase:
            return checkpoints.resume_point(self._partial, self._position)
        return ResumePoint(start=self.passes[phase.name], finished=True)

    def _open_manifest(self) -> dict[str, Any]:
        old = read_manifest(self.directory) if self.plan.decision is Decision.RESUME else {}
        manifest = {
            "schema": SCHEMA,
            "dltb": __version__,
            "tool": self.plan.tool,
            "id": run_id(self.plan.tool, self.plan.settings),
            "status": "running",
            "reason": None,
            "settings": dict(self.plan.settings),
            "environment": dict(self.plan.environment),
            "notes": old.get("notes", []),
            "sessions": [*old.get("sessions", []), _session()],
            "passes": self.passes,
            "expected": {phase.name: phase.passes for phase in self.plan.phases},
            "videos": [phase.video for phase in self.plan.phases if phase.video],
            "median_seconds_per_pass": None,
        }
        write_json(self.directory / "run.json", manifest)
        return manifest

    def _save_manifest(self) -> None:
        self._manifest["passes"] = self.passes
        if self._seconds:
            self._manifest["median_seconds_per_pass"] = round(statistics.median(self._seconds), 4)
        write_json(self.directory / "run.json", self._manifest)

    def _close(self, status: str, reason: str | None = None) -> None:
        self._manifest |= {"status": status, "reason": reason}
        self._manifest["sessions"][-1]["ended"] = _now()
        self._save_manifest()
        if status == "complete":
            shutil.rmtree(self._partial, ignore_errors=True)

    def _give_up(self, error: BaseException) -> None:
        """Leave what there is in a state to look at and to go on from; nothing here may hide ``error``."""
        status = "interrupted" if isinstance(error, Interrupted | KeyboardInterrupt) else "failed"
        with contextlib.suppress(Exception):
            for video in (*self._videos.values(), *self._previews.values()):
                video.join()
        with contextlib.suppress(Exception):
            self._close(status, str(error) or type(error).__name__)


def _session() -> dict[str, Any]:
    """This process, so that a reader can tell a run that goes on from one that was killed."""
    return {"started": _now(), "ended": None, "pid": os.getpid(), "host": socket.gethostname()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
