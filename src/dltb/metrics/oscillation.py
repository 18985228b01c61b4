"""Whether a series keeps a period, and which. Knows neither plateaus nor verdicts."""

from typing import NamedTuple

import numpy as np

from dltb.metrics.estimators import polynomial, winsorize

CYCLES = 3  # fewer are not told from wandering
HARMONICS = 3
LAST_PARTS = (1, 0.8, 2 / 3, 0.5, 0.4)  # of the series: a transient may come first
SHORTEST = 12  # samples


class Oscillation(NamedTuple):
    """The strongest period of a stretch of a series."""

    period: float  # samples
    amplitude: float  # of a sinusoid of the same power
    noise: float  # standard deviation of what is left
    predicted: (
        float  # share of the variance of either half that the other half's fit explains; below 0 is worse than none
    )


def find_oscillation(x: np.ndarray, floor: float) -> Oscillation | None:
    """The oscillation that the series ends in, or None. `floor` is the smallest amplitude that matters, halved."""
    ends = [x[len(x) - int(part * len(x)) :] for part in LAST_PARTS]
    found = [(strongest_period(end), len(end)) for end in ends if len(end) >= SHORTEST]
    real = [one for one, samples in found if one and is_real(one, samples, floor) and goes_on(one, x)]
    return max(real, key=lambda one: one.predicted, default=None)


def strongest_period(x: np.ndarray) -> Oscillation | None:
    """The peak of the periodogram (Hann window, fourfold zero padding) and the fit of its sinusoid with harmonics."""
    n = len(x)
    y = winsorize(x)
    y = y - polynomial(y, 2)
    power = np.abs(np.fft.rfft(y * np.hanning(n), 4 * n)) ** 2
    frequencies = np.fft.rfftfreq(4 * n)
    power[frequencies < CYCLES / n] = 0
    if power.max() <= 0:
        return None
    frequency = frequencies[np.argmax(power)]
    waves = sinusoids(frequency, n)
    fitted = waves @ least_squares(waves, y)
    predicted = cross_prediction(waves, y)
    return Oscillation(1 / frequency, float(np.sqrt(2) * fitted.std()), float((y - fitted).std()), predicted)


def sinusoids(frequency: float, n: int) -> np.ndarray:
    """Cosine and sine of a frequency (cycles per sample) and its harmonics up to Nyquist's, as columns."""
    phases = 2 * np.pi * frequency * np.arange(n)
    orders = [k for k in range(1, HARMONICS + 1) if k * frequency <= 0.5]
    cosines = [np.cos(k * phases) for k in orders]
    sines = [np.sin(k * phases) for k in orders if k * frequency < 0.5]
    return np.stack(cosines + sines, axis=1)


def least_squares(waves: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients of the columns, by the normal equations: a few sinusoids are far from collinear, and it is fast."""
    return np.linalg.pinv(waves.T @ waves, hermitian=True) @ (waves.T @ y)


def cross_prediction(waves: np.ndarray, y: np.ndarray) -> float:
    """Two-fold cross-validation in time: a period that holds predicts the other half, chance and wandering do not."""
    half = len(y) // 2
    first, last = slice(None, half), slice(half, None)
    shares = []
    for known, unknown in ((first, last), (last, first)):
        fit = least_squares(waves[known], y[known])
        power = np.mean(y[unknown] ** 2)
        shares.append(1 - np.mean((y[unknown] - waves[unknown] @ fit) ** 2) / power if power > 0 else 0)
    return float(np.mean(shares))


def is_real(found: Oscillation, samples: int, floor: float) -> bool:
    """Beyond the noise, beyond the floor, and predictable beyond what few samples or few cycles give by chance."""
    by_chance = 0.15 + 6 / samples + 1.2 * found.period / samples
    return found.predicted > by_chance and found.amplitude > max(found.noise, 2 * floor)


def goes_on(found: Oscillation, x: np.ndarray) -> bool:
    """Whether the last third still oscillates with half the amplitude: one that dies out is a transient."""
    end = winsorize(x[-max(len(x) // 3, int((CYCLES + 0.2) * found.period), SHORTEST) :])
    end = end - polynomial(end, 1)
    waves = sinusoids(1 / found.period, len(end))
    fitted = waves @ least_squares(waves, end)
    return bool(np.sqrt(2) * fitted.std() > 0.5 * found.amplitude)
