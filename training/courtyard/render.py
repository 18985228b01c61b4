"""The renderer: an image at a time, and what is exactly true about its pixels."""

from dataclasses import dataclass

import numpy as np

from training.courtyard.camera import SKY, Camera
from training.courtyard.scene import build_scene, camera_pose
from training.courtyard.shading import Hits, Sky, shade, tone_map
from training.courtyard.shadow import shadow_map

FIELD_OF_VIEW = 62  # degrees across the width
SKY_DISTANCE = 1e4  # m; far enough that only the camera's rotation moves it


@dataclass(frozen=True)
class GroundTruth:
    """What is true at the centre of every pixel of one frame.

    Convention: `motion` is the position in the previous frame minus the position in this one, so a point seen at p was
    at p + motion(p). A flow with which p - flow(p) is fetched is therefore -motion.
    """

    motion: np.ndarray  # [H, W, 2] float32 px, (dx, dy)
    depth: np.ndarray  # [H, W] float32 m along the optical axis; the sky has SKY_DISTANCE
    object_id: np.ndarray  # [H, W] uint8, index of the body in the scene, 255 for the sky
    visible: np.ndarray  # [H, W] bool, the point could also be seen in the previous frame, inside its edges


class Renderer:
    """Renders the courtyard; building one paints all textures and takes a second or two.

    `width` and `height` are in px, `supersampling` is the number of rays along each side of a pixel, and `seconds` the
    length of the clip, over which the camera makes its move.
    """

    def __init__(self, width, height, supersampling, seconds):
        self.width, self.height = width, height
        self.supersampling = supersampling
        self.seconds = seconds
        self._focal = 0.5 * width / np.tan(np.radians(FIELD_OF_VIEW) / 2)
        self._bodies = build_scene()
        self._sky = Sky()
        self._still_shadows = shadow_map([body for body in self._bodies if not body.moving], 0)

    def frame(self, t):
        """The image at time t, float [H, W, 3], display values in 0..1."""
        camera = self._camera(t)
        rays = camera.rays(self.supersampling)
        distance, object_id = camera.trace(self._bodies, rays, t, self.supersampling)
        moving_shadows = shadow_map([body for body in self._bodies if body.moving], t)
        shadows = np.minimum(self._still_shadows, moving_shadows)
        pixel_angle = 1 / (self._focal * self.supersampling)
        light = np.zeros(rays.shape, np.float32)
        light[object_id == SKY] = self._sky(rays[object_id == SKY])
        for index, body in enumerate(self._bodies):
            seen = object_id == index
            if seen.any():
                hits = Hits(camera.pose.position, rays[seen], distance[seen], pixel_angle)
                light[seen] = shade(self._bodies, body, hits, t, shadows)
        return self._downsample(tone_map(light))

    def ground_truth(self, t, t_previous):
        """The truth about the frame at time t, seen from the one at t_previous; without antialiasing."""
        camera, previous = self._camera(t), self._camera(t_previous)
        rays = camera.rays(1)
        distance, object_id = camera.trace(self._bodies, rays, t, 1)
        was_at, depth = self._followed_back(camera, previous, rays, distance, object_id, t, t_previous)
        x, y, previous_depth = (a.reshape(object_id.shape) for a in previous.project(was_at.reshape(-1, 3)))
        row, column = np.mgrid[0 : self.height, 0 : self.width]
        motion = np.stack([x - column - 0.5, y - row - 0.5], -1)
        inside = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height) & (previous_depth > 0)
        return GroundTruth(
            motion=motion.astype(np.float32),
            depth=depth.astype(np.float32),
            object_id=object_id,
            visible=inside & self._unhidden(previous.pose.position, was_at, t_previous),
        )

    def _camera(self, t):
        return Camera(camera_pose(t, self.seconds), self.width, self.height, self._focal)

    def _downsample(self, image):
        """The mean of the rays of every pixel, [H * ss, W * ss, 3] to [H, W, 3]."""
        rays = self.supersampling
        return image.reshape(self.height, rays, self.width, rays, 3).mean((1, 3))

    def _followed_back(self, camera, previous, rays, distance, object_id, t, t_previous):
        """World positions [H, W, 3] at t_previous of the points seen at t, and their depth [H, W] at t, m."""
        was_at = previous.pose.position + rays * SKY_DISTANCE
        depth = np.full(object_id.shape, SKY_DISTANCE)
        for index, body in enumerate(self._bodies):
            seen = object_id == index
            if not seen.any():
                continue
            point = camera.pose.position + rays[seen].astype(float) * distance[seen][:, None]
            depth[seen] = (point - camera.pose.position) @ camera.pose.rotation[:, 2]
            now, then = body.pose_at(t), body.pose_at(t_previous)
            was_at[seen] = ((point - now.position) @ now.rotation) @ then.rotation.T + then.position
        return was_at, depth

    def _unhidden(self, eye, points, t):
        """Whether nothing lies between the eye [3] and the points [H, W, 3] at time t: bool [H, W], traced anew."""
        towards = points - eye
        length = np.linalg.norm(towards, axis=-1)
        rays = (towards / length[..., None]).astype(np.float32)
        unhidden = np.ones(length.shape, bool)
        for body in self._bodies:
            # The margin keeps a point from being hidden by its own surface.
            unhidden &= ~(body.hit(eye, rays, t) < length * 0.999 - 0.004)
        return unhidden
