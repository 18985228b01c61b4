"""Zones, series, differences and curves, on frames whose numbers can be worked out by hand."""

import itertools

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.flow import estimate_flow
from dltb.imaging.mask import disocclusion_mask
from dltb.metrics.compare import Curve, Key, Step, measure, measure_tails, paired_differences, summarize
from dltb.metrics.look import detail_energy, saturation
from dltb.metrics.zones import Zones, find_zones, luma, pixel_error, zone_means


def flat(red: int, green: int | None = None, blue: int | None = None) -> np.ndarray:
    """A frame of one colour; one number is a grey."""
    colour = (red, red if green is None else green, red if blue is None else blue)
    return np.broadcast_to(np.array(colour, np.uint8), (64, 64, 3)).copy()


@pytest.fixture
def clip(picture: np.ndarray) -> list[np.ndarray]:
    """A dim window that jumps over a picture, 8 px a frame: the border is uncovered on every frame."""
    return [np.ascontiguousarray(picture[96:160, 8 * n : 8 * n + 64]) // 2 for n in range(8)]


def test_zone_means_by_hand() -> None:
    """Catches inside and outside exchanged, sums for means, and a mean of no pixels."""
    values, mask = np.array([[1.0, 2], [3, 10]]), np.array([[False, False], [False, True]])
    assert dict(zone_means(values, Zones(mask, 0))) == {"frame": 4, "inside": 10, "outside": 2, "inside-outside": 8}
    assert dict(zone_means(values, Zones(mask & False, 0))) == {"frame": 4, "outside": 4}
    assert dict(zone_means(values, Zones(mask | True, 0))) == {"frame": 4, "inside": 4}
    assert dict(zone_means(values, None)) == {"frame": 4}


def test_maps_by_hand() -> None:
    """Catches another Laplacian, the wrap-around of uint8, BGR taken for RGB, and a saturation on another scale."""
    dot = flat(100)
    dot[30, 30] = 110
    assert detail_energy(dot).sum() == 4 * 10 + 4 * 10
    assert detail_energy(flat(77)).max() == 0
    assert np.all(pixel_error(flat(10, 0, 0), flat(250, 30, 0)) == 90)
    assert np.all(saturation(flat(250, 50, 50)) == 204)  # 255 (max - min) / max
    assert luma(flat(255, 0, 0)) == pytest.approx(0.299 * 255, abs=0.5)
    with pytest.raises(UsageError, match="different sizes"):
        pixel_error(flat(1), flat(1)[:32])


def test_zones_are_those_that_a_run_masks(clip: list[np.ndarray]) -> None:
    """Catches the flow in the wrong direction, other constants than the mask's, and an out-of-frame share of its own."""
    flow = estimate_flow(clip[0], clip[1], backward=True)
    zones = find_zones(clip[0], clip[1])
    assert np.array_equal(zones.mask, disocclusion_mask(flow.forward, flow.backward))
    assert 0.05 < zones.share < 0.9
    assert zones.share == zones.mask.mean()
    rows, columns = np.indices((64, 64))
    x, y = columns - flow.forward[..., 0], rows - flow.forward[..., 1]
    outside = (np.abs(x - 31.5) > 32) | (np.abs(y - 31.5) > 32)
    assert 0 < zones.out_of_frame == outside.mean() < zones.share


def test_out_of_frame_share_of_a_pan(picture: np.ndarray) -> None:
    """Catches a share of the wrong side of the flow: a pan by 4 px of 128 brings in 4 columns. And zones of a still."""
    before, after = (np.ascontiguousarray(picture[64:192, x : x + 128]) for x in (64, 60))
    assert find_zones(before, after).out_of_frame == pytest.approx(4 / 128, abs=0.012)
    still = find_zones(before, before)
    assert (still.out_of_frame, still.share) == (0, 0)


def steps_of(clip: list[np.ndarray], *runs: list[np.ndarray]) -> list[Step]:
    """Steps in which every frame of the clip was saved."""
    before = [None, *clip[:-1]]
    return [Step(n, before[n - 1], clip[n - 1], [run[n - 1] for run in runs]) for n in range(1, len(clip) + 1)]


def with_errors(clip: list[np.ndarray], inside: int, outside: int) -> list[np.ndarray]:
    """The clip, brighter by so many levels inside and outside its zones."""
    masks = [np.zeros(clip[0].shape[:2], bool), *(find_zones(a, b).mask for a, b in itertools.pairwise(clip))]
    return [
        frame + np.where(mask[..., None], inside, outside).astype(np.uint8)
        for frame, mask in zip(clip, masks, strict=True)
    ]


def test_error_inside_and_outside_is_found_where_it_was_put(clip: list[np.ndarray]) -> None:
    """Catches zones of another frame, of the run's own frames, or of the other run."""
    series, _ = measure(steps_of(clip, with_errors(clip, 30, 4), with_errors(clip, 9, 4)), ["a", "b"])
    found = {
        (row.key.run, row.key.zone): row.interval for row in summarize(series, ["a", "b"]) if row.key.metric == "mad"
    }
    assert [found[run, "inside"].mean for run in ("a", "b", "b - a")] == pytest.approx([30, 9, -21])
    assert [found[run, "outside"].mean for run in ("a", "b", "b - a")] == pytest.approx([4, 4, 0])
    assert (found["a", "inside-outside"].mean, found["a", "inside"].samples) == (pytest.approx(26), 7)
    assert found["a", "frame"].samples == 8
    assert (found["b - a", "inside"].low, found["b - a", "inside"].high) == pytest.approx((-21, -21))
    assert not any(run == "source" for run, _ in found)


def test_the_source_is_measured_as_the_runs_are(clip: list[np.ndarray]) -> None:
    """Catches a ground truth over other pixels than the runs': a run that equals its source must have the same rows."""
    series, _ = measure(steps_of(clip, clip), ["a"])
    for key, values in series.items():
        if key.run == "a" and key.metric != "mad":
            assert values == series[Key("source", key.zone, key.metric)]
    assert set(series[Key("a", "frame", "mad")].values()) == {0}
    shares = [100 * find_zones(a, b).share for a, b in itertools.pairwise(clip)]
    assert list(series[Key("source", "frame", "masked_percent")].values()) == pytest.approx(shares)


def test_pairs_and_churn_by_hand() -> None:
    """Catches pairs of unequal numbers, a pair left out, and a churn of the first frame."""
    still = [flat(50)] * 3
    runs = [[flat(level) for level in levels] for levels in ((60, 60, 60), (60, 70, 90), (10, 60, 60))]
    series, curves = measure(steps_of(still, *runs), ["a", "b", "c"])
    assert curves[Curve(("a", "b"))] == {1: 0, 2: 10, 3: 30}
    assert curves[Curve(("a", "c"))] == {1: 50, 2: 0, 3: 0}
    assert curves[Curve(("b", "c"))] == {1: 50, 2: 10, 3: 30}
    assert series[Key("b", "frame", "delta_prev")] == {2: 10, 3: 20}
    assert series[Key("source", "frame", "masked_percent")] == {2: 0, 3: 0}
    assert Key("a", "inside", "mad") not in series


def test_tails_by_hand() -> None:
    """Catches tails compared at unequal passes, churn across tails, and a luma of the wrong tail."""
    tails = [(t, {"black": flat(100 - 10 * t), "freeze": flat(100), "free": flat(100 + t)}) for t in (1, 2, 3)]
    series, curves = measure_tails(tails, "a")
    assert curves[Curve(("a",), ("black", "freeze"))] == {1: 10, 2: 20, 3: 30}
    assert curves[Curve(("a",), ("freeze", "free"))] == {1: 1, 2: 2, 3: 3}
    assert curves[Curve(("a",), ("free",))] == {1: 101, 2: 102, 3: 103}
    assert series[Key("a", "tail black", "delta_prev")] == {2: 10, 3: 10}
    assert series[Key("a", "tail freeze", "luma")] == {1: 100, 2: 100, 3: 100}
    assert Curve(("a",), ("black", "freeze")).name({"a": "A"}) == "tails black | freeze: A"


def test_differences_are_paired() -> None:
    """Catches the difference of means over different frames."""
    series = {
        Key("a", "inside", "mad"): {2: 5.0, 3: 7.0, 4: 100.0},
        Key("b", "inside", "mad"): {1: 50.0, 2: 6.0, 3: 9.0},
    }
    assert paired_differences(series, ["a", "b"]) == {Key("b - a", "inside", "mad"): {2: 1, 3: 2}}
    assert paired_differences(series, ["b"]) == {}


def test_temporal_measures_of_consecutive_frames(clip: list[np.ndarray]) -> None:
    """Catches measures against the wrong frame before: a run that blinks by 6 levels, and one that only is brighter."""
    blinking = [frame + np.uint8(6 * (n % 2)) for n, frame in enumerate(clip)]
    series, _ = measure(steps_of(clip, blinking, [frame + np.uint8(6) for frame in clip]), ("blinks", "bright"))
    assert set(series[Key("blinks", "frame", "flicker")].values()) == {6}
    assert set(series[Key("bright", "frame", "flicker")].values()) == {0}
    assert set(series[Key("source", "frame", "flicker")].values()) == {0}
    for metric in ("warping_error", "temporal_flip"):
        steady, blinks = (series[Key(name, "outside", metric)] for name in ("source", "blinks"))
        assert list(steady) == list(range(2, 9))
        assert np.mean(list(blinks.values())) > np.mean(list(steady.values())) + 0.01
    warped = series[Key("bright", "outside", "warping_error")]
    assert list(warped.values()) == pytest.approx(list(series[Key("source", "outside", "warping_error")].values()))


def test_frames_that_are_not_neighbours_have_no_temporal_measures(clip: list[np.ndarray]) -> None:
    """Catches a run that saved every other frame called flickering."""
    series, _ = measure(steps_of(clip, clip)[1::2], ("run",))
    assert not any(key.metric in ("flicker", "warping_error", "temporal_flip") for key in series)
