"""Averaging two checkpoints."""

import torch

from training.leg import load_checkpoint, save_checkpoint
from training.mix import main


def test_share_is_that_of_the_second(tmp_path):
    """Catches the shares swapped, the notes lost (turbo's scale is one) and integer statistics averaged to fractions."""
    layers = [torch.nn.BatchNorm1d(2) for _ in range(2)]
    for value, layer in enumerate(layers):
        torch.nn.init.constant_(layer.weight, value)
        save_checkpoint(tmp_path / f"{value}.safetensors", {"layer": layer}, scale=1.5)
    main(
        [
            f"--first={tmp_path}/0.safetensors",
            f"--second={tmp_path}/1.safetensors",
            "--share=0.3",
            f"--out={tmp_path}/m",
        ]
    )
    assert load_checkpoint(tmp_path / "m", {"layer": layers[0]}) == {"scale": 1.5}
    torch.testing.assert_close(layers[0].weight.data, torch.full((2,), 0.3), atol=1e-3, rtol=0)
