"""Contact sheets: rows of pictures pasted into one PNG."""

import numpy as np
import torch
from PIL import Image


def to_bytes(pictures):
    """# float [B, 3, H, W], 0..1 -> uint8 [B, H, W, 3]"""
    return (pictures.clamp(0, 1).float() * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()


def save_sheet(path, rows, columns=8, width=160):
    """Each row holds pictures of one kind; every picture is scaled to `width` pixels."""
    stripes = []
    for row in rows:
        tiles = [Image.fromarray(tile).resize((width, width), Image.Resampling.BOX) for tile in to_bytes(row[:columns])]
        stripes.append(np.concatenate([np.asarray(tile) for tile in tiles], axis=1))
    Image.fromarray(np.concatenate(stripes, axis=0)).save(path, optimize=True)
