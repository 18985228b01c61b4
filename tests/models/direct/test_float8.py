"""Float8 linear layers: the quantising anywhere, the product on a card that has it."""

import pytest
import torch

from dltb.models.direct.float8 import Float8Linear, quantise_blocks, quantise_rows


def test_rows_are_scaled_one_by_one() -> None:
    """Catches one scale for all, under which a large row would erase a small one, and a zero row that turns to NaN."""
    values = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1e-3], [1.0], [1e3]])
    values = torch.cat([values, torch.zeros(1, 64)])
    packed, scale = quantise_rows(values)
    assert packed.dtype == torch.float8_e4m3fn
    restored = packed.float() * scale
    error = (restored - values).norm(dim=1) / values.norm(dim=1).clamp(min=1)
    assert error.max() < 0.04  # three bits of mantissa
    assert ((restored - values)[0].norm() / values[0].norm()) < 0.04
    assert not restored[3].any()


def test_the_largest_value_is_kept() -> None:
    """Catches an overflow to NaN at the edge of the format."""
    packed, scale = quantise_rows(torch.tensor([[1.0, -448.0, 3.0], [5e4, 1.0, 2.0]]))
    assert (packed.float() * scale)[:, :2].abs().amax(1).tolist() == pytest.approx([448, 5e4])


def test_only_the_blocks_of_a_transformer_are_replaced(checkpoint) -> None:
    """Catches embedders or the last projection being quantised, and layers that stay behind."""
    from dltb.models import MODELS, load_pipeline

    pipe = load_pipeline(MODELS["flux2-klein-4b"], weights=checkpoint("Flux2KleinPipeline"))
    count = quantise_blocks(pipe.transformer)
    found = [name for name, part in pipe.transformer.named_modules() if isinstance(part, Float8Linear)]
    assert len(found) == count > 4
    assert all(name.startswith(("transformer_blocks", "single_transformer_blocks")) for name in found)
    assert isinstance(pipe.transformer.proj_out, torch.nn.Linear)
    assert quantise_blocks(pipe.transformer) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_the_linear_layer(bias) -> None:
    """Catches a transposed weight, swapped scales and a lost bias."""
    torch.manual_seed(0)
    linear = torch.nn.Linear(256, 512, bias=bias, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(2, 33, 256, device="cuda", dtype=torch.bfloat16) * torch.rand(2, 33, 1, device="cuda").to(
        torch.bfloat16
    )
    with torch.no_grad():
        expected, found = linear(x), Float8Linear(linear)(x)
    assert found.shape == expected.shape
    assert ((found - expected).float().norm() / expected.float().norm()) < 0.05
