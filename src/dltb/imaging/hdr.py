"""HDR to SDR for PQ and HLG video: BT.2020 light to sRGB values.

Signal -> display light (PQ: SMPTE ST 2084; HLG: BT.2100 inverse OETF and the OOTF of a 1000 cd/m2 display) -> 1.0 at
the reference white of BT.2408 (203 cd/m2) -> BT.709 primaries -> highlights rolled off -> sRGB curve. The roll-off is
the Moebius curve of ffmpeg's tonemap filter: the identity below the knee, so that skin and sky keep their brightness,
then smooth up to the peak. One fixed peak serves all files: per-scene metadata is not read, so brightness never pumps.
"""

import functools

import numpy as np

# ITU-T H.273 transfer characteristics.
PQ, HLG = 16, 18

_REFERENCE_WHITE = 203.0  # cd/m2
_PEAK = 1000.0 / _REFERENCE_WHITE
_KNEE = 0.3
_HLG_SYSTEM_GAMMA = 1.2

# BT.2087: linear BT.2020 -> linear BT.709.
_TO_BT709 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    dtype=np.float32,
)
_LUMINANCE_BT2020 = np.array([0.2627, 0.6780, 0.0593], dtype=np.float32)


def tone_map(signal: np.ndarray, transfer: int) -> np.ndarray:
    """uint16 [H, W, 3] R'G'B' of BT.2020, full range, PQ or HLG -> uint8 [H, W, 3] sRGB."""
    light = _light_table(transfer)[signal]
    if transfer == HLG:
        luminance = light @ _LUMINANCE_BT2020
        light *= (np.maximum(luminance, 1e-6) ** (_HLG_SYSTEM_GAMMA - 1))[..., None] * _PEAK
    light = np.maximum(light @ _TO_BT709.T, 0)
    # One factor for the three channels keeps the hue of what is rolled off.
    brightest = np.maximum(light.max(axis=-1, keepdims=True), 1e-6)
    light *= _moebius(brightest) / brightest
    return _srgb_table()[np.round(np.clip(light, 0, 1) * 65535).astype(np.uint16)]


@functools.cache
def _light_table(transfer: int) -> np.ndarray:  # float32 [65536]; PQ: 1 = reference white, HLG: scene light 0..1
    signal = np.arange(65536) / 65535
    return (_pq_light(signal) if transfer == PQ else _hlg_scene_light(signal)).astype(np.float32)


def _pq_light(signal: np.ndarray) -> np.ndarray:
    """SMPTE ST 2084, equation 4.1, clipped at the peak."""
    m1, m2, c1, c2, c3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128
    root = signal ** (1 / m2)
    nits = 10_000 * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1)
    return np.minimum(nits / _REFERENCE_WHITE, _PEAK)


def _hlg_scene_light(signal: np.ndarray) -> np.ndarray:
    """BT.2100 table 5, inverse OETF."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)


def _moebius(light: np.ndarray) -> np.ndarray:
    """ffmpeg's vf_tonemap `mobius`: identity up to the knee, 1.0 at the peak, one smooth curve between."""
    knee, peak = _KNEE, _PEAK
    a = -knee * knee * (peak - 1) / (knee * knee - 2 * knee + peak)
    b = (knee * knee - 2 * knee * peak + peak) / (peak - 1)
    rolled = (b * b + 2 * b * knee + knee * knee) / (b - a) * (light + a) / (light + b)
    return np.where(light <= knee, light, rolled)


@functools.cache
def _srgb_table() -> np.ndarray:  # uint8 [65536], indexed by linear light
    light = np.arange(65536) / 65535
    curve = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.round(255 * curve).astype(np.uint8)
