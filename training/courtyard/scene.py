"""What stands in the courtyard, how it moves, where the sun is and how the camera goes through it.

Knows nothing of pixels. Convention: a pose takes local to world coordinates, world = rotation @ local + position; for
row vectors that is `local @ rotation.T + position`, and back `(world - position) @ rotation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from training.courtyard import materials
from training.courtyard.shapes import Box, Cylinder, Plane, Sphere
from training.courtyard.textures import Texture

SUN = np.array([-0.52, 0.66, -0.54])  # towards the sun, unit length after the next line
SUN /= np.linalg.norm(SUN)


class Pose(NamedTuple):
    """Where a thing is and how it is turned."""

    rotation: np.ndarray  # [3, 3]
    position: np.ndarray  # [3] m


def turn_x(angle):
    """Rotation about the x axis, radians."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def turn_y(angle):
    """Rotation about the y axis, radians."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def turn_z(angle):
    """Rotation about the z axis, radians."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


@dataclass(frozen=True)
class Body:
    """A shape with a texture at a place; its index in the scene is its object id."""

    shape: Plane | Sphere | Cylinder | Box
    texture: Texture
    pose_at: Callable[[float], Pose]  # of the time in seconds
    moving: bool = False
    gloss: float = 0.08  # strength of the sun's highlight

    @property
    def is_ground(self):
        return isinstance(self.shape, Plane)

    def hit(self, origin, ray, t):
        """Distance in m along world rays [..., 3] float32 from `origin` [3] or [..., 3]; inf where they miss."""
        rotation, position = self.pose_at(t)
        return self.shape.hit(((origin - position) @ rotation).astype(np.float32), ray @ rotation.astype(np.float32))


def still(x, y, z, rotation=None):
    """The pose of a thing that stays where it is."""
    pose = Pose(np.eye(3) if rotation is None else rotation, np.array([x, y, z], float))
    return lambda t: pose


def build_scene():
    """All bodies, in an order that is fixed because it gives the object ids."""
    textures = _textures()
    return [
        *_walls(textures),
        *_colonnades(textures["sandstone"]),
        *_still_life(textures),
        *_moving_things(textures),
    ]


def _textures():
    """Every texture of the scene by name."""
    return {
        "paving": Texture(materials.paving(), 1.1),
        "brick": Texture(materials.brick(), 1.1),
        "sandstone": Texture(materials.sandstone(), 0.8),
        "wood": Texture(materials.crate_wood(), 0.9),
        "marble": Texture(materials.veined_stone(41, (0.80, 0.78, 0.74), (0.16, 0.22, 0.34), 6), 0.5),
        "ball": Texture(materials.beach_ball(), 0.6),
        "jade": Texture(materials.veined_stone(71, (0.30, 0.62, 0.45), (0.05, 0.24, 0.18), 4), 0.5),
        "plaster": Texture(materials.plaster(), 0.9),
    }


def _walls(textures):
    """The ground and three walls, each with a sandstone coping."""
    brick, plaster, sandstone = textures["brick"], textures["plaster"], textures["sandstone"]
    return [
        Body(Plane(0.32), textures["paving"], still(0, 0, 0)),
        Body(Box((9, 2.6, 0.5), 0.36), brick, still(0, 2.6, 17)),
        Body(Box((9.3, 0.22, 0.75), 0.30), sandstone, still(0, 5.4, 17)),
        Body(Box((0.5, 1.9, 12), 0.30), plaster, still(-7.2, 1.9, 8)),
        Body(Box((0.7, 0.16, 12), 0.3), sandstone, still(-7.2, 3.95, 8)),
        Body(Box((0.5, 1.3, 12), 0.36), brick, still(7.4, 1.3, 8)),
        Body(Box((0.7, 0.14, 12), 0.3), sandstone, still(7.4, 2.74, 8)),
    ]


def _colonnades(sandstone):
    """Two rows of three columns with a beam on each."""
    places = [(x, z) for x in (-3.3, 3.3) for z in (4.0, 8.2, 12.4)]
    columns = [part for turn, (x, z) in enumerate(places) for part in _column(sandstone, x, z, turn)]
    beams = [Body(Box((0.55, 0.3, 5.2), 0.30), sandstone, still(x, 4.66, 8.2)) for x in (-3.3, 3.3)]
    return columns + beams


def _column(sandstone, x, z, turn):
    """Shaft, base and capital; the turn (radians) keeps the shafts from looking alike."""
    return [
        Body(Cylinder(0.42, 1.9, 0.40), sandstone, still(x, 1.9 + 0.3, z, turn_y(turn))),
        Body(Box((0.66, 0.16, 0.66), 0.30), sandstone, still(x, 0.16, z)),
        Body(Box((0.62, 0.16, 0.62), 0.30), sandstone, still(x, 4.2, z)),
    ]


def _still_life(textures):
    """Crates, and a marble ball on a drum."""
    wood = textures["wood"]
    return [
        Body(Box((0.55, 0.55, 0.55), None), wood, still(-1.9, 0.55, 7.0, turn_y(0.35))),
        Body(Box((0.45, 0.45, 0.45), None), wood, still(-1.75, 1.55, 7.0, turn_y(-0.5))),
        Body(Box((0.6, 0.6, 0.6), None), wood, still(4.9, 0.6, 6.2, turn_y(0.9))),
        Body(Sphere(1.0, 3), textures["marble"], still(0.2, 1.9, 11.5, turn_x(0.4)), gloss=0.25),
        Body(Cylinder(0.8, 0.45, 0.4), textures["sandstone"], still(0.2, 0.45, 11.5)),
    ]


def _moving_things(textures):
    """What makes motion that the camera does not explain."""
    return [
        Body(Sphere(0.55, 1), textures["ball"], rolling_ball, moving=True, gloss=0.35),
        Body(Box((0.42, 0.42, 0.42), None), textures["wood"], floating_crate, moving=True),
        Body(Sphere(0.40, 2), textures["jade"], orbiting_jade, moving=True, gloss=0.5),
    ]


def rolling_ball(t):
    """From right to left through the foreground at 2 m/s, turning as a ball that does not slip."""
    x = 2.6 - 2.0 * t
    return Pose(turn_z(-(x - 2.6) / 0.55) @ turn_y(0.3), np.array([x, 0.55, 5.4], float))


def floating_crate(t):
    """Turning in the air and bobbing."""
    rotation = turn_y(1.6 * t) @ turn_x(0.6) @ turn_z(0.6)
    return Pose(rotation, np.array([1.75, 1.75 + 0.22 * np.sin(2.4 * t), 7.6], float))


def orbiting_jade(t):
    """Around the marble ball, 2 m away from its axis."""
    a = 1.5 * t + 0.6
    position = np.array([0.2 + 2.0 * np.cos(a), 2.1 + 0.25 * np.sin(2 * a), 11.5 + 2.0 * np.sin(a)], float)
    return Pose(turn_y(-2 * a), position)


def camera_pose(t, seconds):
    """The camera at time t of a clip that lasts `seconds`: eased to the right, forward, panning left, bobbing a little.

    Convention: the camera looks along its own +z, x right, y up.
    """
    s = t / seconds
    eased = s * s * (3 - 2 * s)
    position = np.array([-1.75 + 2.9 * eased, 1.62 + 0.10 * np.sin(3 * t), -0.9 + 2.6 * s])
    yaw, pitch = 0.26 - 0.50 * eased, -0.035 + 0.02 * np.sin(1.7 * t)
    return Pose(turn_y(yaw) @ turn_x(-pitch), position)
