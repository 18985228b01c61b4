"""The loop's order: what reaches the model, and the one edge that goes back. ``generate`` is fake where order is tested."""

from types import SimpleNamespace

import numpy as np

from dltb.loop.engine import ModelInput, Source, as_model_input, run_loop
from dltb.loop.sources import from_clip, repeated


def frame(value: int) -> np.ndarray:
    return np.full((4, 4, 3), value, np.uint8)


def add_one(images, index):
    return SimpleNamespace(frame=images[0] + 1)


def test_the_state_is_the_output_of_the_step_before():
    """Catches feeding back the input, or the output of two steps ago."""
    steps = list(run_loop(repeated(frame(10), 3), lambda carried, fresh, previous: carried, add_one))
    assert [int(step.frame[0, 0, 0]) for step in steps] == [11, 12, 13]


def test_the_first_step_without_a_state_is_one_clean_input():
    """Catches a conditioning that is asked to combine with nothing."""
    calls = []

    def combine(carried, fresh, previous):
        calls.append((carried, fresh, previous))
        return (carried, fresh)

    sources = from_clip([frame(1), frame(2)], lambda f: f)
    steps = list(run_loop(sources, combine, add_one))
    assert len(steps[0].inputs.images) == 1
    assert len(steps[1].inputs.images) == 2
    carried, fresh, previous = calls[0]
    assert (carried[0, 0, 0], fresh[0, 0, 0], previous[0, 0, 0]) == (2, 2, 1)


def test_the_loop_pulls_one_source_at_a_time():
    """Catches a loop that reads ahead by itself: memory would grow with the clip."""
    pulled = []

    def sources():
        for index in range(1, 1000):
            pulled.append(index)
            yield Source(index, frame(0))

    next(run_loop(sources(), lambda *_: frame(0), add_one))
    assert pulled == [1]


def test_a_clip_goes_on_where_it_stopped():
    """Catches a resume that skips or repeats a frame, or forgets the frame before."""
    clip = [frame(value) for value in (10, 20, 30, 40)]
    sources = list(from_clip(iter(clip), lambda f: f, limit=3, start=1, previous=clip[0]))
    assert [(s.index, int(s.frame[0, 0, 0]), int(s.previous[0, 0, 0])) for s in sources] == [(2, 20, 10), (3, 30, 20)]
    assert [s.index for s in repeated(frame(0), 5, start=3)] == [4, 5]


def test_a_conditioning_may_return_plain_images():
    """Catches a contract that only our own conditionings can meet."""
    assert len(as_model_input(frame(1)).images) == 1
    assert len(as_model_input([frame(1), frame(2)]).images) == 2
    whole = ModelInput((frame(1),), {"mask_share": 0.5})
    assert as_model_input(whole) is whole
