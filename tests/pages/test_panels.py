"""What a page shows of a pass. In these runs the model gives back its input, so output and input are the same picture."""

import json

import numpy as np
import pytest

from dltb.imaging.frames import read_image
from dltb.pages.frames import Footage, steps_of
from dltb.pages.panels import Pictures, choose, show
from dltb.pages.run import read_run


def shown(run, name="main", *, clip=None, limit=300, motion_every=None):
    read, pictures = read_run(run), Pictures()
    (stretch,) = (s for s in read.stretches if s.name == name)
    how = {"side": 64, "limit": limit, "motion_every": motion_every}
    return show(Footage(read, clip), stretch, pictures, **how), pictures


def reasons(found, panel):
    return {found.reasons[-1 - cell] for cell in found.cells[panel] if cell < 0}


@pytest.mark.parametrize("part", ["main", "freeze", "free", "black"])
@pytest.mark.parametrize("name", ["masked", "anchored"])
def test_model_inputs_are_those_of_the_loop(runs, name, part):
    """Catches an input made from another pass, another source frame, the wrong blend, or without warp and mask."""
    found, _ = shown(getattr(runs, name), part, clip=runs.clip)
    assert len(found.numbers) == (24 if part == "main" else 4)
    assert min(found.cells["input"]) >= 0
    assert found.cells["input"] == found.cells["output"]


def test_inputs_that_were_kept(runs):
    """Catches inputs of a feedback run that are made up although they are on disk."""
    found, _ = shown(runs.feedback)
    assert found.cells["input"] == found.cells["output"]
    kept, _ = shown(runs.still)
    assert kept.cells["input"] == kept.cells["output"], "the input of a free run is the output before"


def test_the_mask_is_that_of_the_run(runs):
    """Catches a mask of other frames: its share of the picture is what the run has recorded."""
    from io import BytesIO

    from PIL import Image

    found, pictures = shown(runs.masked, clip=runs.clip)
    steps = read_run(runs.masked).main.steps
    checked = 0
    for number, cell in zip(found.numbers, found.cells["mask"], strict=True):
        if cell >= 0 and steps[number]["mask_share"] > 0.02:
            picture = np.asarray(Image.open(BytesIO(pictures.encoded()[cell])).convert("RGB")).astype(int)
            loud = (picture[..., 0] - picture[..., 1] > 80).mean()
            assert loud == pytest.approx(steps[number]["mask_share"], abs=0.03)
            checked += 1
    assert checked > 5


def test_what_there_is_none_of_says_why(runs):
    """Catches an empty panel without a word."""
    masked, _ = shown(runs.masked, clip=runs.clip)
    assert reasons(masked, "flow") == {"the first pass has no frame before it"}
    assert reasons(shown(runs.sparse, clip=runs.clip)[0], "mask") >= {"this run masks nothing (--reproject-mask)"}
    assert reasons(shown(runs.anchored, clip=runs.clip)[0], "flow") == {
        "this run warps nothing, so it estimates no motion"
    }
    free, _ = shown(runs.masked, "free", clip=runs.clip)
    assert reasons(free, "source") == {"a free tail has no fresh frame"}
    assert reasons(free, "flow") == {"in a tail nothing moves"}
    assert reasons(shown(runs.still)[0], "flow") == {"a still image: nothing moves"}


def test_without_the_clip(runs, tmp_path):
    """Catches a report that fails, or takes another file of the same name for the source, when the clip is gone."""
    lost, _ = shown(runs.masked)
    assert reasons(lost, "source") == {"the input clip clip.png was not found; give it with --source"}
    assert min(lost.cells["output"]) >= 0
    other = tmp_path / "clip.png"
    other.write_bytes(b"not it")
    wrong, _ = shown(runs.masked, clip=other)
    (why,) = reasons(wrong, "source")
    assert "is not the clip of this run" in why


def test_passes_that_were_not_saved_come_from_the_video(runs):
    """Catches a scrubber with every tenth pass only, and video frames one pass off."""
    found, _ = shown(runs.sparse, clip=runs.clip)
    assert found.numbers == list(range(1, 25))
    assert [n for n, kind in zip(found.numbers, found.kinds, strict=True) if kind == "png"] == [5, 10, 15, 20]
    assert min(found.cells["output"]) >= 0
    assert set(found.measured["detail"]) == {5, 10, 15, 20}, "compressed frames are not measured"


def test_video_frames_stand_where_their_passes_do(runs):
    """Catches an offset between passes and video frames: the nearest saved pass is the one of that number."""
    run = read_run(runs.masked)
    saved = {n: read_image(path).astype(float) for n, path in run.main.frames.items()}
    gone = read_run(runs.sparse)
    for step in steps_of(Footage(gone, runs.clip), gone.main, {7, 8, 12}):
        assert step.kind == "video"
        errors = {n: np.abs(frame - step.output).mean() for n, frame in saved.items()}
        assert min(errors, key=errors.get) == step.number


def test_damaged_and_missing_frames(runs, tmp_path):
    """Catches one bad file that costs the whole report."""
    run = runs.copy(runs.feedback, tmp_path)
    (run / "frames" / "frame_0003.png").write_bytes(b"\x89PNG broken")
    (run / "frames" / "frame_0007.png").unlink()
    found, _ = shown(run)
    assert 7 not in found.numbers
    assert [n for n, cell in zip(found.numbers, found.cells["output"], strict=True) if cell < 0] == [3]


def test_costly_panels_are_held_between(runs):
    """Catches empty panels between the passes whose flow was estimated, or a picture that claims another pass."""
    every, _ = shown(runs.masked, clip=runs.clip)
    third, _ = shown(runs.masked, clip=runs.clip, motion_every=3)
    assert third.motion_of[:7] == [1, 1, 1, 4, 4, 4, 7]
    assert every.motion_of == every.numbers
    for i, number in enumerate(third.motion_of):
        assert third.cells["input"][i] == third.cells["input"][third.numbers.index(number)]


def test_long_runs_are_thinned(runs):
    """Catches a page that grows without end, and one that loses the first or the last pass."""
    stretch = read_run(runs.masked).main
    assert choose(stretch, 300, every=True) == list(range(1, 25))
    thinned = choose(stretch, 5, every=True)
    assert len(thinned) == 5
    assert (thinned[0], thinned[-1]) == (1, 24)
    found, _ = shown(runs.masked, clip=runs.clip, limit=5)
    assert found.numbers == thinned
    assert found.cells["input"] == found.cells["output"], "the frames before are at hand all the same"


@pytest.mark.parametrize(
    "edit",
    [
        {"anchor_blend": "x"},
        {"anchor_blend": None, "reproject_mask": None},
        {"width": "x", "height": None},
        {"width": 32, "height": 32},
        {"conditioning": "new"},
        {"make_conditioning": "mine.make"},
        {"mode": None},
    ],
)
def test_settings_that_do_not_fit_the_frames(runs, tmp_path, edit):
    """Catches a report that fails on a run.json of another version, or one that was edited by hand."""
    run = runs.copy(runs.masked, tmp_path)
    told = json.loads((run / "run.json").read_text())
    told["settings"] |= edit
    (run / "run.json").write_text(json.dumps(told))
    for part in ("main", "free"):
        found, _ = shown(run, part, clip=runs.clip)
        assert min(found.cells["output"]) >= 0
