"""Robust statistics against answers by hand, against processes whose answer is known, and against scipy."""

import numpy as np
import pytest

from dltb.metrics.estimators import (
    block_means,
    median_absolute_deviation,
    relative_noise,
    running_median,
    slow_share,
    statistical_inefficiency,
    theil_sen,
    without_spikes,
    zigzag,
)
from tests.metrics.corpus import ar1

RNG = np.random.default_rng(5)


def test_mad_is_scaled_to_the_standard_deviation() -> None:
    """Catches the unscaled MAD, and one around the mean."""
    assert median_absolute_deviation(np.array([1.0, 2, 3, 4, 1000])) == pytest.approx(1.4826)
    assert median_absolute_deviation(3 * RNG.standard_normal(20_000)) == pytest.approx(3, rel=0.03)


def test_running_median_keeps_a_step_and_drops_a_spike() -> None:
    """Catches a mean instead of a median, and a window that is off by one."""
    step = np.repeat([0.0, 1.0], 20)
    assert np.array_equal(running_median(step, 7), step)
    spike = np.zeros(40)
    spike[20:23] = 9
    assert not running_median(spike, 7).any()
    assert running_median(spike, 5).any()
    assert np.array_equal(running_median(np.array([1.0, 2, 9]), 7), [2, 2, 2])


def test_spikes_of_three_samples_go_and_a_fast_start_stays() -> None:
    """Catches a filter that takes a transient, or a square wave, for spikes."""
    x = 0.01 * RNG.standard_normal(200)
    x[50:53] += 1
    assert np.abs(without_spikes(x)).max() < 0.1
    x[0] = 5
    assert without_spikes(x)[0] == 5
    square = np.where(np.arange(200) % 10 < 2, 1.0, 0) + 0.001 * RNG.standard_normal(200)
    assert np.array_equal(without_spikes(square), square)


def test_theil_sen_by_hand() -> None:
    """Catches a slope per block instead of per sample, a wrong sign, and one outlier bending the line."""
    line = 0.25 * np.arange(600) + 3
    assert theil_sen(line).per_sample == pytest.approx(0.25)
    assert theil_sen(-line).per_sample == pytest.approx(-0.25)
    assert theil_sen(-line).z < -5
    line[50] = 1e6
    assert theil_sen(line[:100]).per_sample == pytest.approx(0.25, rel=0.01)


def test_theil_sen_agrees_with_scipy() -> None:
    """Catches a wrong median over pairs and a wrong variance of the Mann-Kendall statistic."""
    stats = pytest.importorskip("scipy.stats")
    x = 0.02 * np.arange(80) + RNG.standard_normal(80)
    found = theil_sen(x)
    assert found.per_sample == pytest.approx(stats.theilslopes(x)[0])
    tau = stats.kendalltau(np.arange(80), x)
    pairs = 80 * 79 / 2
    rest = x - found.per_sample * np.arange(80)
    expected = tau.statistic * pairs / np.sqrt(80 * 79 * 165 / 18 * statistical_inefficiency(rest))
    assert found.z == pytest.approx(expected)


def test_mann_kendall_is_calm_about_autocorrelated_noise() -> None:
    """Catches the test without its correction, which finds trends in most correlated noise."""
    found = [abs(theil_sen(ar1(RNG, 150, 0.8)).z) > 2.6 for _ in range(200)]
    assert np.mean(found) < 0.12


@pytest.mark.parametrize(("phi", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)])
def test_statistical_inefficiency_of_an_autoregression(phi: float, expected: float) -> None:
    """Catches tau without the factor 2, and a sum that runs into the noise: g = (1 + phi) / (1 - phi)."""
    found = np.median([statistical_inefficiency(ar1(RNG, 4000, phi)) for _ in range(20)])
    assert found == pytest.approx(expected, rel=0.15)


def test_statistical_inefficiency_has_a_floor() -> None:
    """Catches g below 1 from an alternating series, and a division by a variance of 0."""
    assert statistical_inefficiency(np.tile([0.0, 1.0], 20)) == 1
    assert statistical_inefficiency(np.ones(20)) == 1
    assert statistical_inefficiency(np.ones(21)) == 1


def test_slow_share_is_a_share() -> None:
    """Catches a wrong normalisation of the cosines: a slow cosine is 1, white noise the share of the orders."""
    t = (np.arange(400) + 0.5) / 400
    assert slow_share(np.cos(3 * np.pi * t)) == pytest.approx(1)
    assert slow_share(np.cos(100 * np.pi * t)) == pytest.approx(0, abs=1e-9)
    assert np.mean([slow_share(RNG.standard_normal(400)) for _ in range(100)]) == pytest.approx(8 / 400, rel=0.3)
    assert slow_share(np.ones(50)) == 0


def test_relative_noise_sees_noise_and_not_slopes() -> None:
    """Catches a transient's slope counted as noise, which widened the band until the transient was inside."""
    x = np.concatenate((np.linspace(50, 0, 200), np.zeros(200))) + 0.1 * RNG.standard_normal(400)
    assert relative_noise(x, 50, 200).max() < 2
    x[:200] += 0.3 * RNG.standard_normal(200)
    assert 2 < np.median(relative_noise(x, 50, 200)[:150]) < 5
    assert np.array_equal(relative_noise(np.ones(40), 10, 20), np.ones(40))


def test_zigzag_by_hand() -> None:
    """Catches turns that are too small, a first leg counted as a turn, and the wrong end of a leg."""
    path = np.array([0.0, 3, 2.5, 5, 1, 1.5, 0.5, 4, 4.2])
    assert zigzag(path, np.full(9, 2.0)) == [3, 6]
    assert zigzag(-path, np.full(9, 2.0)) == [3, 6]
    assert zigzag(path, np.full(9, 9.0)) == []
    assert zigzag(np.arange(5.0), np.zeros(5)) == []


def test_block_means_leave_out_the_oldest() -> None:
    """Catches the newest samples being dropped."""
    means, size = block_means(np.arange(7.0), 3)
    assert (means.tolist(), size) == ([2, 5], 3)
