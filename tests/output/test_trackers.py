"""Trackers, with a real TensorBoard behind accelerate's interface."""

import numpy as np
import pytest

from dltb import UsageError
from dltb.args.options import trackers
from dltb.output.trackers import Trackers, check_trackers

FRAME = np.full((16, 24, 3), (200, 100, 50), np.uint8)


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_tensorboard_gets_numbers_frames_and_settings(tmp_path):
    """Catches scalars without a step, frames in another layout, and settings that the tracker refuses."""
    notes = []
    tracked = Trackers(["tensorboard"], tmp_path, "run", notes.append)
    tracked.start({"prompt": "an oil painting", "tail_modes": ["freeze"], "weights": None, "strength": 0.4})
    for step in (1, 2):
        tracked.log("main", step, {"seconds": 0.5 * step, "seed": 7, "sigma_start": None})
    tracked.log_frame("main", 2, FRAME)
    tracked.finish()
    assert notes == []
    events = read(tmp_path / "trackers" / "run")
    assert [(e.step, e.value) for e in events.Scalars("main/seconds")] == [(1, 0.5), (2, 1.0)]
    (image,) = events.Images("main/frame")
    assert (image.step, image.width, image.height) == (2, 24, 16)
    (settings,) = (tmp_path / "trackers" / "run").rglob("hparams.yml")
    assert "an oil painting" in settings.read_text()


def test_a_tracker_that_fails_stops_no_run(tmp_path, monkeypatch):
    """Catches hours of passes lost to a tracker's server, and the same complaint on every pass."""
    notes = []
    tracked = Trackers(["tensorboard"], tmp_path, "run", notes.append)
    tracked.start({})
    monkeypatch.setattr("accelerate.tracking.TensorBoardTracker.log", lambda *a, **k: 1 / 0)
    for step in (1, 2, 3):
        tracked.log("main", step, {"seconds": 1.0})
        tracked.log_frame("main", step, FRAME)
    tracked.finish()
    assert notes == ["the run goes on without tensorboard: division by zero"]


def test_names_are_checked_before_anything_loads():
    """Catches a typo, or a package that is not there, found only after the model."""
    assert trackers("tensorboard, wandb,tensorboard") == ("tensorboard", "wandb")
    with pytest.raises(ValueError, match="unknown tracker 'tensorbord'; known: tensorboard, wandb"):
        trackers("tensorbord")
    check_trackers(["tensorboard"])
    with pytest.raises(UsageError, match="--log-with aim needs the package aim: `uv pip install aim`"):
        check_trackers(["aim"])
