"""The runs below a root, watched cheaply: what has not changed on disk is not read again, and nothing outside is read."""

import json
import os
import re
import time
import zlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from dltb.pages.run import STATUSES, find_runs, last_change, mapping, parse_step, read_manifest, run_status

T = TypeVar("T")
SHOWN = (".png", ".mp4", ".csv")  # kinds of files that are handed out
_TAIL = 4096  # bytes at the end of steps.jsonl, more than its last line has
_PASS = re.compile(r"(?:(.+) )?frame_(\d+)\.png")  # phase, none for main, and number
_CHECKED = 64  # bytes before an offset by which a log is recognised
Stamp = tuple[int, int]  # modification time in ns, size


class Shelf:
    """Runs by their paths below ``root``, as text with slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._kept: dict[tuple[str, str], tuple[Any, Any]] = {}  # (what, path) -> (stamp, value)

    def find(self, name: str) -> Path | None:
        """The run directory of this name; None where there is none, or where the name leads out of the root."""
        place = self._inside(name)
        return place if place is not None and (place / "run.json").is_file() else None

    def file(self, name: str) -> Path | None:
        """A picture, video or table inside a run directory; None for anything else."""
        place = self._inside(name)
        if place is None or place.suffix not in SHOWN or not place.is_file():
            return None
        folders = [folder for folder in place.parents if folder.is_relative_to(self.root)]
        return place if any((folder / "run.json").is_file() for folder in folders) else None

    def _inside(self, name: str) -> Path | None:
        """The real place of a name, links followed, when that is in the root and no part of it is hidden."""
        try:
            place = (self.root / name).resolve(strict=True)
            parts = place.relative_to(self.root).parts
        except (OSError, ValueError, RuntimeError):
            return None
        return None if any(part.startswith(".") for part in parts) else place

    def name_of(self, directory: Path) -> str:
        """The name of a run directory."""
        return directory.resolve().relative_to(self.root).as_posix()

    def name_of_file(self, path: Path) -> str | None:
        """The name under which ``file`` hands a path out; None where it does not, as with a link out of the root."""
        place = self.file(os.fspath(path))
        return None if place is None else place.relative_to(self.root).as_posix()

    def status(self, directory: Path) -> str:
        """A key of STATUSES."""
        return run_status(self.manifest(directory), time.time() - last_change(directory))

    def summaries(self) -> list[dict[str, Any]]:
        """Every run in a few JSON values, in order of names."""
        return [self.summary(directory) for directory in find_runs(self.root)]

    def summary(self, directory: Path) -> dict[str, Any]:
        """One run in a few JSON values."""
        manifest, log = self.manifest(directory), directory / "steps.jsonl"
        step = self._unchanged("step", log, _stamp(log), lambda: _last_step(log)) or {}
        latest = self.latest(directory, step)
        picture = None if latest is None else self.name_of_file(latest)
        expected = mapping(manifest.get("expected"))
        return {
            "name": self.name_of(directory),
            "status": self.status(directory),
            "tool": manifest.get("tool"),
            "model": mapping(manifest.get("settings")).get("model"),
            "phase": step.get("phase"),
            "pass": step.get("pass"),
            "expected": expected.get(step.get("phase")),
            "changed": int(last_change(directory)),
            "picture": None if picture is None else [picture, _stamp(latest)[0]],
        }

    def manifest(self, directory: Path) -> Mapping[str, Any]:
        """run.json; empty where it cannot be read."""
        path = directory / "run.json"
        return self._unchanged("manifest", path, _stamp(path), lambda: read_manifest(directory, []))

    def latest(self, directory: Path, step: Mapping[str, Any]) -> Path | None:
        """The last frame up to ``step``, the last one in the log."""
        folder = directory / "frames"
        folder = folder if folder.is_dir() else directory
        place = step.get("phase"), step.get("pass")
        return self._unchanged("latest", folder, (_stamp(folder), place), lambda: _newest(folder, *place))

    def steps_since(self, directory: Path, offset: int, check: str) -> dict[str, Any]:
        """The steps after ``offset`` bytes of steps.jsonl, with the offset and check for the next call.

        A resumed run cuts its log back and goes on, so an offset is only good while what stands before it is what stood
        there: ``check`` says so. Where it is not, everything comes again, with ``"reset": true``.
        """
        try:
            with (directory / "steps.jsonl").open("rb") as log:
                reset = offset <= 0 or _check(log, offset) != check
                start = 0 if reset else offset
                log.seek(start)
                new = log.read()
                end = start + new.rfind(b"\n") + 1  # the last line may be half written
                steps = [step for line in new[: end - start].splitlines() if (step := parse_step(line)) is not None]
                return {"reset": reset, "offset": end, "check": _check(log, end), "steps": steps}
        except OSError:
            return {"reset": True, "offset": 0, "check": "", "steps": []}

    def live(self, directory: Path, offset: int, check: str) -> dict[str, Any]:
        """Everything that the page of one run polls for."""
        manifest, summary = self.manifest(directory), self.summary(directory)
        told = {
            "text": STATUSES[summary["status"]],
            "reason": manifest.get("reason"),
            "expected": manifest.get("expected"),
        }
        return summary | told | {"passes": manifest.get("passes")} | self.steps_since(directory, offset, check)

    def _unchanged(self, what: str, path: Path, stamp: Hashable, read: Callable[[], T]) -> T:
        """What ``read`` gave when the file had this stamp."""
        key = (what, os.fspath(path))
        if key not in self._kept or self._kept[key][0] != stamp:
            self._kept[key] = (stamp, read())
        return self._kept[key][1]


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _last_step(log: Path) -> dict[str, Any] | None:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return None
    return next((step for line in reversed(lines) if (step := parse_step(line)) is not None), None)


def _newest(folder: Path, phase: str | None, last: int | None) -> Path | None:
    """The last frame of ``phase`` up to pass ``last``; where it has none yet, the newest of what is no frame of it.

    The time says little within a phase: frames are finished out of order, and later ones may be left from before a kill.
    """
    try:
        with os.scandir(folder) as entries:
            times = {entry.name: entry.stat().st_mtime_ns for entry in entries if _is_frame(entry.name)}
    except OSError:
        return None
    passes = {
        name: int(found[2]) for name in times if (found := _PASS.fullmatch(name)) and (found[1] or "main") == phase
    }
    done = [name for name, number in passes.items() if number <= last]
    others = times.keys() - passes.keys()
    name = max(done, key=passes.get) if done else max(others, key=times.get, default=None)
    return None if name is None else folder / name


def _is_frame(name: str) -> bool:
    return name.endswith(".png") and "frame_" in name and not name.startswith(".")


def _check(log: BinaryIO, offset: int) -> str:
    """A checksum of what stands before ``offset``; that of a shorter log is another one."""
    log.seek(max(0, offset - _CHECKED))
    before = log.read(min(offset, _CHECKED))
    return f"{zlib.crc32(before):08x}-{len(before)}"


@dataclass(frozen=True)
class Json:
    """JSON with its tag, by which a browser asks whether it has changed."""

    body: bytes
    tag: str

    @classmethod
    def of(cls, value: Any) -> "Json":
        body = json.dumps(value, separators=(",", ":")).encode()
        return cls(body, f'"{zlib.crc32(body):08x}-{len(body)}"')
