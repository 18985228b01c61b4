"""The fp8 profile: the linear layers of the transformer blocks in float8 e4m3, scaled row by row.

Weights are quantised once, one scale an output channel; activations on the fly, one scale a token. PyTorch's own scaled
matrix product does the rest, so no further package is needed. Embedders, modulations and the last projection stay.
"""

from typing import Any

import torch
from torch import nn

LARGEST = 448.0  # of float8 e4m3fn
BLOCKS = ("transformer_blocks", "single_transformer_blocks")


class Float8Linear(nn.Module):
    """y = x W^T + b with both factors in float8; takes and gives bfloat16 [..., features]."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight, scale = quantise_rows(linear.weight.detach())
        self.register_buffer("weight", weight)  # [out, in] float8
        self.register_buffer("scale", scale.t().contiguous())  # [1, out] float32
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, scale = quantise_rows(x.reshape(-1, self.in_features))
        y = torch._scaled_mm(
            rows,
            self.weight.t(),
            scale_a=scale,
            scale_b=self.scale,
            bias=self.bias,
            out_dtype=x.dtype,
            use_fast_accum=True,
        )
        return y.reshape(*x.shape[:-1], self.out_features)


def quantise_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[N, K] as float8 e4m3 and its scales [N, 1] float32: values = float8 * scale."""
    values = values.float()
    scale = values.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / LARGEST
    return (values / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def quantise_blocks(transformer: Any) -> int:
    """Replace the linear layers of the blocks in place and return how many were; sizes that fp8 cannot take stay."""
    count = 0
    for block in (block for name in BLOCKS for block in getattr(transformer, name)):
        for parent in list(block.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear) and child.in_features % 16 == child.out_features % 16 == 0:
                    setattr(parent, name, Float8Linear(child))
                    count += 1
    return count
