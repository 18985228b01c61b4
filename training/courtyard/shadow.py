"""Shadows of the sun: a map of the nearest body along parallel rays, and soft lookups in it.

Knows nothing of cameras or colours. A map is float32 [RESOLUTION, RESOLUTION], metres from the sun's plane; maps of
several sets of bodies are joined with `np.minimum`, so still bodies need to be traced only once.
"""

import numpy as np

from training.courtyard.scene import SUN

RESOLUTION = 1536  # texels on a side
HALF_WIDTH = 13.0  # m that the map reaches to each side of its centre
CENTRE = np.array([0, 1.5, 8.0])  # m, the middle of the courtyard
PLANE_DISTANCE = 30  # m from the centre to the plane that the rays start from
BIAS = 0.07  # m that a body must be nearer to the sun to throw a shadow; hides the steps of the map
TEXELS_PER_METRE = RESOLUTION / (2 * HALF_WIDTH)


def _light_basis():
    """Columns: the map's x and y direction and the direction in which the light goes."""
    forward = -SUN
    x = np.cross([0, 1, 0], forward)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(forward, x), forward], 1)


BASIS = _light_basis()


def shadow_map(bodies, t):
    """The map of some bodies at time t; inf where the light meets none of them. The ground throws no shadow."""
    depths = np.full((RESOLUTION, RESOLUTION), np.inf, np.float32)
    for body in bodies:
        if body.is_ground:
            continue
        centre = (body.pose_at(t).position - CENTRE) @ BASIS
        columns, rows = (_texel_range(centre[axis], body.shape.radius) for axis in (0, 1))
        if len(columns) == 0 or len(rows) == 0:
            continue
        part = depths[rows.start : rows.stop, columns.start : columns.stop]
        np.minimum(part, _light_distance(body, columns, rows, t), out=part)
    return depths


def _texel_range(centre, radius):
    """The texels along one axis that a body of this radius can reach."""
    ends = ((centre + side * radius + HALF_WIDTH) * TEXELS_PER_METRE for side in (-1, 1))
    return range(*(int(np.clip(end, 0, RESOLUTION)) for end in ends))


def _light_distance(body, columns, rows, t):
    """Distance [rows, columns] from the sun's plane to the body."""
    x = (np.asarray(columns) + 0.5) / TEXELS_PER_METRE - HALF_WIDTH
    y = (np.asarray(rows) + 0.5) / TEXELS_PER_METRE - HALF_WIDTH
    start = CENTRE + x[None, :, None] * BASIS[:, 0] + y[:, None, None] * BASIS[:, 1] - PLANE_DISTANCE * BASIS[:, 2]
    return body.hit(start, np.broadcast_to(BASIS[:, 2].astype(np.float32), start.shape), t)


def sunlight(depths, points):
    """How much of the sun reaches world points [K, 3]: float32 [K], 0 in shadow, 1 in the light.

    The mean of a box of 3 x 3 texels around the exact position: 4 x 4 lookups, the outer ones weighted by how much of
    them the box covers.
    """
    in_light = (points - CENTRE) @ BASIS
    x = (in_light[:, 0] + HALF_WIDTH) * TEXELS_PER_METRE - 0.5
    y = (in_light[:, 1] + HALF_WIDTH) * TEXELS_PER_METRE - 0.5
    needed = (in_light[:, 2] + PLANE_DISTANCE - BIAS).astype(np.float32)
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    weights_x, weights_y = (_tap_weights((a - i).astype(np.float32)) for a, i in ((x, column), (y, row)))
    total = np.zeros(len(points), np.float32)
    for dy, weight_y in weights_y.items():
        for dx, weight_x in weights_x.items():
            tap = depths[np.clip(row + dy, 0, RESOLUTION - 1), np.clip(column + dx, 0, RESOLUTION - 1)]
            total += (tap > needed) * weight_y * weight_x
    return total / 9


def _tap_weights(fraction):
    """Offset of a tap -> its share of a box three texels wide that lies `fraction` texels off the grid."""
    return {-1: 1 - fraction, 0: 1.0, 1: 1.0, 2: fraction}
