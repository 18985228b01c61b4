"""RAFT, the optical flow network of Teed and Deng (2020), through torchvision and weights that are already here.

Nothing is downloaded: the weights are torchvision's own file in the torch hub cache.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from dltb import UsageError

WEIGHTS = "raft_large_C_T_SKHT_V2-ff5fadd5.pth"  # torchvision's name for Raft_Large_Weights.C_T_SKHT_V2
SMALLEST = 128  # px: the coarsest of its four correlation levels would be empty below
STRIDE = 8  # px: of its feature maps


def weights_file() -> Path:
    """Where the weights must lie.

    Raises:
        UsageError: when torchvision or the file is missing; checked without loading either.
    """
    import importlib.util

    if importlib.util.find_spec("torchvision") is None:
        raise UsageError("--flow raft needs torchvision, which is not installed; take --flow dis")
    from torch.hub import get_dir

    path = Path(get_dir()) / "checkpoints" / WEIGHTS
    if not path.is_file():
        raise UsageError(
            f"--flow raft needs its weights at {path}; they are not there and are not downloaded: run "
            "python -c \"import torchvision.models.optical_flow as f; f.raft_large(weights='DEFAULT')\" once, or take "
            "--flow dis"
        )
    return path


def _where(device: str) -> str:
    """What rounds: the libraries and the device; on the CPU its threads decide the order of sums."""
    import torch
    import torchvision

    on = torch.cuda.get_device_name(device) if device == "cuda" else f"{torch.get_num_threads()} threads"
    return f"torch {torch.__version__} torchvision {torchvision.__version__} {device} {on}"


class Raft:
    """``raft(start, end)``: motion [H, W, 2] float32 px between two frames, uint8 RGB [H, W, 3]."""

    def __init__(self, device: str) -> None:
        import torch
        from torchvision.models.optical_flow import raft_large

        path = weights_file()
        self._net = raft_large(weights=None)
        try:
            self._net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"{path} is damaged or another network's ({reason}); delete it and fetch it again"
            ) from None
        self._net.eval().to(device)
        self._device = device
        self.identity = f"raft {hashlib.sha256(path.read_bytes()).hexdigest()} {_where(device)}"

    def __call__(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        import torch

        height, width = start.shape[:2]
        with torch.inference_mode():
            flow = self._net(self._tensor(start), self._tensor(end))[-1][0]
        return np.ascontiguousarray(flow[:, :height, :width].permute(1, 2, 0).float().cpu().numpy())

    def _tensor(self, frame: np.ndarray) -> Any:
        """[1, 3, H, W] float32, -1..1, grown at the right and bottom to a size that the network takes."""
        import torch

        height, width = (max(SMALLEST, -(-side // STRIDE) * STRIDE) for side in frame.shape[:2])
        grown = np.pad(frame, ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)), "edge")
        return torch.from_numpy(grown).to(self._device).permute(2, 0, 1)[None].float() / 127.5 - 1
