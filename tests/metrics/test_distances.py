"""Every distance that needs no weights: identities, other libraries, answers by hand, and the scoring of a run."""

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest

from dltb import RunError, UsageError
from dltb.metrics import distances
from dltb.metrics.distances import Distance, Metric, load_metric, score, summarize
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.table import METRICS, MetricSpec, metric_key

OFFLINE = [key for key, row in METRICS.items() if row.offline]


def flat(*colour: int, side: int = 192) -> np.ndarray:
    return np.full((side, side, 3), colour, np.uint8)


def noisy(picture: np.ndarray, amount: float) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, amount, picture.shape)
    return np.clip(picture + noise, 0, 255).round().astype(np.uint8)


@pytest.fixture(params=OFFLINE)
def metric(request: pytest.FixtureRequest) -> Metric:
    """Each metric that needs no weights."""
    return load_metric(request.param)


@pytest.fixture
def others(picture: np.ndarray) -> list[np.ndarray]:
    """Frames at some distance of the picture, not square."""
    cut = picture[:192]
    shifted, darker = np.roll(cut, 3, axis=1), (cut * 0.7).astype(np.uint8)
    return [noisy(cut, 12), cv2.GaussianBlur(cut, (0, 0), 2), shifted, darker, 255 - cut]


def test_every_row_has_a_loader() -> None:
    """Catches a row that --metric accepts and nothing computes."""
    assert distances._LOADERS.keys() == METRICS.keys()


@pytest.mark.parametrize(("typed", "key"), [("MS_SSIM", "ms-ssim"), (" flip", "flip"), ("DreamSim", "dreamsim")])
def test_names_as_typed(typed: str, key: str) -> None:
    """Catches a metric refused for its spelling."""
    assert metric_key(typed) == key


def test_an_unknown_name_lists_the_known_ones() -> None:
    """Catches a KeyError."""
    with pytest.raises(UsageError, match=r"unknown metric 'sim' \(did you mean ssim\?\); known: dreamsim, flip, ssim"):
        load_metric("sim")


def test_distance_to_itself_is_zero(metric, picture, others) -> None:
    """Catches an offset, and rounding that leaves a settled run at 1e-8 instead of 0."""
    frames = [*others, flat(0, 0, 0), flat(255, 255, 255)]
    assert [metric([frame], [frame]).item() for frame in frames] == [0] * len(frames)


def test_symmetry_and_range(metric, picture, others) -> None:
    """Catches a swapped argument, a similarity, and a value outside what the table says."""
    reference = [picture[:192]] * len(others)
    found = metric(others, reference)
    np.testing.assert_allclose(metric(reference, others), found, rtol=1e-6)
    assert found.shape == (len(others),)
    assert found.dtype == np.float64
    assert (found > 0).all()
    assert (metric([flat(0, 0, 0)], [flat(255, 255, 255)]) <= metric.spec.largest).all()
    assert (found <= metric.spec.largest).all()


@pytest.mark.parametrize("damage", [noisy, lambda image, sigma: cv2.GaussianBlur(image, (0, 0), sigma)])
def test_grows_with_noise_and_blur(metric, picture, damage: Callable) -> None:
    """Catches a metric that saturates early or answers to something else."""
    found = metric([damage(picture, amount) for amount in (0.6, 1.5, 4, 10)], [picture] * 4)
    assert (np.diff(found) > 0).all()


def test_batches_do_not_matter(metric, picture, others, monkeypatch) -> None:
    """Catches a mean over the batch, an order that is lost, and a chunk at whose border pairs are mixed up."""
    reference = [picture[:192]] * len(others)
    together = metric(others, reference)
    np.testing.assert_array_equal(metric(np.stack(others), np.stack(reference)), together)
    monkeypatch.setattr("dltb.metrics.ssim.PIXELS_AT_ONCE", {"cpu": 2 * 192 * 256})
    np.testing.assert_allclose(metric(others, reference), together, atol=1e-12)
    one_by_one = [metric([a], [b]).item() for a, b in zip(others, reference, strict=True)]
    np.testing.assert_allclose(one_by_one, together, atol=1e-12)


def test_the_same_twice(metric, picture, others) -> None:
    """Catches a metric that is not deterministic."""
    reference = [picture[:192]] * len(others)
    np.testing.assert_array_equal(metric(others, reference), metric(others, reference))


@pytest.mark.parametrize("name", ["ssim", "ms-ssim"])
def test_ssim_against_piq(name, picture, others) -> None:
    """Catches another window, other constants, greys instead of channels, other scales or weights."""
    import piq
    import torch

    def tensor(frames: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).double()

    # Without the negative, whose negative terms piq treats otherwise.
    pair = tensor(others[:4]), tensor([picture[:192]] * 4)
    if name == "ssim":
        similarity = piq.ssim(*pair, data_range=255, reduction="none", downsample=False)
    else:
        similarity = piq.multi_scale_ssim(*pair, data_range=255, reduction="none")
    found = load_metric(name)(others[:4], [picture[:192]] * 4)
    np.testing.assert_allclose(found, 1 - similarity.numpy(), atol=2e-7)


def test_ssim_of_flat_frames_by_hand() -> None:
    """Catches a wrong constant and single precision: without structure, SSIM is (2 a b + c1) / (a^2 + b^2 + c1)."""
    a, b, c1 = 100, 150, (0.01 * 255) ** 2
    expected = 1 - (2 * a * b + c1) / (a**2 + b**2 + c1)
    assert load_metric("ssim")([flat(a, a, a)], [flat(b, b, b)]).item() == pytest.approx(expected, abs=1e-7)


def test_flip_against_nvidias(picture, others) -> None:
    """Catches any step of FLIP done otherwise than by its authors, in the mean and at every pixel."""
    flip_evaluator = pytest.importorskip("flip_evaluator")
    from dltb.metrics.flip import error_map, see

    reference = picture[:192]
    noise = np.random.default_rng(1).integers(0, 256, reference.shape, np.uint8)
    for image in [*others, noise]:
        units = (frame.astype(np.float32) / 255 for frame in (reference, image))
        expected, mean, _ = flip_evaluator.evaluate(*units, "LDR", applyMagma=False)
        assert load_metric("flip")([image], [reference]).item() == pytest.approx(mean, abs=3e-5)
        np.testing.assert_allclose(error_map(see(image), see(reference)), expected[..., 0], atol=2e-4)


@pytest.mark.parametrize(
    ("a", "b"), [((0, 0, 0), (255, 255, 255)), ((0, 255, 0), (0, 0, 255)), ((200, 30, 60), (190, 40, 60))]
)
def test_flip_of_flat_frames_by_hand(a, b) -> None:
    """Catches a wrong colour space, where no package of NVIDIA's is at hand; flat frames have neither edges nor points.

    HyAB between Hunt-adjusted L*a*b* values, to the power 0.7, of which the lower 40 % of the range become 95 %.
    """

    def hunt(colour: tuple[int, ...]) -> tuple[float, float, float]:
        light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
        rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))  # sRGB's own digits
        xyz = [sum(m * c for m, c in zip(row, light, strict=True)) / sum(row) for row in rows]
        x, y, z = (t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in xyz)
        lightness = 116 * y - 16
        return lightness, 0.01 * lightness * 500 * (x - y), 0.01 * lightness * 200 * (y - z)

    def difference(one: tuple[int, ...], two: tuple[int, ...]) -> float:
        (l1, a1, b1), (l2, a2, b2) = hunt(one), hunt(two)
        return (abs(l1 - l2) + math.hypot(a1 - a2, b1 - b2)) ** 0.7

    largest = difference((0, 255, 0), (0, 0, 255))
    knee, error = 0.4 * largest, difference(a, b)
    expected = error * 0.95 / knee if error < knee else 0.95 + (error - knee) / (largest - knee) * 0.05
    assert load_metric("flip")([flat(*a)], [flat(*b)]).item() == pytest.approx(expected, abs=2e-4)


def test_pixel_is_that_of_dltb_drift(picture, others) -> None:
    """Catches two tools that disagree about the same number."""
    expected = [mean_absolute_difference(other, picture[:192]) for other in others]
    assert load_metric("pixel")(others, [picture[:192]] * 5).tolist() == expected


@pytest.mark.parametrize(("name", "side"), [("ssim", 10), ("ms-ssim", 160)])
def test_frames_too_small_are_refused(name, side) -> None:
    """Catches a window that silently shrinks, and an assertion from inside the package."""
    frame = flat(1, 2, 3, side=side)
    wide = np.zeros((side, 400, 3), np.uint8)
    for small in (frame, wide):
        with pytest.raises(UsageError, match=f"--metric {name} needs frames of at least {side + 1}x{side + 1} px"):
            load_metric(name)([small], [small])
    load_metric(name)([flat(1, 2, 3, side=side + 1)], [flat(1, 2, 4, side=side + 1)])


@pytest.mark.parametrize(
    "frame", [np.zeros((20, 20, 3)), np.zeros((20, 20, 4), np.uint8), np.zeros((20, 20), np.uint8)], ids=str
)
def test_other_arrays_are_refused(frame) -> None:
    """Catches floats of 0..1 taken for black, and alpha taken for a colour."""
    with pytest.raises(ValueError, match=r"a frame is uint8 \[H, W, 3\]"):
        load_metric("flip")([frame], [frame])


def test_unequal_pairs_are_refused() -> None:
    """Catches a broadcast over sizes or over the batch."""
    metric = load_metric("pixel")
    with pytest.raises(ValueError, match="its reference"):
        metric([np.zeros((20, 20, 3), np.uint8)], [np.zeros((20, 1, 3), np.uint8)])
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        metric([flat(1, 1, 1)] * 2, [flat(1, 1, 1)])


def test_no_frames_no_distances(metric) -> None:
    """Catches a stack of nothing."""
    assert metric([], []).shape == (0,)


def test_not_a_number_stops() -> None:
    """Catches damaged weights that fill a table with nan."""
    spec = METRICS["pixel"]
    metric = Metric(spec, list, lambda a, b: np.array([np.nan]))
    with pytest.raises(RunError, match="pixel gave a distance that is not a number"):
        metric([flat(1, 1, 1)], [flat(1, 1, 1)])


class Counting:
    """A metric of grey levels that keeps a record of what it was asked."""

    def __init__(self) -> None:
        self.prepared: list[list[int]] = []
        self.metric = Metric(MetricSpec("grey", "", 255, 1, ""), self.prepare, self.compare)

    def prepare(self, images: list[np.ndarray]) -> list[int]:
        self.prepared.append([int(image[0, 0, 0]) for image in images])
        return self.prepared[-1]

    def compare(self, images: list[int], references: list[int]) -> np.ndarray:
        return np.abs(np.subtract(images, references))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_scores_do_not_depend_on_the_batch(size) -> None:
    """Catches to_prev lost or taken wrongly across the border of two batches, and a frame that is prepared twice."""
    frames, counting = [flat(level, 0, 0, side=1) for level in (10, 14, 11, 11, 30)], Counting()
    rows = list(score(frames, flat(12, 0, 0, side=1), counting.metric, batch_size=size))
    assert rows == [Distance(2, None), Distance(2, 4), Distance(1, 3), Distance(1, 0), Distance(18, 19)]
    assert [level for batch in counting.prepared for level in batch] == [12, 10, 14, 11, 11, 30]
    assert max(map(len, counting.prepared)) <= size


def test_without_a_reference_the_first_frame_is_it() -> None:
    """Catches a reference that moves along with the batches, or is prepared once more."""
    counting = Counting()
    rows = score([flat(level, 0, 0, side=1) for level in (10, 14, 11)], None, counting.metric, batch_size=1)
    assert [row.to_ref for row in rows] == [0, 4, 1]
    assert counting.prepared == [[10], [14], [11]]


def test_thresholds_mean_the_same_change(metric, picture) -> None:
    """Catches a metric for which no run, or every run, counts as settled."""
    change = np.random.default_rng(0).choice([-1, 0, 0, 1], picture.shape)
    found = metric([np.clip(picture + change, 0, 255).astype(np.uint8)], [picture]).item()
    assert 0.8 < found / metric.spec.converged_below < 1.25


def test_frames_are_read_as_they_are_needed() -> None:
    """Catches a run of 10,000 frames held in memory."""
    read = []

    def frames():
        for level in range(100):
            read.append(level)
            yield flat(level, 0, 0, side=1)

    rows = score(frames(), None, Counting().metric, batch_size=4)
    next(rows)
    assert len(read) == 4


def test_summary_covers_the_last_ten() -> None:
    """Catches means over everything, the empty first row counted as 0, and a peak one row off."""
    rows = [Distance(0.9, None)] + [Distance(0.5, 0.8)] * 5 + [Distance(0.2, 0.004)] * 10
    found = summarize(rows, converged_below=0.01)
    assert (found.last, found.converged, found.peak_ref, found.peak_prev) == (10, True, 0, 1)
    assert (found.to_ref, found.to_prev) == pytest.approx((0.2, 0.004))
    assert summarize([Distance(0, None), Distance(0, 0.6)], converged_below=0.01).to_prev == 0.6


def test_one_frame_has_not_converged() -> None:
    """Catches a verdict from a row that measured nothing, and one at the threshold itself."""
    alone = summarize([Distance(0.3, None)], converged_below=0.01)
    assert (alone.to_prev, alone.peak_prev, alone.converged) == (None, None, False)
    assert not summarize([Distance(0, None), Distance(0, 0.01)], converged_below=0.01).converged
