"""History rectification: each method against an answer by hand, and nothing of an old scene after a cut."""

from dataclasses import replace

import numpy as np
import pytest

from dltb.args.options import HISTORY
from dltb.imaging.evidence import with_evidence
from dltb.imaging.flow import Flow, estimate_flow
from dltb.loop.engine import ModelInput, Source, run_loop
from dltb.loop.history import (
    METHODS,
    History,
    Tuning,
    View,
    first_memory,
    mixed,
    moved_colour,
    rectify,
    share_of_current,
    to_frame,
)
from dltb.loop.rectifier import Rectifier
from tests.imaging.courtyard_pairs import courtyard_pairs

SIDE = 48
TUNING = Tuning(methods=(), alpha=0.1, gamma=1.0, carry=1.0, reject_above=12.0, cut_above=0.65, reanchor_every=0)


def noise(seed, low=60, high=190, side=SIDE):
    return np.random.default_rng(seed).integers(low, high, (side, side, 3), dtype=np.uint8)


def evidence(previous, current, flow=None):
    still = Flow(np.zeros((*current.shape[:2], 2), np.float32))
    return with_evidence(flow or still, previous, current, TUNING.reject_above)


def run(carried, previous, fresh, current, **tuning):
    """One frame through a chain with no motion; all frames uint8."""
    flow = evidence(previous, fresh)
    images = (np.float32(carried), first_memory(carried), flow, np.float32(fresh), np.float32(current))
    return rectify(*images, replace(TUNING, **tuning))


def test_every_method_that_can_be_asked_for_exists():
    """Catches a name in --history that the chain leaves out; confidence is the weight, not a link of the chain."""
    assert {*METHODS, "confidence"} == set(HISTORY)


@pytest.mark.parametrize("methods", [(name,) for name in HISTORY if name != "clip"])
def test_a_history_that_agrees_is_left_alone(methods):
    """Catches a method that changes a state which equals the frame it is held against.

    Not so clip: a pixel further than gamma sigma from the mean around it is drawn in even in the frame itself.
    """
    frame = noise(1)
    made = run(frame, frame, frame, frame, methods=methods)
    np.testing.assert_allclose(made.colour, frame, atol=0.01)
    assert made.facts["kept"] == 1


def test_residual_carries_the_change_and_not_the_content():
    """Catches stale content in the carried state: of P = N_1 + 5 nothing but the 5 reaches the next frame."""
    before, fresh = noise(1), noise(2)
    made = run(before + np.uint8(5), before, fresh, fresh, methods=("residual",), carry=0.8, cut_above=2.0)
    np.testing.assert_allclose(made.colour, fresh + np.float32(4), atol=0.01)


def test_clamp_bounds_by_the_neighbourhood_of_what_is_current():
    """Catches a box around the wrong image or pixel: a red state over grey neighbours becomes grey."""
    grey = np.full((SIDE, SIDE, 3), 100, np.uint8)
    red = grey.copy()
    red[20:24, 20:24] = (250, 20, 20)
    for method in ("clamp", "clip"):
        made = run(red, grey, grey, grey, methods=(method,))
        assert np.abs(made.colour - 100).max() < 1.5
        assert made.facts["clamped"] == pytest.approx(16 / SIDE**2)


def test_clip_lets_through_what_lies_in_the_box():
    """Catches a clip that pulls everything to the mean, as a blur would."""
    current = noise(3)
    near = to_frame(current + np.random.default_rng(4).normal(0, 3, current.shape).astype(np.float32))
    made = run(near, current, current, current, methods=("clip",), gamma=3.0)
    np.testing.assert_allclose(made.colour, near, atol=0.01)


def test_clip_goes_towards_the_mean_along_a_line():
    """Catches a clamp per channel, which changes the hue: the way to the box's centre is straight in YCoCg."""
    rng = np.random.default_rng(5)
    current = (120 + rng.normal(0, 10, (SIDE, SIDE, 3))).clip(0, 255).astype(np.uint8)
    far = np.full_like(current, 0)
    far[..., 0] = 250
    made = run(far, current, current, current, methods=("clip",)).colour
    import cv2

    mean = cv2.blur(np.float32(current), (3, 3))
    away, left = far - mean, made - mean
    cosine = (away * left).sum(-1) / np.linalg.norm(away, axis=-1) / np.linalg.norm(left, axis=-1)
    assert cosine.min() > 0.999
    assert (np.linalg.norm(left, axis=-1) < np.linalg.norm(away, axis=-1) / 3).all()


def test_realign_takes_a_colour_cast_off_in_time():
    """Catches a correction of the wrong sign, and one that takes texture with the cast."""
    frame = noise(6, 80, 170)
    state, memory = frame + np.float32(20), first_memory(frame)
    flow = evidence(frame, frame)
    for _ in range(60):
        made = rectify(state, memory, flow, np.float32(frame), np.float32(frame), replace(TUNING, methods=("realign",)))
        memory = made.memory
    np.testing.assert_allclose(made.colour, frame, atol=1)


def test_reject_drops_what_the_source_does_not_confirm():
    """Catches history that is kept where something else is in the source now."""
    before = noise(7, 90, 110)
    fresh = before.copy()
    fresh[10:20, 10:20] = 200
    made = run(before, before, fresh, fresh, methods=("reject",))
    assert (made.alpha[11:19, 11:19] == 1).all()
    assert (made.alpha[24:, 24:] == np.float32(0.1)).all()
    assert 0.03 < made.facts["rejected"] < 0.1


def test_roundtrip_drops_what_does_not_close():
    """Catches a sum for a difference: motion that comes back to where it began is kept, also where it is fast."""
    frame = noise(8)
    there = np.zeros((SIDE, SIDE, 2), np.float32)
    there[:, :20], there[:, 20:] = (9, 0), (0, 0)
    back = -there
    back[:10] += (0.9, 0)  # within what fast motion may be off by, not within what slow motion may
    flow = evidence(frame, frame, Flow(there, back))
    made = rectify(
        np.float32(frame),
        first_memory(frame),
        flow,
        *[np.float32(frame)] * 2,
        replace(TUNING, methods=("roundtrip",), cut_above=2.0),
    )
    assert (made.alpha[:10, 20:] == 1).all()
    assert (made.alpha[:10, 10:20] == np.float32(0.1)).all()
    assert (made.alpha[10:, 20:] == np.float32(0.1)).all()


def test_confidence_makes_a_running_mean():
    """Catches a weight that is off by one frame: n equal shares, then the least one."""
    lengths = np.float32([[0, 1, 2, 8, 9, 50]])
    alpha = share_of_current(lengths, replace(TUNING, methods=("confidence",)))
    np.testing.assert_allclose(alpha, [[1, 1 / 2, 1 / 3, 1 / 9, 0.1, 0.1]], rtol=1e-6)


def test_a_mean_of_noise_does_not_stall_at_a_rounded_frame():
    """Catches history carried in 8 bits: at alpha 0.05 steps below half a level would be lost, 10 levels from the truth."""
    frame = np.full((SIDE, SIDE, 3), 100, np.uint8)
    rectifier = rectifier_for(("confidence",), alpha=0.05)
    state = None
    for index in range(1, 150):
        output = Made(np.full_like(frame, 90 if index == 1 else 100))
        state = rectifier.resolve(state, Source(index, frame, None if index == 1 else frame), output).frame
    assert np.abs(state.astype(int) - 100).max() == 0


class Made:
    """What a pass returns, as far as the loop looks."""

    def __init__(self, frame):
        self.frame, self.seconds = frame, 0.25


def rectifier_for(methods, flow=None, **tuning):
    return Rectifier(
        flow or (lambda previous, current: evidence(previous, current)),
        at_output=replace(TUNING, methods=methods, **tuning),
    )


OLD, NEW = noise(11), noise(12)
FLAT = np.full_like(OLD, 128)
ENDS = {
    "hard cut": [OLD] * 6 + [NEW] * 2,
    "flat cut": [OLD] * 6 + [FLAT] * 2,
    "from flat": [FLAT] * 6 + [NEW] * 2,
    "flash": [OLD] * 6 + [np.full_like(OLD, 250), NEW],
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("methods", [("residual",), ("clip",), ("residual", "confidence"), ("realign",)])
def test_no_ghost_after_a_cut(name, methods):
    """Catches the old scene, or what the model made of it, under the new one: at the cut nothing is inherited."""
    frames = ENDS[name]
    rectifier = rectifier_for(methods, lambda a, b: evidence(a, b, estimate_flow(a, b)))
    state = None
    for index, frame in enumerate(frames, 1):
        before = frames[index - 2] if index > 1 else None
        made = Made(frame if index > 6 else frame + np.uint8(30))  # a change that would show after the cut
        result = rectifier.resolve(state, Source(index, frame, before), made)
        state, facts = result.frame, getattr(result, "facts", {})
        if index > 6 and not np.array_equal(frame, before):
            assert (facts["output_cut"], facts["output_kept"], facts["output_alpha"]) == (1, 0, 1)
            np.testing.assert_array_equal(state, frame)
        else:
            assert not facts.get("output_cut")


def test_reanchoring_is_periodic():
    """Catches an anchor that comes once, or a pass late."""
    frame = noise(13)
    rectifier = rectifier_for(("residual",), reanchor_every=3)
    state, alphas = None, []
    for index in range(1, 9):
        made = rectifier.resolve(state, Source(index, frame, frame if index > 1 else None), Made(frame))
        state = made.frame
        alphas.append(getattr(made, "facts", {}).get("output_alpha"))
    assert [alpha == 1 for alpha in alphas[1:]] == [False, False, True, False, False, True, False]


def test_exact_motion_is_followed():
    """Catches a history that is moved the wrong way: on rendered frames the mean along true motion is sharp.

    Without motion the mean of the last frames misses the picture by far more.
    """

    def error(pair, flow):
        moved = moved_colour(np.float32(pair.previous), flow)
        kept = ~evidence(pair.previous, pair.current, Flow(pair.true_flow, hidden=~pair.truth.visible)).unseen
        return np.abs(moved - pair.current)[kept].mean()

    for pair in courtyard_pairs(3):
        still = Flow(np.zeros_like(pair.true_flow))
        assert error(pair, Flow(pair.true_flow)) < 0.5 * error(pair, still)


def test_what_was_hidden_inherits_nothing():
    """Catches a visibility mask that does not reach the history, or reaches it turned round."""
    frame = noise(14)
    hidden = np.zeros((SIDE, SIDE), bool)
    hidden[5:9, 5:9] = True
    flow = evidence(frame, frame, Flow(np.zeros((SIDE, SIDE, 2), np.float32), hidden=hidden))
    made = rectify(np.float32(frame), first_memory(frame), flow, np.float32(frame), np.float32(frame), TUNING)
    np.testing.assert_array_equal(made.alpha == 1, hidden)


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_before_a_blend_the_whole_share_is_alpha(alpha):
    """Catches the frame counted twice: what the chain mixes in and what the blend adds make alpha together."""
    fresh, state = noise(15), noise(16)
    tuning = replace(TUNING, methods=("confidence",), alpha=alpha)
    rectifier = Rectifier(lambda a, b: evidence(a, b), at_input=tuning)
    given = np.float32(rectifier.reproject(state, evidence(fresh, fresh), fresh).frame)
    blended = (1 - alpha) * given + alpha * fresh
    np.testing.assert_allclose(
        blended, mixed(np.float32(state), np.float32(fresh), np.full((SIDE, SIDE), np.float32(0.5))), atol=1
    )


def test_memory_that_is_put_away_goes_on_as_it_was():
    """Catches a part of the memory that a resume leaves out."""
    frames = [noise(20 + n) for n in range(9)]
    tuning = replace(TUNING, methods=HISTORY, cut_above=2.0)

    def play(stop=None):
        rectifier = Rectifier(lambda a, b: evidence(a, b), at_input=tuning, at_output=tuning)
        state = None
        for index, frame in enumerate(frames, 1):
            before = frames[index - 2] if index > 1 else None
            if state is not None:
                rectifier.reproject(state, evidence(before, frame), frame)
            state = rectifier.resolve(state, Source(index, frame, before), Made(frame + np.uint8(9))).frame
            if index == stop:
                arrays = {name: array.copy() for name, array in rectifier.arrays().items()}
                rectifier = Rectifier(lambda a, b: evidence(a, b), at_input=tuning, at_output=tuning)
                rectifier.restore(arrays)
        return state, rectifier.arrays()

    (whole, kept), (parted, kept_too) = play(), play(stop=4)
    np.testing.assert_array_equal(whole, parted)
    assert kept.keys() == kept_too.keys()
    assert all(np.array_equal(kept[name], kept_too[name]) for name in kept)


def test_the_resolved_frame_is_what_the_loop_carries():
    """Catches a history that is shown and not fed back, and a pass whose other facts are lost."""
    frame, seen = noise(30), []

    def resolve(state, source, output):
        return type("Resolved", (), {"frame": output.frame + np.uint8(1), "seconds": output.seconds})()

    def combine(carried, fresh, previous):
        seen.append(carried[0, 0, 0])
        return ModelInput((carried,))

    sources = [Source(n, frame, frame) for n in (1, 2, 3)]
    steps = list(run_loop(sources, combine, lambda images, index: Made(images[0]), resolve=resolve))
    assert seen == [frame[0, 0, 0] + 1, frame[0, 0, 0] + 2]
    assert steps[-1].frame[0, 0, 0] == frame[0, 0, 0] + 3


def test_methods_are_pure():
    """Catches a method that writes into what it was given, which a checkpoint may be writing at that moment."""
    frames = [np.float32(noise(40 + n)) for n in range(4)]
    marks = np.random.default_rng(0).random((SIDE, SIDE)) > 0.5
    view = View(*frames[:3], marks, ~marks, replace(TUNING, carry=0.5))
    history = History(frames[3], np.ones((SIDE, SIDE), np.float32), first_memory(frames[3]).offset)
    arrays = [*frames, view.mismatch, history.length, history.offset]
    before = [array.copy() for array in arrays]
    for method in METHODS.values():
        first, second = method(history, view), method(history, view)
        np.testing.assert_array_equal(first.colour, second.colour)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
