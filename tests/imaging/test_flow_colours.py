"""Colours of a flow."""

import numpy as np

from dltb.imaging.flow_colours import flow_colours, flow_wheel


def colour(dx, dy, largest=1.0):
    return tuple(flow_colours(np.full((1, 1, 2), (dx, dy), np.float32), largest)[0, 0])


def test_directions_and_strength():
    """Catches a wheel that turns the other way, starts elsewhere, or a still pixel that is not white."""
    assert colour(0, 0) == (255, 255, 255)
    assert colour(1, 0) == (255, 0, 0), "right is red"
    down, left, up = colour(0, 1), colour(-1, 0), colour(0, -1)
    assert min(down[:2]) > 180 > 60 > down[2], "down is yellow"
    assert left[0] < 60 < 120 < min(left[1:]), "left is cyan"
    assert up[2] > 200, "up is blue to violet"
    faint = colour(0.5, 0)
    assert faint[0] == 255
    assert 100 < faint[1] < 150
    assert colour(3, 0) == (191, 0, 0), "beyond the scale it is darkened"


def test_the_legend_is_the_flow_that_it_explains():
    """Catches a wheel that is mirrored against the flow."""
    wheel = flow_wheel(65)
    assert tuple(wheel[32, 64]) == (255, 0, 0)
    assert tuple(wheel[0, 0]) == (255, 255, 255)
    assert tuple(wheel[60, 32]) == tuple(flow_colours(np.array([[[0, 28 / 32]]], np.float32), 1.0)[0, 0])
