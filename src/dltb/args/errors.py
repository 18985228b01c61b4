"""The one place where an error becomes one line on stderr and an exit code."""

import os
import sys
from collections.abc import Callable

from dltb import DltbError


def run_tool(work: Callable[[], int | None]) -> int:
    """Run a tool's work and return its exit code: 0, 2 for usage, 1 for a failed run, 128 + n for signal n."""
    try:
        return work() or 0
    except DltbError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); without this the interpreter complains again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # What no layer named better: a name that is too long, a folder that cannot be read.
        return _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _fail(message: str, code: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code
