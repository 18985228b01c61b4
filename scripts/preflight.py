"""What can be refused before a sweep's first leg: an unknown model, a missing licence, a machine without accelerator.

python scripts/preflight.py (--gpu | --any-device) [--weights] MODEL...
"""

import sys
from collections.abc import Sequence

from dltb import UsageError
from dltb.args.errors import run_tool
from dltb.models.table import MODELS, model_key


def check(flags: set[str], models: Sequence[str]) -> None:
    """Raise UsageError for the first model, or the machine, that will not do; nothing heavy is imported if avoidable."""
    rows = [MODELS[model_key(model)] for model in models]
    if "--weights" not in flags:
        _check_licences(rows)
    if "--gpu" in flags:
        _check_accelerator()


def _check_licences(rows: Sequence) -> None:
    from dltb.models.checks import check_access

    for row in rows:
        if row.gated:
            check_access(row)


def _check_accelerator() -> None:
    from dltb.models.device import available_devices

    if available_devices()[0] == "cpu":
        raise UsageError("torch finds no CUDA and no MPS device here; SKIP_GPU_CHECK=1 goes on without (tiny models)")


if __name__ == "__main__":
    given = {text for text in sys.argv[1:] if text.startswith("--")}
    sys.exit(run_tool(lambda: check(given, [text for text in sys.argv[1:] if text not in given])))
