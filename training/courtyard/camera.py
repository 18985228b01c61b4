"""A pinhole camera: rays out of it, points onto its image, and the tracing of bodies along its rays.

Convention: pixel coordinates are continuous, x right, y down, (0, 0) is the outer corner of the first pixel and its
centre is (0.5, 0.5).
"""

import itertools
from dataclasses import dataclass

import numpy as np

from training.courtyard.scene import Pose

SKY = 255  # object id where no body is hit
_CORNERS = np.array(list(itertools.product((-1, 1), repeat=3)))  # [8, 3]


@dataclass(frozen=True)
class Camera:
    """A camera at one moment."""

    pose: Pose
    width: int  # px
    height: int  # px
    focal: float  # px

    def rays(self, supersampling):
        """Unit world directions, float32 [height * ss, width * ss, 3], through the centres of the (sub)pixels."""
        rows, columns = self.height * supersampling, self.width * supersampling
        x = (np.arange(columns) + 0.5) / supersampling - self.width / 2
        y = (np.arange(rows) + 0.5) / supersampling - self.height / 2
        local = np.empty((rows, columns, 3), np.float32)
        local[..., 0] = x[None] / self.focal
        local[..., 1] = -y[:, None] / self.focal
        local[..., 2] = 1
        rays = local @ self.pose.rotation.T.astype(np.float32)
        return rays / np.linalg.norm(rays, axis=-1, keepdims=True)

    def project(self, points):
        """World points [K, 3] to pixel coordinates x, y and depth, each [K]; x, y mean nothing where depth <= 0."""
        local = (points - self.pose.position) @ self.pose.rotation
        depth = local[:, 2]
        divisor = np.maximum(depth, 1e-3)
        x = local[:, 0] / divisor * self.focal + self.width / 2
        y = -local[:, 1] / divisor * self.focal + self.height / 2
        return x, y, depth

    def trace(self, bodies, rays, t, supersampling):
        """The nearest body along every ray: distance [H, W] float32 m (inf: none) and object id [H, W] (SKY: none)."""
        distance = np.full(rays.shape[:2], np.inf, np.float32)
        object_id = np.full(rays.shape[:2], SKY, np.uint8)
        for index, body in enumerate(bodies):
            window = self._window(body, t, supersampling)
            if window is None:
                continue
            found = body.hit(self.pose.position, rays[window], t)
            nearer = found < distance[window]
            distance[window][nearer] = found[nearer]
            object_id[window][nearer] = index
        return distance, object_id

    def _window(self, body, t, supersampling):
        """The part of the image that can show a body, as two slices; None when it cannot be seen."""
        whole = slice(None), slice(None)
        if body.is_ground:
            return whole
        rotation, position = body.pose_at(t)
        centre_depth = ((position - self.pose.position) @ self.pose.rotation)[2]
        if centre_depth < -body.shape.radius:
            return None
        if centre_depth <= body.shape.radius * 1.05:
            return whole
        x, y, depth = self.project((_CORNERS * body.shape.half_extent) @ rotation.T + position)
        if depth.min() <= 0.05:
            return whole  # a corner beside or behind the camera has no useful projection
        columns = _pixel_range(x, self.width, supersampling)
        rows = _pixel_range(y, self.height, supersampling)
        return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None


def _pixel_range(coordinates, size, supersampling):
    """The slice of (sub)pixels that covers the coordinates, with a pixel to spare, cut to the image."""
    first = int(max(0, (coordinates.min() - 1) * supersampling))
    last = int(min(size * supersampling, (coordinates.max() + 1) * supersampling + 1))
    return slice(first, max(last, 0))
