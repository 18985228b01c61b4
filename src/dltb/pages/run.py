"""A run directory as it lies on disk: complete, going on, killed or damaged. Reads only; a bad file spoils only itself."""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.imaging.folder import list_frames, list_tails

SILENT_AFTER = 300  # s without a new pass, where the process itself cannot be asked
# What each status means to a reader.
STATUSES = {
    "complete": "complete",
    "running": "running",
    "interrupted": "interrupted; --resume goes on",
    "failed": "failed; --resume goes on",
    "killed": "killed: its process is gone; --resume goes on",
    "silent": "says that it is running, but nothing has happened for a while",
    "unknown": "no run.json that can be read",
}
_SKIPPED = ("frames", "inputs", "partial", "trackers")  # folders of a run, in which no other run lies
_DEEPEST = 6  # folders below a root


@dataclass(frozen=True)
class Stretch:
    """The passes of the main loop or of one tail."""

    name: str  # "main", or the tail's mode
    passes: int  # made so far
    expected: int | None
    frames: Mapping[int, Path]  # the saved ones, by number
    video: str | None  # its file name
    steps: Mapping[int, Mapping[str, Any]] = field(repr=False)  # lines of steps.jsonl, by number


@dataclass(frozen=True)
class Run:
    """What can be said about a run directory."""

    directory: Path
    manifest: Mapping[str, Any]  # run.json; empty where it cannot be read
    status: str  # a key of STATUSES
    stretches: tuple[Stretch, ...]
    problems: tuple[str, ...]  # what could not be read

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in run.json."""
        return mapping(self.manifest.get("settings"))

    @property
    def is_video(self) -> bool:
        """Whether the run's source is a clip, every pass of which has a frame in its video."""
        return "mode" in self.settings

    @property
    def main(self) -> Stretch:
        """The passes of the main loop."""
        return self.stretches[0]


def read_run(directory: Path) -> Run:
    """Everything of a run directory but its pictures.

    Raises:
        UsageError: when it is no run directory: neither a run.json of ours nor frames.
    """
    problems: list[str] = []
    manifest = read_manifest(directory, problems)
    steps = read_steps(directory / "steps.jsonl", problems)
    frames = _frames(directory, problems)
    if not manifest and not frames:
        told = f" ({problems[0]})" if problems else ""
        raise UsageError(f"{directory} is no run directory: it has neither a run.json nor frames{told}")
    passes, expected = mapping(manifest.get("passes")), mapping(manifest.get("expected"))
    names = dict.fromkeys(["main", *expected, *passes, *steps, *frames])
    videos = [name for name in manifest.get("videos") or () if isinstance(name, str)]
    stretches = (
        Stretch(
            name=name,
            passes=max([_count(passes.get(name)), *steps.get(name, {}), *frames.get(name, {})]),
            expected=_count(expected.get(name)) or None,
            frames=frames.get(name, {}),
            video=_video_of(name, videos),
            steps=steps.get(name, {}),
        )
        for name in names
    )
    status = run_status(manifest, time.time() - last_change(directory))
    return Run(directory, manifest, status, tuple(stretches), tuple(problems))


def read_manifest(directory: Path, problems: list[str]) -> Mapping[str, Any]:
    """run.json of any schema, or nothing; what is wrong with it goes to ``problems``."""
    path = directory / "run.json"
    try:
        manifest = read_json(path.read_bytes())
    except FileNotFoundError:
        problems.append("there is no run.json")
    except (OSError, ValueError) as error:
        problems.append(f"run.json cannot be read: {error}")
    else:
        if isinstance(manifest, dict) and str(manifest.get("tool", "")).startswith("dltb-"):
            return manifest
        problems.append("run.json is not one of dltb's")
    return {}


def read_steps(path: Path, problems: list[str]) -> dict[str, dict[int, dict[str, Any]]]:
    """steps.jsonl by phase and pass; a line that is no record (the end of a killed run) is skipped."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"steps.jsonl cannot be read: {error.strerror}")
        return {}
    bad = 0
    for line in lines:
        record = parse_step(line)
        if record is None:
            bad += 1
        else:
            found.setdefault(record["phase"], {})[record["pass"]] = record
    if bad:
        problems.append(f"steps.jsonl: {bad} of {len(lines)} lines are damaged and left out")
    return found


def parse_step(line: bytes) -> dict[str, Any] | None:
    """One line of steps.jsonl; None where it is none."""
    try:
        record = read_json(line)
    except ValueError:
        return None
    whole = isinstance(record, dict) and isinstance(record.get("phase"), str) and type(record.get("pass")) is int
    return record if whole and record["pass"] > 0 else None


def run_status(manifest: Mapping[str, Any], age: float) -> str:
    """A key of STATUSES; ``age`` is the time in s since the last pass."""
    status = manifest.get("status", "unknown")
    if status != "running":
        return status if status in STATUSES else "unknown"
    sessions = manifest.get("sessions")
    session = mapping(sessions[-1]) if isinstance(sessions, list) and sessions else {}
    pid = session.get("pid")
    if type(pid) is int and pid > 0 and session.get("host") == socket.gethostname():
        return "running" if _is_alive(pid) else "killed"
    return "running" if age < SILENT_AFTER else "silent"


def find_runs(root: Path) -> Iterator[Path]:
    """Every run directory at or below ``root``, in order of their names; links are not followed."""
    yield from _find(os.fspath(root), _DEEPEST)


def _find(folder: str, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return
    if names.get("run.json") is False:
        yield Path(folder)
    for name in sorted(names):
        if names[name] and depth and name not in _SKIPPED and not name.startswith("."):
            yield from _find(os.path.join(folder, name), depth - 1)  # noqa: PTH118 - a Path for every folder is slow


def read_json(text: bytes) -> Any:
    """JSON in UTF-8; NaN and infinities, which Python writes and no browser reads, become None."""
    return json.loads(text.decode("utf-8"), parse_constant=lambda name: None)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _frames(directory: Path, problems: list[str]) -> dict[str, dict[int, Path]]:
    folder = directory / "frames"
    if not folder.is_dir():
        folder = directory  # where a sweep leaves the two frames of a stable leg
    try:
        sequences = [list_frames(folder), *list_tails(folder).values()]
    except UsageError as error:
        problems.append(str(error))
        return {}
    return {s.tail or "main": dict(zip(s.numbers, s.paths, strict=True)) for s in sequences if s.paths}


def _video_of(name: str, videos: list[str]) -> str | None:
    tails = [video for video in videos if video.startswith("tail_")]
    if name == "main":
        return next((video for video in videos if video not in tails), None)
    return next((video for video in tails if video == f"tail_{name}.mp4"), None)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def last_change(directory: Path) -> float:  # s since 1970
    """When a run last said something."""
    found = [directory / name for name in ("steps.jsonl", "run.json")]
    return max((path.stat().st_mtime for path in found if path.exists()), default=0.0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True  # a system without /proc
    return state != "Z"  # dead, and its parent does not care
