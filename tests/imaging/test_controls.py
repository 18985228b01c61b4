"""Passes without the model: what they return and what they do not touch."""

import numpy as np
import pytest

from dltb.imaging import PassSettings
from dltb.imaging.controls import make_identity, make_vae_round_trip


def test_identity_hands_the_input_on(picture):
    """Catches a control that changes what it should only pass on."""
    done = make_identity(PassSettings(fixed_seed=False, seed=5))([picture], 3)
    assert done.frame is picture
    assert (done.steps_run, done.seed) == (0, 8)


@pytest.mark.parametrize("model", ["tiny_turbo", "tiny_klein"])
def test_the_round_trip_is_the_vaes_own(model, picture, request):
    """Catches a wrong range, a missing half of the VAE, and noise that is drawn."""
    import torch

    pipe = request.getfixturevalue(model).pipe
    generate = make_vae_round_trip(pipe, PassSettings())
    frame = generate([picture], 1).frame
    assert np.array_equal(frame, generate([picture], 2).frame)
    pixels = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.inference_mode():
        by_hand = pipe.vae.decode(pipe.vae.encode(pixels).latent_dist.mode()).sample[0].permute(1, 2, 0)
    expected = ((by_hand / 2 + 0.5).clamp(0, 1) * 255).round().byte().numpy()
    assert np.abs(frame.astype(int) - expected).max() <= 1
    error = np.mean((frame.astype(float) - picture) ** 2)
    assert 10 * np.log10(255**2 / error) > 20


@pytest.mark.parametrize("model", ["sdxl-turbo", "flux2-klein-4b"])
def test_the_round_trip_leaves_the_pipeline_alone(model, random_model, small_picture):
    """Catches a lent pipeline whose VAE is float32 for the runs that follow."""
    import torch

    pipe = random_model(model).pipe
    pipe.vae.to(torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in pipe.vae.state_dict().items()}
    try:
        make_vae_round_trip(pipe, PassSettings())([small_picture], 1)
        after = pipe.vae.state_dict()
        assert {tensor.dtype for tensor in after.values()} == {tensor.dtype for tensor in before.values()}
        assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    finally:
        pipe.vae.to(torch.float32)
