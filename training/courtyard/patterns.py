"""Noise, ramps and masonry bonds: the arithmetic that the courtyard's materials are made of.

Knows nothing of light or of any particular material. Patterns are float32 [N, N] over the unit square, rows along v.
"""

import numpy as np


def rgb(red, green, blue):
    """A colour as float32 [3], so that mixing it with float32 patterns does not widen them."""
    return np.array((red, green, blue), np.float32)


def lerp(start, end, amount):
    """Linear mix: `start` at 0, `end` at 1."""
    return start + (end - start) * amount


def smoothstep(edge0, edge1, x):
    """Hermite ramp from 0 at `edge0` to 1 at `edge1`; a falling ramp when edge0 > edge1."""
    t = np.clip((x - edge0) / (edge1 - edge0), 0, 1)
    return t * t * (3 - 2 * t)


def unit_grid(size):
    """Texel coordinates (y, x), each float32 [size, size] in 0..1."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    return y, x


def spectral_noise(size, seed, beta=1.8, stretch=(1, 1)):
    """Periodic noise with amplitude spectrum 1 / f**beta, mean 0, deviation 1.

    `stretch` (y, x) multiplies the frequencies of an axis before the fall-off, which draws the noise out along the
    other axis: (1, 14) gives long streaks down the rows, as wood grain has.
    """
    rng = np.random.default_rng(seed)
    frequency_y = np.fft.fftfreq(size)[:, None] * size * stretch[0]
    frequency_x = np.fft.fftfreq(size)[None] * size * stretch[1]
    frequency = np.hypot(frequency_y, frequency_x)
    frequency[0, 0] = 1
    amplitude = frequency ** (-beta)
    amplitude[0, 0] = 0
    noise = np.fft.ifft2(amplitude * np.exp(2j * np.pi * rng.random((size, size)))).real
    noise -= noise.mean()
    return (noise / noise.std()).astype(np.float32)


def running_bond(size, columns, rows, joint, seed):
    """Stones in rows, every second row moved by half a stone, edges a little wavy.

    Returns (stone, random): `stone` [size, size] is 0 in the joints and 1 on the stones, with `joint` the width of a
    joint in texture units; `random` [size, size, 4] holds four numbers in 0..1 that are constant over each stone.
    """
    y, x = unit_grid(size)
    wave = spectral_noise(size, seed + 9, 2.0) * 0.0025
    v = (y + wave) * rows
    row = np.floor(v).astype(int) % rows
    u = (x + wave.T) * columns + 0.5 * (row % 2)
    column = np.floor(u).astype(int) % columns
    in_u, in_v = u - np.floor(u), v - np.floor(v)
    to_joint = np.minimum(np.minimum(in_u, 1 - in_u) / columns, np.minimum(in_v, 1 - in_v) / rows)
    random = np.random.default_rng(seed).random((rows, columns, 4)).astype(np.float32)[row, column]
    return smoothstep(joint * 0.5, joint * 1.5, to_joint), random
