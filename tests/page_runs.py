"""Runs to look at: real ones, made by the tools with the model left out, so that every pass gives back its input."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.clips import sliding_clip

SMALL = ["--width", "64", "--height", "64", "--control", "identity"]
VIDEO = [*SMALL, "--tail-frames", "4", "--tail-modes", "freeze,free,black"]
TAILS = "_control-identity_tailsfreeze-free-black4"


class Runs:
    """A folder of runs, made once; tests that change one take a copy."""

    def __init__(self, root: Path, clip: Path) -> None:
        self.root, self.clip = root, clip
        self.masked = root / "a" / f"clip_stateful-a0.3-fbmask{TAILS}"
        self.sparse = root / "a" / f"clip_stateful-a0.3{TAILS}"
        self.anchored = root / "a" / f"clip_anchored{TAILS}"
        self.still = root / "b" / "test_512_free-running_control-identity"
        self.feedback = root / "b" / "feedback_s0.4_a0.3_control-identity"

    def copy(self, run: Path, to: Path) -> Path:
        return shutil.copytree(run, to / run.name)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, picture: np.ndarray) -> Runs:
    from dltb import continuous, distance_feedback, iterate

    root = tmp_path_factory.mktemp("pages")
    clip = sliding_clip(root / "clip.png", picture, 24, step=3)
    video, still = (
        [*VIDEO, "--input", str(clip), "--output-dir", str(root / "a")],
        [*SMALL, "--output-dir", str(root / "b")],
    )
    assert continuous.main([*video, "--reproject-mask", "--save-every", "1"]) == 0
    assert continuous.main([*video, "--save-every", "5"]) == 0
    assert continuous.main([*video, "--mode", "anchored", "--save-every", "1"]) == 0
    assert iterate.main([*still, "--iterations", "3"]) == 0
    assert distance_feedback.main([*still, "--metric", "pixel", "--frames", "24"]) == 0
    return Runs(root, clip)
