"""The one place where an error becomes one line on stderr and an exit code."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from dltb import DltbError, Interrupted, interruption

# A path that cannot be used is the request's fault (exit 2); any other failure of the system is the run's (exit 1).
_PATH_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}


def run_tool(work: Callable[[], int | None]) -> int:
    """Run a tool's work and return its exit code: 0, 2 for usage, 1 for a failed run, 128 + n for signal n."""
    _mend_streams()
    with _terminated_in_words():
        code = _run(work)
    return _flush(code)


def _run(work: Callable[[], int | None]) -> int:
    try:
        return _unwrapped(work) or 0
    except DltbError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        return 1  # the reader of our output went away (`| head`) in the middle of the work
    except OSError as error:
        # What no layer named better: a name that is too long, a folder that cannot be read.
        text = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        return _fail(text, 2 if error.errno in _PATH_ERRORS else 1)


def _unwrapped(work: Callable[[], int | None]) -> int | None:
    """A signal during an import, wrapped by the library that was importing, is the signal again."""
    try:
        return work()
    except (RuntimeError, ImportError) as error:
        if (arrived := interruption(error)) is None:
            raise
        raise arrived from None


def _fail(message: str, code: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _mend_streams() -> None:
    """Give closed streams somewhere to write, and let a name that the terminal cannot show be shown escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - lives as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _terminated_in_words() -> Iterator[None]:
    """SIGTERM before and after the passes ends the tool with a line; the passes themselves handle it more gently."""

    def arrived(number: int, frame: FrameType | None) -> NoReturn:
        raise Interrupted(number, "stopped by SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, arrived)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _flush(code: int) -> int:
    """Flush here, where a reader that went away can be forgiven; at exit the interpreter would complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
