"""A material as something that can be looked up: colour and bump slopes in one mip chain, sampled trilinearly."""

import numpy as np

CHANNELS = 5  # linear red, green, blue, then the slopes along u and v


class Texture:
    """One material, filtered for every distance.

    The levels lie one after the other in a flat array, so that a lookup can take a different level for every point.
    Convention: u runs along columns, v along rows, one unit is the whole texture, and it repeats.
    """

    def __init__(self, material, bump=1.0):
        level = _texels(material, bump)
        self._finest = len(level)
        levels = [level]
        while len(level) > 1:
            half = len(level) // 2
            level = level.reshape(half, 2, half, 2, CHANNELS).mean((1, 3))
            levels.append(level)
        self._sizes = np.array([len(level) for level in levels])
        self._offsets = np.concatenate([[0], np.cumsum(self._sizes**2)[:-1]])
        self._texels = np.concatenate([level.reshape(-1, CHANNELS) for level in levels])

    def __call__(self, u, v, footprint):
        """Texels [K, 5] at u, v [K]; `footprint` [K] is the width of a pixel in texture units and picks the levels."""
        detail = np.clip(np.log2(np.maximum(footprint * self._finest, 1e-6)), 0, len(self._sizes) - 1.001)
        level = detail.astype(np.int64)
        blend = (detail - level)[:, None].astype(np.float32)
        return self._bilinear(u, v, level) * (1 - blend) + self._bilinear(u, v, level + 1) * blend

    def _bilinear(self, u, v, level):
        """Texels [K, 5] at u, v [K] of the given level [K]; texel centres lie at half steps."""
        size, offset = self._sizes[level], self._offsets[level]
        x, y = u * size - 0.5, v * size - 0.5
        left, top = np.floor(x), np.floor(y)
        fx, fy = (x - left)[:, None].astype(np.float32), (y - top)[:, None].astype(np.float32)
        left, top = left.astype(np.int64) % size, top.astype(np.int64) % size
        right, bottom = (left + 1) % size, (top + 1) % size
        upper = self._texels[offset + top * size + left] * (1 - fx) + self._texels[offset + top * size + right] * fx
        lower = (
            self._texels[offset + bottom * size + left] * (1 - fx) + self._texels[offset + bottom * size + right] * fx
        )
        return upper * (1 - fy) + lower * fy


def _texels(material, bump):
    """The finest level, float32 [N, N, 5]. The power 1.6 stands in for the display curve; slopes are per texel."""
    height = material.height
    slope_u = (np.roll(height, -1, 1) - np.roll(height, 1, 1)) * bump * 2.0
    slope_v = (np.roll(height, -1, 0) - np.roll(height, 1, 0)) * bump * 2.0
    linear = np.clip(material.albedo, 0.01, 1.0) ** 1.6
    return np.concatenate([linear, slope_u[..., None], slope_v[..., None]], -1).astype(np.float32)
