"""Whether a run may use a directory: new, to be resumed, already complete, or refused. Nothing is mixed or overwritten."""

import contextlib
import enum
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dltb import UsageError

SCHEMA = 1  # of run.json


class Decision(enum.Enum):
    """What to do about a run directory."""

    NEW = "new"
    REPLACE = "replace"
    RESUME = "resume"
    COMPLETE = "complete"


def decide(directory: Path, settings: Mapping[str, Any], *, resume: bool, overwrite: bool) -> Decision:
    """Compare the run that is wanted with the one that is there.

    Raises:
        UsageError: naming what differs, or what to do, when the directory cannot be used as asked.
    """
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other: go on with the run, or replace it")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; choose another --output-dir")
    # A start that was killed at once leaves no more than a hidden temporary file.
    if not directory.exists() or all(path.name.startswith(".") for path in directory.iterdir()):
        return Decision.NEW
    if overwrite and _holds_a_run(directory):
        return Decision.REPLACE
    manifest = read_manifest(directory)
    different = differences(manifest["settings"], settings)
    if different:
        raise UsageError(
            f"{directory} holds a run with other settings ({'; '.join(different)}); "
            "choose another --output-dir, or replace it with --overwrite"
        )
    if manifest["status"] == "complete":
        return Decision.COMPLETE
    if not resume:
        raise UsageError(
            f"{directory} holds an unfinished run of these settings; go on with --resume "
            f"(to look at its frames so far: dltb-assemble '{directory}')"
        )
    return Decision.RESUME


def belongs_to(directory: Path, tools: Collection[str]) -> bool:
    """Whether the directory holds a run of one of ``tools``."""
    try:
        manifest = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return False
    return is_ours(manifest) and manifest["tool"] in tools


def _holds_a_run(directory: Path) -> bool:
    """Whether --overwrite may delete the directory: it holds a run of ours, of any schema."""
    try:
        return is_ours(json.loads((directory / "run.json").read_text(encoding="utf-8")))
    except (ValueError, OSError):
        return False


def read_manifest(directory: Path) -> dict[str, Any]:
    """The directory's run.json.

    Raises:
        UsageError: when there is none, it cannot be read, or another version of dltb wrote it.
    """
    path = directory / "run.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{directory} is not empty and holds no run.json; choose another --output-dir") from None
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be read ({error}); move the directory away") from None
    if not is_ours(manifest):
        raise UsageError(f"{path} is no run.json of dltb, or a damaged one; move the directory away")
    schema = manifest["schema"]
    if schema == SCHEMA and not _is_whole(manifest):
        raise UsageError(f"{path} is damaged; move the directory away")
    if schema != SCHEMA:
        raise UsageError(
            f"{path} has schema {schema}, this dltb writes {SCHEMA}: finish that run with the dltb that started it "
            f"({manifest.get('dltb', 'unknown version')}), or choose another --output-dir"
        )
    return manifest


def is_ours(manifest: Any) -> bool:
    """Whether a run.json was written by one of these tools, whatever its schema."""
    if not isinstance(manifest, dict) or not isinstance(manifest.get("schema"), int):
        return False
    return str(manifest.get("tool", "")).startswith("dltb-")


def _is_whole(manifest: Mapping[str, Any]) -> bool:
    kinds = {"settings": dict, "status": str, "notes": list, "sessions": list, "passes": dict}
    return all(isinstance(manifest.get(name), kind) for name, kind in kinds.items())


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``name: 0.4 there, 0.5 now`` for every setting that is not the same; values are compared as JSON holds them."""
    plain = json.loads(json.dumps(now))
    keys = sorted(set(there) | set(plain))
    return [
        f"{key}: {_shown(there, key)} there, {_shown(plain, key)} now"
        for key in keys
        if there.get(key) != plain.get(key)
    ]


def _shown(settings: Mapping[str, Any], key: str) -> str:
    """A value as a message shows it: in quotes where a text is empty or has blanks at an end."""
    value = settings.get(key, "not set")
    hidden = isinstance(value, str) and (not value or value != value.strip())
    return repr(value) if hidden else str(value)


@contextmanager
def fresh_directory(directory: Path, decision: Decision) -> Iterator[None]:
    """Create the run directory; under REPLACE the old run waits aside until the block ends well, else it comes back.

    Raises:
        UsageError: when the place cannot be written; an old run is where it was.
    """
    aside = _hidden(directory, "replaced")
    if decision is not Decision.REPLACE:
        _make(directory)
        yield
        return
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(directory, aside)
    try:
        _make(directory)
        yield
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(aside, directory)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {directory}: {error.strerror}; choose another --output-dir") from None


def _hidden(directory: Path, purpose: str) -> Path:
    """A file or folder of ours beside the run directory; of a length that does not depend on the directory's name."""
    directory = directory if directory.name else directory.absolute()  # `.` has none
    digest = hashlib.sha256(directory.name.encode(errors="surrogateescape")).hexdigest()[:16]
    return directory.with_name(f".dltb-{digest}.{purpose}")


def check_writable(directory: Path) -> None:
    """Refuse, before anything loads, a place in which nothing can be made, and a run that is being written."""
    place = next(parent for parent in (directory, *directory.absolute().parents) if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write in {place}; choose another --output-dir")
    if directory.exists():
        with locked(directory):
            pass


@contextmanager
def locked(directory: Path, *, otherwise: str = "choose another --output-dir") -> Iterator[None]:
    """Hold a directory or file for this process, with a file beside it; the lock goes with the process, however it ends.

    The folder around it is made, and goes again if nothing came of it.

    Args:
        directory: what nobody else may write meanwhile; it may be missing.
        otherwise: what a user does who does not want to wait.

    Raises:
        UsageError: when another process holds it.
    """
    path = _hidden(directory, "lock")
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        _remove_empty(made)
        raise UsageError(f"cannot write {path}: {error.strerror}; {otherwise}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is writing {directory}; wait for it, or {otherwise}") from None
        except OSError:
            pass  # some network volumes know no locks; one process at a time is then up to the user
        if os.fstat(lock.fileno()).st_nlink == 0:
            raise UsageError(f"another process was just writing {directory}; run the command again")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            _remove_empty(made)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
