"""The directory of a sweep: sweep.json with its legs, one directory for each, and what stands in them.

sweep.json              the legs: tool and settings of each
sweep.csv               the table
<leg>/<run>/run.json    the run, as the leg's tool makes it
<leg>/error.txt         why the leg failed, if it did
<leg>/leg.log           what the tools printed
<leg>/measured.json     what measured the finished run, and how many passes it had then
"""

import contextlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.imaging.folder import list_frames
from dltb.output.files import write_json
from dltb.output.run_directory import is_ours
from dltb.sweeps.grid import Leg
from dltb.sweeps.tools import MEASURING_TOOLS

SCHEMA = 1  # of sweep.json
RECORD, TABLE, ERROR, LOG, MEASURED = "sweep.json", "sweep.csv", "error.txt", "leg.log", "measured.json"


@dataclass(frozen=True)
class Run:
    """The run directory of a leg, with its run.json."""

    directory: Path
    manifest: Mapping[str, Any]


def find_run(leg_directory: Path) -> Run | None:
    """The run of a leg; None before it has begun.

    Raises:
        UsageError: when there are several.
    """
    runs = [run for path in sorted(leg_directory.glob("*/run.json")) if (run := read_run(path.parent)) is not None]
    if len(runs) > 1:
        raise UsageError(f"{leg_directory} holds {len(runs)} runs; a leg has one: move the others away")
    return runs[0] if runs else None


def read_run(directory: Path) -> Run | None:
    """The run of a run directory; None where its run.json is none of ours or is damaged: its tool will say so."""
    with contextlib.suppress(OSError, ValueError):
        manifest = json.loads((directory / "run.json").read_text(encoding="utf-8"))
        if is_ours(manifest) and isinstance(manifest.get("settings"), dict):
            return Run(directory, manifest)
    return None


def not_measured(run: Run, measure: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """What of ``measure`` a finished run still lacks: from the first on that is not there as it is wanted now, since those
    after it may read its table. Nothing, where no frame of the main loop was saved."""
    done = _read_measured(run)
    current = 0
    for words, there in zip(measure, done, strict=False):
        if list(words) != there or not (run.directory / MEASURING_TOOLS[words[0]].leaves).exists():
            break
        current += 1
    missing = measure[current:]
    return missing if missing and list_frames(run.directory / "frames").paths else ()


def _read_measured(run: Run) -> list[list[str]]:
    """The commands that measured the run as it is now, in their order."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads((run.directory.parent / MEASURED).read_text(encoding="utf-8"))
        return list(record["measure"]) if record["passes"] == run.manifest["passes"] else []
    return []


def write_measured(run: Run, measure: Sequence[Sequence[str]]) -> None:
    """Keep which commands have measured a run."""
    told = {"passes": run.manifest["passes"], "measure": [list(words) for words in measure]}
    write_json(run.directory.parent / MEASURED, told)


def read_error(leg_directory: Path) -> str | None:
    """Why the leg failed when it was tried last."""
    with contextlib.suppress(OSError):
        return (leg_directory / ERROR).read_text(encoding="utf-8").strip()
    return None


def write_error(leg_directory: Path, reason: str | None) -> None:
    """Keep why a leg failed; None: it did not."""
    with contextlib.suppress(OSError):  # the disk may be what failed
        if reason is None:
            (leg_directory / ERROR).unlink(missing_ok=True)
        else:
            leg_directory.mkdir(parents=True, exist_ok=True)
            (leg_directory / ERROR).write_text(reason + "\n", encoding="utf-8")


def read_record(root: Path) -> dict[str, Leg]:
    """The legs that were ever planned here, by name."""
    path = root / RECORD
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        legs = {name: Leg(name, leg["tool"], leg["settings"]) for name, leg in record["legs"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{path} cannot be read as the record of a sweep; move it away") from None
    if record.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {record.get('schema')}, this dltb writes {SCHEMA}; use another --output-dir"
        )
    return legs


def check_record(root: Path, known: Mapping[str, Leg], legs: Sequence[Leg]) -> None:
    """Refuse a leg whose directory holds results of other settings."""
    for leg in legs:
        there = known.get(leg.name)
        if there is None or there == leg or not (root / leg.name).exists():
            continue
        raise UsageError(
            f"{root / leg.name} holds a leg of other settings ({_difference(there, leg)}); give another --output-dir, or "
            "move that directory away"
        )


def _difference(there: Leg, now: Leg) -> str:
    one, other = ({"tool": leg.tool, **leg.settings} for leg in (there, now))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return "; ".join(f"{k}: {one.get(k, 'not set')!r} there, {other.get(k, 'not set')!r} now" for k in keys)


def write_record(root: Path, known: Mapping[str, Leg], legs: Sequence[Leg]) -> None:
    """Add the legs to the record; those of other grids stay."""
    merged = {**known, **{leg.name: leg for leg in legs}}
    if merged == known:
        return
    told = {name: {"tool": leg.tool, "settings": dict(leg.settings)} for name, leg in merged.items()}
    write_json(root / RECORD, {"schema": SCHEMA, "legs": told})


def pack_leg(directory: Path) -> bytes:
    """The directory of a leg as a tar archive, its own name left out; PNG and mp4 would not shrink."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory, arcname=".")
    return packed.getvalue()


def replace_leg(root: Path, name: str, files: bytes) -> None:
    """Put the files of a leg that came from elsewhere, a tar archive, in place of what is here of it."""
    _swap(_unpack(root, name, files), root / name)


def take_leg(root: Path, name: str, files: bytes, *, is_complete: bool) -> None:
    """The same, unless what arrives is less than what is here: of such a leg only the log is taken."""
    target, arriving = root / name, _unpack(root, name, files)
    if is_complete or _passes_logged(arriving) >= _passes_logged(target):
        _swap(arriving, target)
        return
    if (arriving / LOG).exists():
        (arriving / LOG).replace(target / LOG)
    shutil.rmtree(arriving)


def _unpack(root: Path, name: str, files: bytes) -> Path:
    arriving = root / f".{name}.arriving"
    shutil.rmtree(arriving, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(arriving, filter="data")
    return arriving


def _swap(arriving: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    arriving.replace(target)


def _passes_logged(leg_directory: Path) -> int:
    """The passes of a leg; run.json learns them at the end of a session only. -1 where there is no run, damaged or not."""
    logs = leg_directory.glob("*/steps.jsonl")
    return max((log.read_bytes().count(b"\n") for log in logs), default=-1)
