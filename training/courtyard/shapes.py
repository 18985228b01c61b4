"""The four shapes of the courtyard in their own coordinates: where a ray meets them and how a texture lies on them.

Knows nothing of poses, light or scene. Every shape has
    half_extent             [3] m, half the size of its bounding box
    radius                  m, of a sphere around the origin that holds it
    hit(origin, ray)        distance along the ray, float32, inf where it misses; arrays [..., 3] float32, m
    surface(point)          a Surface for points [K, 3] float32 on the shape
    footprint_gap(point)    horizontal distance [K] m from the points to the ground below it, 0 inside

`density` is texture repeats per metre on flat parts and repeats per turn on a sphere.
"""

from typing import NamedTuple

import numpy as np

from training.courtyard.patterns import rgb

F = np.float32
NEAR = 1e-3  # m; hits closer than this are the surface that the ray starts from
FAR = 400  # m; the ground ends here


class Surface(NamedTuple):
    """The local frame and the texture coordinates of K points on a shape."""

    normal: np.ndarray  # [K, 3] float32, out of the shape, unit length
    tangent_u: np.ndarray  # [K, 3] float32, the direction in which u grows
    tangent_v: np.ndarray  # [K, 3] float32, the bump direction that goes with v
    u: np.ndarray  # [K] texture units
    v: np.ndarray  # [K] texture units
    metres_per_unit: float


def _rows(count, *vector):
    """One vector `count` times, float32 [count, 3]."""
    return np.tile(rgb(*vector), (count, 1))


def _around(normal):
    """The horizontal tangent of a round side, [K, 3]."""
    return np.stack([-normal[:, 2], np.zeros(len(normal), F), normal[:, 0]], 1)


class Plane:
    """The ground, y = 0."""

    radius = np.inf

    def __init__(self, density):
        self.density = density

    def hit(self, origin, ray):
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = -origin[..., 1] / ray[..., 1]
        return np.where((distance > NEAR) & (distance < FAR), distance, np.inf).astype(F)

    def surface(self, point):
        axes = (_rows(len(point), *axis) for axis in ((0, 1, 0), (1, 0, 0), (0, 0, 1)))
        return Surface(*axes, point[:, 0] * self.density, point[:, 2] * self.density, 1 / self.density)


class Sphere:
    """A ball around the origin; u runs around the y axis, v from the top to the bottom."""

    def __init__(self, radius, density):
        self.half_extent = np.full(3, float(radius))
        self.radius = self.half_extent[0]
        self.density = density

    def hit(self, origin, ray):
        b = (origin * ray).sum(-1)
        discriminant = b * b - ((origin * origin).sum(-1) - F(self.radius**2))
        distance = -b - np.sqrt(np.maximum(discriminant, 0))
        return np.where((discriminant > 0) & (distance > NEAR), distance, np.inf).astype(F)

    def surface(self, point):
        normal = point / F(self.radius)
        u = np.arctan2(normal[:, 2], normal[:, 0]) / (2 * np.pi)
        v = np.arccos(np.clip(normal[:, 1], -1, 1)) / np.pi
        tangent = _around(normal)
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True) + 1e-6
        metres = 2 * np.pi * self.radius / self.density
        return Surface(normal, tangent, np.cross(tangent, normal), u * self.density, v * self.density * 0.5, metres)

    def footprint_gap(self, point):
        # A ball touches the ground in a point; a third of its radius is where it is still close to it.
        return np.maximum(np.hypot(point[:, 0], point[:, 2]) - self.radius * 0.35, 0)


class Cylinder:
    """An upright drum around the origin with flat ends, `half_height` up and down."""

    def __init__(self, radius, half_height, density):
        self.half_extent = np.array([radius, half_height, radius], float)
        self.radius = np.hypot(radius, half_height)
        self.density = density

    def hit(self, origin, ray):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.minimum(self._hit_side(origin, ray), self._hit_end(origin, ray)).astype(F)

    def _hit_side(self, origin, ray):
        round_radius, half_height = F(self.half_extent[0]), F(self.half_extent[1])
        a = ray[..., 0] ** 2 + ray[..., 2] ** 2
        b = origin[..., 0] * ray[..., 0] + origin[..., 2] * ray[..., 2]
        c = origin[..., 0] ** 2 + origin[..., 2] ** 2 - round_radius * round_radius
        discriminant = b * b - a * c
        distance = (-b - np.sqrt(np.maximum(discriminant, 0))) / a
        y = origin[..., 1] + distance * ray[..., 1]
        return np.where((discriminant > 0) & (distance > NEAR) & (np.abs(y) < half_height), distance, np.inf)

    def _hit_end(self, origin, ray):
        round_radius, half_height = F(self.half_extent[0]), F(self.half_extent[1])
        distance = (np.sign(origin[..., 1]) * half_height - origin[..., 1]) / ray[..., 1]
        x, z = origin[..., 0] + distance * ray[..., 0], origin[..., 2] + distance * ray[..., 2]
        on_end = (x * x + z * z < round_radius * round_radius) & (np.abs(origin[..., 1]) > half_height)
        return np.where((distance > NEAR) & on_end, distance, np.inf)

    def surface(self, point):
        x, y, z = point.T
        side = np.abs(y) < self.half_extent[1] * 0.9995
        normal = np.stack([x, np.zeros(len(point), F), z], 1) / F(self.half_extent[0])
        normal[~side] = np.stack([0 * x, np.sign(y), 0 * x], 1)[~side]
        tangent_u, tangent_v = _around(normal), _rows(len(point), 0, -1, 0)
        tangent_u[~side], tangent_v[~side] = rgb(1, 0, 0), rgb(0, 0, 1)
        # A whole number of repeats around, so that the texture closes without a seam.
        repeats = np.round(2 * np.pi * self.half_extent[0] * self.density) or 1
        u = np.where(side, np.arctan2(z, x) / (2 * np.pi) * repeats, x * self.density)
        v = np.where(side, -y, z) * self.density
        return Surface(normal, tangent_u, tangent_v, u, v, 1 / self.density)

    def footprint_gap(self, point):
        return np.maximum(np.hypot(point[:, 0], point[:, 2]) - self.half_extent[0], 0)


class Box:
    """A cuboid around the origin; `density` None fits the texture to every face once."""

    def __init__(self, half_extent, density):
        self.half_extent = np.array(half_extent, float)
        self.radius = np.linalg.norm(self.half_extent)
        self.density = density

    def hit(self, origin, ray):
        half_extent = self.half_extent.astype(F)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / ray
            low, high = (-half_extent - origin) * inverse, (half_extent - origin) * inverse
        enter, leave = np.minimum(low, high).max(-1), np.maximum(low, high).min(-1)
        return np.where((leave > enter) & (enter > NEAR), enter, np.inf).astype(F)

    def surface(self, point):
        every = np.arange(len(point))
        axis = (np.abs(point) / self.half_extent.astype(F)).argmax(1)  # of the face that the point lies on
        axis_u, axis_v = np.array([2, 0, 0])[axis], np.array([1, 2, 1])[axis]
        normal, tangent_u, tangent_v = (np.zeros((len(point), 3), F) for _ in range(3))
        normal[every, axis] = np.sign(point[every, axis])
        tangent_u[every, axis_u] = 1
        tangent_v[every, axis_v] = -1
        along_u, along_v = point[every, axis_u], -point[every, axis_v]
        if self.density is not None:
            u, v, metres = along_u * self.density, along_v * self.density, 1 / self.density
        else:
            u = along_u / (2 * self.half_extent[axis_u]) + 0.5
            v = along_v / (2 * self.half_extent[axis_v]) + 0.5
            metres = float(2 * self.half_extent.mean())
        return Surface(normal, tangent_u, tangent_v, u, v, metres)

    def footprint_gap(self, point):
        beyond_x = np.maximum(np.abs(point[:, 0]) - self.half_extent[0], 0)
        beyond_z = np.maximum(np.abs(point[:, 2]) - self.half_extent[2], 0)
        return np.hypot(beyond_x, beyond_z)
