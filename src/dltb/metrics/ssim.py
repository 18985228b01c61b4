"""SSIM and MS-SSIM as distances: 1 minus the similarity, mean over the three channels.

Wang et al. 2004 and 2003 with their constants: a Gaussian window of 11 px, sigma 1.5; five halvings for MS-SSIM.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

WINDOW, SIGMA = 11, 1.5  # px
# Of one side of the pairs. A pixel is 24 bytes in each of about ten tensors; the CPU is fastest while they fit its caches.
PIXELS_AT_ONCE = {"cpu": 1 << 16, "cuda": 1 << 21}

Compare = Callable[[Sequence["torch.Tensor"], Sequence["torch.Tensor"]], np.ndarray]


def to_tensors(frames: Sequence[np.ndarray], device: str) -> list["torch.Tensor"]:  # float64 [3, H, W], 0..255
    """Frames on the device; on the CPU instead of MPS, which has no float64.

    The variances are differences of squares: in float32, flat frames are off by up to 1e-4.
    """
    import torch

    home = "cpu" if device == "mps" else device
    return [torch.from_numpy(np.array(frame)).to(home).permute(2, 0, 1).double() for frame in frames]


def make_ssim(*, multi_scale: bool) -> Compare:
    """A function from N tensors and N others to N distances."""
    import pytorch_msssim

    similarity = pytorch_msssim.ms_ssim if multi_scale else pytorch_msssim.ssim

    def compare(images: Sequence["torch.Tensor"], references: Sequence["torch.Tensor"]) -> np.ndarray:
        import torch

        window = _window().to(images[0])
        at_once = max(1, PIXELS_AT_ONCE[window.device.type] // images[0][0].numel())
        parts = []
        for start in range(0, len(images), at_once):
            pair = (torch.stack(list(side[start : start + at_once])) for side in (images, references))
            parts.append(1 - similarity(*pair, data_range=255, size_average=False, win=window).cpu().numpy())
        return np.concatenate(parts)

    return compare


def _window() -> "torch.Tensor":  # float64 [3, 1, 1, 11]
    """The Gaussian window of the papers; the package's own is float32, which leaves flat frames with a variance."""
    import torch

    offset = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    gauss = torch.exp(-(offset**2) / (2 * SIGMA**2))
    return (gauss / gauss.sum()).expand(3, 1, 1, WINDOW)
