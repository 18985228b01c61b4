"""The colour of what a ray meets: sky, sun, ambient light, contact shadows, highlight, haze, and the tone curve.

Knows nothing of images: it works on K rays at a time. Light is linear until `tone_map`.
"""

from dataclasses import dataclass

import numpy as np

from training.courtyard import materials
from training.courtyard.patterns import lerp, rgb, smoothstep
from training.courtyard.scene import SUN
from training.courtyard.shadow import sunlight
from training.courtyard.textures import Texture

SUN32 = SUN.astype(np.float32)
SUN_COLOUR = rgb(3.1, 2.6, 1.9)
HIGHLIGHT_COLOUR = rgb(1, 0.9, 0.75)
HAZE_COLOUR = rgb(0.70, 0.70, 0.70)


@dataclass(frozen=True)
class Hits:
    """K rays that have met one body."""

    origin: np.ndarray  # [3] m
    rays: np.ndarray  # [K, 3] float32, unit length
    distance: np.ndarray  # [K] float32 m
    pixel_angle: float  # width of a (sub)pixel at a distance of 1 m, in m

    @property
    def points(self):
        """World positions, [K, 3] m."""
        return self.origin + self.rays * self.distance[:, None]


class Sky:
    """A blue gradient with clouds on a flat layer and a glow around the sun."""

    def __init__(self):
        self._clouds = Texture(materials.clouds())

    def __call__(self, rays):
        """Linear colour [K, 3] in world directions [K, 3] float32."""
        up = np.clip(rays[:, 1], 0, 1)[:, None]
        colour = lerp(rgb(0.78, 0.76, 0.72), rgb(0.16, 0.36, 0.78), np.clip(up * 1.6, 0, 1) ** 0.6)
        towards_sun = np.clip(rays @ SUN32, 0, 1)[:, None]
        reach = 1 / np.maximum(rays[:, 1], 0.04)  # to the layer; bounded, as it grows without end at the horizon
        u, v = rays[:, 0] * reach * 0.10 + 0.3, rays[:, 2] * reach * 0.10
        cover = self._clouds(u, v, np.minimum(reach * reach * 0.0003, 0.05))[:, :1]
        cover = cover * smoothstep(0.02, 0.18, rays[:, 1])[:, None]
        return lerp(colour, rgb(0.98, 0.95, 0.92), cover * 0.85) + rgb(1, 0.8, 0.5) * (towards_sun**40 * 0.3)


def shade(bodies, body, hits, t, shadows):
    """Linear colour [K, 3] of the points where rays met `body` at time t; `shadows` is the map of all bodies."""
    points = hits.points
    albedo, normal, face = _surface(body, hits, points, t)
    sun = sunlight(shadows, points + face * 0.03)
    diffuse = np.clip(normal @ SUN32, 0, 1) * (face @ SUN32 > 0) * sun
    open_sky = _ground_openness(bodies, points, t) if body.is_ground else _openness(points, face)
    ambient = lerp(rgb(0.20, 0.17, 0.14), rgb(0.34, 0.41, 0.54), (normal[:, 1:2] * 0.5 + 0.5))
    bounce = rgb(0.16, 0.12, 0.08) * np.clip(0.6 - normal[:, 1:2] * 0.6, 0, 1)
    light = ambient * open_sky[:, None] + bounce * open_sky[:, None] + SUN_COLOUR * diffuse[:, None]
    highlight = _highlight(normal, hits.rays) * body.gloss * 3 * sun
    haze = (1 - np.exp(-np.maximum(hits.distance - 4, 0) / 70))[:, None]
    return lerp(albedo * light + HIGHLIGHT_COLOUR * highlight[:, None], HAZE_COLOUR, haze)


def _surface(body, hits, points, t):
    """Albedo, bumped normal and normal of the face, each [K, 3], the normals in world directions."""
    rotation, position = body.pose_at(t)
    into_world = rotation.T.astype(np.float32)
    surface = body.shape.surface(((points - position) @ rotation).astype(np.float32))
    rays = hits.rays @ rotation.astype(np.float32)
    facing = np.clip(-(rays * surface.normal).sum(1), 0.06, 1)
    footprint = hits.distance * hits.pixel_angle / surface.metres_per_unit / np.sqrt(facing)
    texels = body.texture(surface.u, surface.v, footprint)
    fade = np.clip(1.3 - hits.distance / 26, 0.25, 1)[:, None]  # far relief would only flicker
    normal = surface.normal - (surface.tangent_u * texels[:, 3:4] + surface.tangent_v * texels[:, 4:5]) * fade
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return texels[:, :3], normal @ into_world, surface.normal @ into_world


def _openness(points, face):
    """How much of the sky upright faces see, [K]: less just above the ground."""
    return 1 - 0.45 * np.exp(-np.maximum(points[:, 1], 0) / 0.35).astype(np.float32) * (np.abs(face[:, 1]) < 0.5)


def _ground_openness(bodies, points, t):
    """How much of the sky the ground sees, float32 [K]: less beside and below bodies that stand on or near it."""
    openness = np.ones(len(points), np.float32)
    for body in bodies:
        if body.is_ground:
            continue
        rotation, position = body.pose_at(t)
        clearance = position[1] - body.shape.half_extent[1]
        if clearance > 0.8:
            continue
        gap = body.shape.footprint_gap((points - position) @ rotation)
        openness *= 1 - 0.55 * np.exp(-gap / 0.28) * np.exp(-max(clearance, 0) * 2)
    return openness


def _highlight(normal, rays):
    """Blinn's highlight of the sun, [K] in 0..1."""
    half_way = SUN32 - rays
    half_way /= np.linalg.norm(half_way, axis=1, keepdims=True)
    return np.clip((normal * half_way).sum(1), 0, 1) ** 48


def tone_map(light):
    """Linear light [..., 3] to display values 0..1: exposure, a little saturation, Narkowicz's ACES fit, gamma 2.2."""
    x = light * 0.62
    x = np.maximum(lerp(x.mean(-1, keepdims=True), x, 1.12), 0)
    x = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)
    return np.clip(x, 0, 1) ** (1 / 2.2)
