"""The courtyard renderer: what must be true of its ground truth, and the files that it writes."""

import numpy as np
import pytest
from PIL import Image

from training.courtyard import Renderer
from training.courtyard.__main__ import main


@pytest.fixture(scope="module")
def renderer():
    return Renderer(72, 56, supersampling=1, seconds=2.0)


def test_image(renderer):
    """Catches width and height swapped, values outside 0..1, and state that a frame leaves behind for the next."""
    first = renderer.frame(0.5)
    assert first.shape == (56, 72, 3)
    assert first.min() >= 0
    assert first.max() <= 1
    assert first.std() > 0.1
    renderer.frame(1.0)
    np.testing.assert_array_equal(renderer.frame(0.5), first)


def test_no_time_no_motion(renderer):
    """Catches a pixel-centre offset between rays and projection, and surfaces that hide themselves."""
    truth = renderer.ground_truth(0.7, 0.7)
    assert np.abs(truth.motion).max() < 1e-3
    assert truth.visible.all()


def test_motion_there_and_back_cancels(renderer):
    """Catches a motion with the wrong sign or of the wrong frame: a visible point that is followed back returns."""
    now, before = renderer.ground_truth(0.7, 0.66), renderer.ground_truth(0.66, 0.7)
    rows, columns = np.indices(now.visible.shape)
    x = np.rint(columns + now.motion[..., 0]).astype(int).clip(0, 71)
    y = np.rint(rows + now.motion[..., 1]).astype(int).clip(0, 55)
    same_body = now.visible & (before.object_id[y, x] == now.object_id)
    round_trip = np.linalg.norm(now.motion + before.motion[y, x], axis=-1)[same_body]
    assert np.linalg.norm(now.motion, axis=-1)[same_body].mean() > 0.3
    assert round_trip.mean() < 0.05


def test_files(tmp_path):
    """Catches names, keys or types that its readers do not expect, and temporary files that stay behind."""
    main(["--out", str(tmp_path / "clip"), "--size", "24", "16", "--ss", "1", "--only", "0", "3"])
    written = sorted(path.name for path in (tmp_path / "clip").iterdir())
    assert written == ["frame_000.png", "frame_003.png", "gt_000.npz", "gt_003.npz"]
    with Image.open(tmp_path / "clip" / "frame_003.png") as image:
        assert (image.mode, image.size) == ("RGB", (24, 16))
    with np.load(tmp_path / "clip" / "gt_003.npz") as truth:
        kinds = {key: (truth[key].dtype.name, truth[key].shape) for key in truth.files}
    assert kinds == {
        "mv": ("float16", (16, 24, 2)),
        "depth": ("float16", (16, 24)),
        "id": ("uint8", (16, 24)),
        "visible": ("bool", (16, 24)),
    }


@pytest.mark.parametrize("wrong", [["--only", "48"], ["--size", "0", "9"], ["--fps", "0"]])
def test_wrong_arguments_change_nothing(tmp_path, wrong):
    """Catches a start that fails after it has made its folder."""
    with pytest.raises(SystemExit) as error:
        main(["--out", str(tmp_path / "clip"), *wrong])
    assert error.value.code == 2
    assert not (tmp_path / "clip").exists()
