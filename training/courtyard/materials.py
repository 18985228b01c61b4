"""The courtyard's materials: each function paints one square texture and returns a Material.

Knows nothing of shapes or of how a texture is sampled. The seeds are part of the look: another seed is another stone.
"""

from typing import NamedTuple

import numpy as np

from training.courtyard.patterns import lerp, rgb, running_bond, smoothstep, spectral_noise, unit_grid

SIZE = 512  # texels on a side; a power of two, as the mip chain halves it down to one


class Material(NamedTuple):
    """A painted surface."""

    albedo: np.ndarray  # [N, N, 3] display values, about 0..1 (the texture clips them)
    height: np.ndarray  # [N, N] relief; the texture's bump factor gives it its depth


def speckle(amount, noise):
    """A factor around 1 for colours, [N, N, 1], from `noise` [N, N]."""
    return 1 + amount * noise[..., None]


def paving():
    """Worn flagstones with moss in the joints and hollows."""
    stone, random = running_bond(SIZE, 4, 4, 0.008, 1)
    grit, cloud, damp = (spectral_noise(SIZE, seed, beta) for seed, beta in ((2, 1.4), (3, 2.2), (4, 2.0)))
    colour = lerp(rgb(0.50, 0.44, 0.36), rgb(0.62, 0.55, 0.45), random[..., :1]) * lerp(0.82, 1.1, random[..., 1:2])
    colour = colour * (1 + 0.08 * grit[..., None] + 0.07 * cloud[..., None])
    colour = colour * lerp(0.38, 1, stone[..., None])
    moss = smoothstep(0.5, 1.6, damp + 1.3 * (1 - stone) + 0.3 * grit)[..., None]
    colour = lerp(colour, rgb(0.20, 0.27, 0.10) * speckle(0.25, grit), moss * 0.75)
    return Material(colour, stone * 0.7 + 0.09 * grit + 0.15 * random[..., 2] - 0.05 * cloud)


def brick():
    """Red brick, some burnt dark, with pale mortar and rain stains."""
    stone, random = running_bond(SIZE, 6, 12, 0.0075, 11)
    grit, stain = spectral_noise(SIZE, 12, 1.3), spectral_noise(SIZE, 13, 2.3)
    fired = lerp(rgb(0.50, 0.20, 0.12), rgb(0.66, 0.34, 0.20), random[..., :1])
    fired = lerp(fired, rgb(0.34, 0.19, 0.15), smoothstep(0.75, 0.95, random[..., 1:2]))
    fired = fired * (1 + 0.12 * grit[..., None] + 0.08 * stain[..., None])
    colour = lerp(rgb(0.52, 0.48, 0.43) * speckle(0.08, grit), fired, stone[..., None])
    colour = colour * lerp(1, 0.65, smoothstep(0.9, 2.2, stain)[..., None])
    return Material(colour, stone * 0.9 + 0.10 * grit)


def sandstone():
    """Large dressed blocks with faint horizontal bedding."""
    stone, random = running_bond(SIZE, 2, 5, 0.005, 21)
    grit, bedding = spectral_noise(SIZE, 22, 1.3), spectral_noise(SIZE, 23, 2.0, stretch=(3, 1))
    colour = lerp(rgb(0.74, 0.64, 0.47), rgb(0.84, 0.75, 0.58), random[..., :1])
    colour = colour * (1 + 0.06 * grit[..., None] + 0.07 * bedding[..., None])
    colour *= lerp(0.55, 1, stone[..., None])
    return Material(colour, stone * 0.7 + 0.10 * grit + 0.05 * bedding)


def crate_wood():
    """One side of a crate: five planks, a frame with a diagonal brace, a nail in each corner."""
    y, x = unit_grid(SIZE)
    grain = spectral_noise(SIZE, 31, 1.6, stretch=(1, 14))
    growth = spectral_noise(SIZE, 32, 2.2, stretch=(1, 5))
    to_edge = np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
    brace = smoothstep(0.075, 0.065, np.abs(x - y) / 1.41)
    frame = np.maximum(smoothstep(0.115, 0.105, to_edge), brace)
    planks, plank_relief = _planks(y, grain, growth)
    frame_tone = smoothstep(-1.5, 1.5, grain.T + 0.5 * growth.T)[..., None]
    colour = lerp(planks, lerp(rgb(0.30, 0.17, 0.08), rgb(0.46, 0.29, 0.14), frame_tone), frame[..., None])
    colour *= lerp(0.5, 1, smoothstep(0, 0.012, np.abs(to_edge - 0.11)))[..., None]
    return Material(_nailed(colour, y, x), frame * 0.8 + 0.12 * grain + 0.4 * plank_relief)


def _planks(y, grain, growth):
    """Five horizontal planks: colour [N, N, 3], and relief [N, N] from 0 in the gaps to 1 on the wood."""
    plank = np.floor(y * 5).astype(int)
    across = y * 5 - plank
    relief = smoothstep(0.0, 0.07, np.minimum(across, 1 - across))
    brightness = np.random.default_rng(33).random(5).astype(np.float32)[np.clip(plank, 0, 4)]
    tone = smoothstep(-1.5, 1.5, grain + 0.8 * growth)[..., None]
    colour = lerp(rgb(0.38, 0.22, 0.10), rgb(0.60, 0.40, 0.20), tone) * lerp(0.8, 1.15, brightness[..., None])
    return colour * lerp(0.35, 1, relief[..., None]), relief


def _nailed(colour, y, x):
    """The colour with a dark nail head in each corner."""
    for nail_x in (0.055, 0.945):
        for nail_y in (0.055, 0.945):
            head = smoothstep(0.022, 0.016, np.hypot(x - nail_x, y - nail_y))[..., None]
            colour = lerp(colour, rgb(0.16, 0.16, 0.17), head)
    return colour


def veined_stone(seed, ground, vein, veins):
    """Marble: `ground` and `vein` colours, diagonal veins bent by noise."""
    bend, grit = spectral_noise(SIZE, seed, 2.1), spectral_noise(SIZE, seed + 1, 1.6)
    y, x = unit_grid(SIZE)
    away_from_vein = np.abs(np.sin(np.pi * veins * (x + y) + 2.2 * bend))
    colour = lerp(rgb(*vein), rgb(*ground), (away_from_vein**0.5)[..., None]) * speckle(0.05, grit)
    return Material(colour, 0.05 * grit)


def beach_ball():
    """Eight gores in four colours with dark seams and pale caps; u runs around, v from pole to pole."""
    y, x = unit_grid(SIZE)
    gore = np.floor(x * 8).astype(int) % 4
    palette = [(0.82, 0.10, 0.08), (0.92, 0.88, 0.80), (0.08, 0.28, 0.62), (0.95, 0.68, 0.10)]
    colour = np.array(palette, np.float32)[gore]
    cap = np.abs(y - 0.5) > 0.42
    colour = np.where(cap[..., None], rgb(0.9, 0.88, 0.82), colour)
    across = x * 8 - np.floor(x * 8)
    to_seam = np.minimum(across, 1 - across)
    colour = colour * lerp(0.45, 1, smoothstep(0.0, 0.03, to_seam))[..., None]
    grit = spectral_noise(SIZE, 51, 1.5)
    return Material(colour * speckle(0.05, grit), 0.03 * grit + 0.3 * smoothstep(0, 0.04, to_seam))


def plaster():
    """Old plaster that has come off in patches and shows the brick below."""
    grit, wear = spectral_noise(SIZE, 61, 1.5), spectral_noise(SIZE, 62, 2.3)
    coat = rgb(0.62, 0.66, 0.62) * (1 + 0.05 * grit[..., None] + 0.12 * wear[..., None])
    stone, random = running_bond(SIZE, 6, 12, 0.0075, 63)
    bare = smoothstep(0.7, 1.0, wear + 0.25 * grit)[..., None]
    bricks = lerp(rgb(0.50, 0.22, 0.14), rgb(0.62, 0.34, 0.22), random[..., :1])
    bricks = bricks * lerp(0.6, 1, stone[..., None]) * speckle(0.1, grit)
    height = 0.1 * grit - 0.5 * bare[..., 0] + 0.3 * bare[..., 0] * stone
    return Material(lerp(coat, bricks, bare), height)


def clouds():
    """Cloud cover for the sky: the same 0..1 in all three channels, flat."""
    noise = spectral_noise(SIZE, 81, 1.75)
    cover = np.repeat(smoothstep(-0.1, 1.2, noise)[..., None], 3, 2)
    return Material(cover, noise * 0)
