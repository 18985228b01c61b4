"""What the prompts mean as image operations."""

from itertools import pairwise

import pytest
import torch

from training import edits
from training.data import dead_leaves


@pytest.fixture(scope="module")
def pictures():
    torch.manual_seed(0)
    return dead_leaves(4, size=128)


def test_ladder_detail_rises(pictures):
    """Catches two rungs of the prompt ladder swapped, or tuned until they no longer differ."""
    energies = [edits.detail_energy(edits.edit(pictures, prompt)).mean() for prompt in edits.LADDER]
    assert all(higher > 1.15 * lower for lower, higher in pairwise(energies))


def test_empty_prompt_changes_nothing(pictures):
    """Catches an edit under the empty prompt, which every pass of every loop would then repeat."""
    assert torch.equal(edits.edit(pictures, edits.NEUTRAL), pictures)


@pytest.mark.parametrize("prompt", edits.PROMPTS)
def test_edits_are_functions_of_the_picture(pictures, prompt):
    """Catches an edit with randomness of its own, one that mixes pictures of a batch, and one that leaves 0..1."""
    together = edits.edit(pictures, prompt)
    alone = torch.cat([edits.edit(picture[None], prompt) for picture in pictures])
    assert together.shape == pictures.shape
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    assert together.min() >= 0
    assert together.max() <= 1


@pytest.mark.parametrize("prompt", list(edits.STYLES))
def test_styles_can_be_told_from_neutral(pictures, prompt):
    """Catches a style so weak that a model which ignores the prompt would pass for following it."""
    change = (edits.edit(pictures, prompt) - pictures).square().mean()
    assert change > 10**-2.6  # under 26 dB to the picture itself


def test_weathering_turns_green_and_keeps_edges(pictures):
    """Catches a weathering that paints over the structure or shifts the wrong channel."""
    weathered = edits.edit(pictures, edits.WEATHERING)
    change = (weathered - pictures).mean((0, 2, 3))
    assert change[1] > change[0]
    assert change[1] > change[2]
    steps = [edits.luma(maps).diff(dim=3).flatten() for maps in (weathered, pictures)]
    assert torch.nn.functional.cosine_similarity(*steps, dim=0) > 0.7


def test_kuwahara_keeps_a_clean_edge():
    """Catches corner windows off by one: a straight step edge must come through exactly."""
    step = torch.zeros(1, 3, 32, 32)
    step[..., 16:] = 1
    torch.testing.assert_close(edits.oil(step), step)


def test_blur_keeps_the_mean_of_a_flat_picture():
    """Catches a kernel that does not sum to one, or zero padding at the border."""
    flat = torch.full((1, 3, 24, 24), 0.37)
    torch.testing.assert_close(edits.blur(flat, 2), flat)
