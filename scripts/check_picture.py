"""Whether a PNG holds a picture rather than one colour.

python scripts/check_picture.py PNG
"""

import sys
from pathlib import Path

from dltb import RunError
from dltb.args.errors import run_tool
from dltb.imaging.frames import read_image

LEAST_SPREAD = 2.0  # levels, standard deviation; NaNs decode to one colour, which has 0


def check(path: Path) -> None:
    """Say how much the frame varies.

    Raises:
        RunError: when it is one colour.
    """
    spread = float(read_image(path).std())
    if spread < LEAST_SPREAD:
        raise RunError(f"{path} is one colour (standard deviation {spread:.1f} levels): the model made no picture")
    print(f"{path}: a picture (standard deviation {spread:.1f} levels)")


if __name__ == "__main__":
    sys.exit(run_tool(lambda: check(Path(sys.argv[1]))))
