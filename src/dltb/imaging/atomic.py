"""Writing a file so that it is whole or not there: a temporary name beside it, then a rename.

A reader, or a run that is resumed after a kill, never meets half a file under the final name.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dltb import RunError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; when the block ends well, it becomes `path`.

    The temporary file never outlives the block. An OSError, a full disk above all, becomes a RunError that names
    `path`; an older file under that name is kept then.
    """
    temporary = temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """Hidden, so that no folder listing takes it for a frame; fixed, so that the remains of a kill are overwritten."""
    return path.with_name(f".{path.name}.part")


def write_error(path: Path, error: OSError) -> RunError:
    """The one line for a file that could not be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return RunError(f"cannot write {path}: {reason}; what was written before it is kept")
