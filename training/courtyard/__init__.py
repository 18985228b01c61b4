"""The courtyard: a procedural clip with exact motion vectors, depth and visibility, rendered with numpy alone.

Every texture, object and camera move is generated here, so the clip is free of third-party material, and every pixel's
true motion is known, so flow, warp and disocclusion mask can be measured and not only looked at. This package knows
nothing of `dltb`.

    uv run python -m training.courtyard --out DIR --size 512 512 --frames 48 --fps 24 --ss 2

World units are metres, x right, y up, z away from the first camera; times are seconds from the start of the clip.
"""

from training.courtyard.render import GroundTruth, Renderer

__all__ = ["GroundTruth", "Renderer"]
