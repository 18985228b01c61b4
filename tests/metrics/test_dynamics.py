"""Colour, detail, cycles and growth: known colours, other libraries, runs whose answer is built in."""

import colorsys
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from dltb.metrics import plot
from dltb.metrics.distances import Metric
from dltb.metrics.dynamics import Growth, detect_cycle, growth_rate, measure_run, table_columns, thinned
from dltb.metrics.look import Look, detail_energy, look, mean_lab, saturation
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.table import METRICS, MetricSpec
from dltb.metrics.tables import write_columns


def flat(*colour: int, side: int = 8) -> np.ndarray:
    return np.full((side, side, 3), colour, np.uint8)


# sRGB under D65, as published by B. Lindbloom and by every colour calculator.
@pytest.mark.parametrize(
    ("colour", "lab"),
    [
        ((0, 0, 0), (0, 0, 0)),
        ((255, 255, 255), (100, 0, 0)),
        ((119, 119, 119), (50.03, 0, 0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
        ((128, 0, 128), (29.78, 58.93, -36.49)),
    ],
)
def test_lab_of_known_colours(colour: tuple[int, ...], lab: tuple[float, ...]) -> None:
    """Catches another white point, a swapped matrix, gamma left in, and signs of a* and b*."""
    assert mean_lab(flat(*colour)) == pytest.approx(lab, abs=0.03)  # sources differ in the matrix's fifth digit


def test_lab_by_the_formula() -> None:
    """Catches the line at the dark end, and what float32 loses."""

    def formula(pixel: np.ndarray) -> tuple[float, float, float]:
        light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in pixel)]
        rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
        xyz = [sum(m * c for m, c in zip(row, light, strict=True)) / sum(row) for row in rows]
        x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in xyz)
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    frame = np.random.default_rng(0).integers(0, 256, (12, 20, 3), np.uint8)
    frame[:6] //= 25
    expected = np.mean([formula(pixel) for row in frame.tolist() for pixel in row], axis=0)
    assert mean_lab(frame) == pytest.approx(expected.tolist(), abs=1e-3)


def test_lab_against_opencv(picture: np.ndarray) -> None:
    """Catches pixels and channels mixed up on a frame that is not flat or square."""
    cut = picture[:100]
    expected = cv2.cvtColor(cut.astype(np.float32) / 255, cv2.COLOR_RGB2LAB).mean(axis=(0, 1))
    assert mean_lab(cut) == pytest.approx(expected.tolist(), abs=0.1)


def test_lab_is_the_mean_of_pixels() -> None:
    """Catches the Lab of the mean colour: half black and half white is L* 50, though their mean colour is lighter."""
    frame = flat(0, 0, 0)
    frame[::2] = 255
    assert mean_lab(frame) == pytest.approx((50, 0, 0), abs=1e-3)


def test_saturation_against_colorsys() -> None:
    """Catches a division by 0 in black, an overflow in uint8, and HSL's saturation."""
    frame = np.random.default_rng(0).integers(0, 256, (9, 11, 3), np.uint8)
    frame[0, :3] = [(0, 0, 0), (255, 255, 255), (255, 0, 0)]
    expected = [[255 * colorsys.rgb_to_hsv(*(pixel / 255))[1] for pixel in row] for row in frame]
    np.testing.assert_allclose(saturation(frame), expected, atol=1e-4)


def test_detail_against_opencv(picture: np.ndarray) -> None:
    """Catches a kernel of eight neighbours, another border and other weights of the channels."""
    grey = picture[:100].astype(np.float32) @ np.float32([0.299, 0.587, 0.114])
    expected = np.abs(cv2.Laplacian(grey, cv2.CV_32F, ksize=1, borderType=cv2.BORDER_REPLICATE))
    np.testing.assert_allclose(detail_energy(picture[:100]), expected, atol=1e-3)


def test_look_by_hand() -> None:
    """Catches means of the wrong thing: one white pixel on black has a Laplacian of 4 x 255 and four neighbours of 255."""
    frame = flat(0, 0, 0)
    frame[3, 3] = 255
    found = look(frame)
    assert found.detail == pytest.approx(8 * 255 / 64)
    assert (found.saturation, found.clipped) == (0, 1)
    half = flat(255, 128, 0)
    half[:4] = (1, 254, 7)
    assert look(half).clipped == pytest.approx(2 / 6)


def spoil(frames: list[np.ndarray], sigma: float) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [np.clip(frame + rng.normal(0, sigma, frame.shape), 0, 255).round().astype(np.uint8) for frame in frames]


def noise_frames(count: int, seed: int = 0, side: int = 8) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(40, 216, (count, side, side, 3), np.uint8))


@pytest.mark.parametrize("period", [2, 3, 5, 7, 16])
@pytest.mark.parametrize("sigma", [0, 3])
def test_cycles_are_found(period: int, sigma: float) -> None:
    """Catches a period off by one, a multiple of it, a cycle lost in a little noise, and one hidden by the start."""
    lead = noise_frames(30, seed=5)
    run = lead + spoil(list(itertools.islice(itertools.cycle(noise_frames(period)), 70)), sigma)
    found = detect_cycle(run)
    assert found is not None
    assert found.period == period
    assert found.rows == max(4 * period, 16)
    assert found.step == pytest.approx(
        np.mean([mean_absolute_difference(a, b) for a, b in itertools.pairwise(run)]), rel=0.2
    )
    assert (found.miss == 0) == (sigma == 0)
    assert f"period {period}:" in str(found)


def levels(values: list[float]) -> list[np.ndarray]:
    return [flat(*[round(value)] * 3) for value in values]


def chatter() -> list[np.ndarray]:
    """Rounding that flips one value in three by one level on every second pass: at rest for dltb-drift."""
    base, flipped = flat(100, 100, 100), flat(100, 100, 101)
    return [base, flipped] * 40


NO_CYCLES = {
    "at rest": levels([90] * 80),
    "chatter": chatter(),
    "drifting": levels([40 + i for i in range(80)]),
    "slow and steps of nothing": levels([40 + i // 3 for i in range(80)]),
    "new noise in every pass": noise_frames(80),
    "dies out by a tenth": levels([128 + 100 * (-0.9) ** i for i in range(40)]),
    "dies out by a twentieth": levels([128 + 120 * (-0.95) ** i for i in range(30)]),
    "one spike": levels([*[90] * 70, 200, *[90] * 9]),
    "one step": levels([*[90] * 60, *[140] * 20]),
    "drifting while it alternates": levels([60 + 3 * i + 20 * (-1) ** i for i in range(40)]),
    "as much noise as steps": spoil(noise_frames(3) * 20, 20),
    "too few rounds": noise_frames(5, seed=2) * 3,
    "nothing": [],
}


@pytest.mark.parametrize("name", NO_CYCLES)
def test_what_is_no_cycle(name: str) -> None:
    """Catches a fixed point, chatter, drift, a dying oscillation or chance taken for a cycle, and a short run that fails."""
    assert detect_cycle(NO_CYCLES[name]) is None


def test_a_cycle_longer_than_asked_for() -> None:
    """Catches a matrix that is larger than promised, and a limit without effect."""
    run = noise_frames(6) * 8
    assert detect_cycle(run, longest=5) is None
    assert detect_cycle(run, longest=6).period == 6


def test_thinned_frames_keep_their_distance(picture: np.ndarray) -> None:
    """Catches a crop instead of a grid, a view that keeps the whole frame alive, and frames that are not thinned."""
    large = picture.repeat(2, axis=0)  # 512 x 256
    small = thinned(large)
    assert small.shape == (128, 64, 3)
    assert small.base is None
    other = np.roll(large, 9, axis=1)
    expected = mean_absolute_difference(large, other)
    assert mean_absolute_difference(small, thinned(other)) == pytest.approx(expected, rel=0.05)
    assert np.array_equal(thinned(picture[:64, :64]), picture[:64, :64])


NUMBERS = list(range(1, 61))


def grow(numbers: Sequence[int], distances: Sequence[float | None], levels_per_unit: float = 1e4) -> Growth:
    """The rate of a distance whose frames differ by so many levels a unit."""
    return growth_rate(numbers, distances, [d if d is None else d * levels_per_unit for d in distances])


@pytest.mark.parametrize("rate", [0.2, math.log(2)])
@pytest.mark.parametrize("stride", [1, 10])
def test_growth_that_saturates(rate: float, stride: int) -> None:
    """Catches the plateau in the fit, a rate per row instead of per pass, base 2 or 10, and a start that is cut off."""
    numbers = [n * stride for n in NUMBERS]
    distances = [40 / (1 + 39_999 * math.exp(-rate * (i * stride))) for i in range(60)]
    found = grow(numbers, distances)
    if rate * stride > 3:  # the whole of the growth takes three rows
        assert found.rate is None
        assert "frames lie before the final level" in found.reason
        return
    assert found.rate == pytest.approx(rate, rel=0.06)
    assert found.first == numbers[0]
    assert distances[numbers.index(found.last)] < 10.5
    assert found.r_squared > 0.99
    assert f"doubles every {math.log(2) / found.rate:.3g} passes" in str(found)


@pytest.mark.parametrize(("start", "rate"), [(0.05, 0.14), (0.2, 0.14), (0.6, 0.14), (0.05, 0.07), (40, -0.14)])
def test_rounding_to_levels_does_not_bend_the_rate(start: float, rate: float) -> None:
    """Catches a fit over frames whose difference is smaller than what 8 bits hold, where 0.14 reads 0.21."""
    random = np.random.default_rng(0)
    frame = random.integers(60, 196, (48, 48, 3))
    direction = random.standard_normal(frame.shape)
    direction /= np.abs(direction).mean()
    sizes = np.minimum(start * np.exp(rate * np.arange(130)), 20 if rate > 0 else 40)
    apart = [np.rint(frame + size * np.roll(direction, i, axis=1)) - frame for i, size in enumerate(sizes)]
    levels = [float(np.abs(difference).mean()) for difference in apart]
    found = growth_rate(range(1, 131), levels, levels)
    assert found.rate == pytest.approx(rate, rel=0.06)
    assert levels[found.first - 1] >= 0.5
    assert levels[found.last - 1] >= 0.5
    distances = [level**0.74 for level in levels]  # as FLIP grows
    assert growth_rate(range(1, 131), distances, levels).rate == pytest.approx(0.74 * rate, rel=0.06)


def test_the_doubling_map() -> None:
    """Catches an estimate that only knows smooth curves: x -> 2x mod 1 has the exponent ln 2."""
    x = np.random.default_rng(0).random(2000)
    y, distances = x + 1e-5, []
    for _ in range(40):
        apart = np.abs(x - y)
        distances.append(float(np.minimum(apart, 1 - apart).mean()))  # on a circle
        x, y = 2 * x % 1, 2 * y % 1
    assert grow(range(1, 41), distances).rate == pytest.approx(math.log(2), rel=0.1)


@pytest.mark.parametrize("floor", [0.02, 0])
def test_decay(floor: float) -> None:
    """Catches log 0, a floor of rounding in the fit, and a contraction reported as growth."""
    distances = [40 * math.exp(-0.3 * i) + floor if i < 30 or floor else 0.0 for i in range(60)]
    found = grow(NUMBERS, distances)
    assert found.rate == pytest.approx(-0.3, rel=0.08)
    assert "halves every" in str(found)
    assert found.last == 30 if not floor else 10 < found.last < 30


def test_equal_starts_and_missing_frames() -> None:
    """Catches zeros before the runs part, and frames that the other run lacks."""
    distances = [0, 0, 0, *(1e-4 * math.exp(0.25 * i) for i in range(57))]
    distances[10] = distances[40] = None
    found = grow(NUMBERS, distances)
    assert found.rate == pytest.approx(0.25, rel=1e-6)
    assert found.first == 4


@pytest.mark.parametrize(
    ("distances", "reason"),
    [
        ([0.0] * 60, "the same in every common frame"),
        ([None] * 60, "the same in every common frame"),
        ([*[0.0] * 57, 1.0, 2.0, 3.0], "differ by half a level or more in 3 common frames"),
        ([1e-5 * 1.01**i for i in range(60)], "never differ by 0.5 levels"),
        ([20 + 5 * math.sin(i) for i in range(60)], "needs a change of 10-fold"),
        ([0.001, 0.3, 90, *[100.0] * 57], "only 2 frames lie before the final level"),
        ([*[0.001] * 40, 0.02, 9.0, *[100.0] * 18], "no straight line"),
    ],
    ids=[
        "equal",
        "no common frame",
        "three frames",
        "within rounding",
        "far apart from the start",
        "at once",
        "a jump",
    ],
)
def test_what_has_no_rate(distances: list[float | None], reason: str) -> None:
    """Catches a number where nothing grew exponentially, and a crash instead of the reason."""
    found = grow(NUMBERS, distances)
    assert found.rate is None
    assert reason in str(found)
    assert str(found).startswith("no growth rate: ")


class Counting:
    """A metric of grey levels that keeps a record of what it prepared."""

    def __init__(self) -> None:
        self.prepared: list[int] = []
        self.metric = Metric(MetricSpec("grey", "", 255, 1, ""), self.prepare, self.compare)

    def prepare(self, images: list[np.ndarray]) -> list[int]:
        found = [int(image[0, 0, 0]) for image in images]
        self.prepared += found
        return found

    def compare(self, images: list[int], references: list[int]) -> np.ndarray:
        return np.abs(np.subtract(images, references))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("lag", [0, 1, 2, 3, 7, 9])
def test_lags_do_not_depend_on_the_batch(size: int, lag: int) -> None:
    """Catches a lag that is off by one or lost at the border of two batches, and frames that are prepared again for it."""
    grey, counting = [10, 14, 11, 11, 30, 29, 90], Counting()
    frames = [flat(level, level, level, side=1) for level in grey]
    others = [frames[0], None, None, frames[1], *[None] * 3]
    found = measure_run(frames, None, counting.metric, batch_size=size, lag=lag, others=others)
    expected = [abs(grey[i] - grey[i - lag]) if 0 < lag <= i else None for i in range(7)]
    assert [row.to_lag for row in found.rows] == expected
    assert [row.to_prev for row in found.rows] == [None, 4, 3, 0, 19, 1, 61]
    assert [row.to_other for row in found.rows] == [0, None, None, 3, None, None, None]
    assert sorted(counting.prepared) == sorted([*grey, 10, 14])
    assert [seen.lab_l for seen in found.looks] == [mean_lab(frame)[0] for frame in frames]


def test_a_long_run_is_not_held() -> None:
    """Catches frames or prepared items that pile up."""
    import weakref

    alive: list[weakref.ref] = []

    class Item:
        pass

    def prepare(images: list[np.ndarray]) -> list[Item]:
        items = [Item() for _ in images]
        alive.extend(map(weakref.ref, items))
        return items

    metric = Metric(MetricSpec("none", "", 1, 1, ""), prepare, lambda a, b: np.zeros(len(a)))
    most = 0

    def frames():
        nonlocal most
        for level in range(100):
            most = max(most, sum(item() is not None for item in alive))
            yield flat(level, 0, 0, side=2)

    measure_run(frames(), None, metric, batch_size=4, lag=5)
    assert most <= 1 + 5 + 2 * 4


def test_what_readers_rely_on_comes_first() -> None:
    """Catches an added column that moves the others."""
    found = measure_run([flat(1, 2, 3)] * 3, None, Counting().metric, lag=2, others=[None] * 3)
    spec = METRICS["flip"]
    names = list(table_columns(found, spec, lag=2, input_to_ref=[0.0] * 3, against=True))
    first = ["flip_to_ref", "flip_to_prev", "flip_input_to_ref"]
    assert names == [*first, "flip_to_lag", "flip_to_other", *Look._fields]
    assert list(table_columns(found, spec)) == [*first[:2], *Look._fields]


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> list:
    """The matplotlib figures that are saved."""
    from matplotlib.figure import Figure

    saved, savefig = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *where, **how: (saved.append(self), savefig(self, *where, **how))
    )
    return saved


def write_table(root: Path, looks: list[Look]) -> Path:
    frames = [f"frame_{number:04d}" for number in range(1, len(looks) + 1)]
    columns: dict = {"flip_to_ref": [0.5] * len(looks), "flip_to_prev": [None, *[0.1] * (len(looks) - 1)]}
    columns["flip_to_lag"] = [None] * 3 + [0.2] * (len(looks) - 3)
    columns |= {name: [getattr(seen, name) for seen in looks] for name in Look._fields}
    write_columns(root / "a.csv", frames, columns)
    return root / "a.csv"


def test_the_figure_of_distances_holds_distances_alone(tmp_path: Path, figure: list) -> None:
    """Catches L* on the axis of a distance, and a lag whose length nobody can read."""
    plot.plot_table(write_table(tmp_path, [Look(60, 1, 2, 90, 0.1, 20)] * 8), tmp_path / "a.png", converged_below=0.01)
    above, below = ([text.get_text() for text in ax.get_legend().get_texts()] for ax in figure[0].axes)
    assert above == ["to the reference"]
    assert below == ["to the previous frame", "to the frame 3 before", "converged below 0.01"]


@pytest.mark.parametrize("moving", [0, 1])
def test_the_figure_of_colour_and_detail(tmp_path: Path, figure: list, moving: float) -> None:
    """Catches axes cut at 0 where values are negative, a resting run blown up into a moving one, and overlapping text."""
    looks = [Look(60 + moving * i, -20 - moving * i, 5, 90, 0, 20 + moving * i) for i in range(40)]
    plot.plot_dynamics(write_table(tmp_path, looks), tmp_path / "a.png", title="a title of ordinary length")
    axes = figure[0].axes
    assert [ax.get_ylabel().split("\n")[0] for ax in axes][:2] == ["lightness L*", "chroma a*, b*"]
    for ax in axes:
        low, high = ax.get_ylim()
        drawn = np.concatenate([line.get_ydata() for line in ax.lines])
        assert low <= drawn.min() <= drawn.max() <= high
        label = ax.yaxis.label.get_window_extent()
        assert label.x0 >= 0
        assert label.height <= ax.get_window_extent().height
    assert np.ptp(axes[0].get_ylim()) >= 10
    assert [ax.get_ylim()[0] for ax in axes[2:]] == [0, 0, 0]
    legend, title = axes[1].get_legend().get_window_extent(), figure[0]._suptitle.get_window_extent()
    assert legend.y0 >= axes[1].get_window_extent().y1 - 1
    assert legend.y1 <= axes[0].get_window_extent().y0
    assert title.y0 >= axes[0].get_window_extent().y1
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.csv", "a.png"]
