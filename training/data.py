"""Pictures to train on: 256x256 crops of free photographs and textures, own renders, and procedural dead leaves.

The crops live outside the repository, in a folder with one `index.tsv` and a few `.npz` shards of WebP bytes;
`training/SOURCES.tsv` names the packages they come from with their licences, and `python -m training.prepare`
rebuilds them.

Held out: a picture belongs to the held-out set by the file it was cut from, never by crop, so no crop of a
held-out photograph is ever trained on. A collage of two files is held out as soon as one of them is. All frames of
one rendered scene count as one file.
"""

import csv
import hashlib
import io
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

HELD_OUT_ONE_IN = 14
HELD_OUT_CROPS_PER_SOURCE = 4


def scene_of(source):
    """The unit that is held out as a whole: the source file, or the scene of a rendered frame."""
    return source.rsplit("_", 1)[0] if source.startswith("render/") else source


def is_held_out(source):
    """Decide by a hash of the name, so that adding a source moves no other one across the split."""
    digests = [hashlib.sha256(scene_of(part).encode()).hexdigest() for part in source.split(" | ")]
    return any(int(digest[:8], 16) % HELD_OUT_ONE_IN == 0 for digest in digests)


def read_index(root):
    with (Path(root) / "index.tsv").open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def select(rows, held_out):
    """Rows of one side of the split; the held-out side takes at most a few crops of each source."""
    chosen, taken = [], {}
    for row in rows:
        if is_held_out(row["source"]) != held_out:
            continue
        taken[row["source"]] = taken.get(row["source"], 0) + 1
        if not held_out or taken[row["source"]] <= HELD_OUT_CROPS_PER_SOURCE:
            chosen.append(row)
    return chosen


def load_crops(root, held_out, size=256):
    """Crops of one side of the split.  # uint8 [N, 3, size, size], CPU"""
    shards, pictures = {}, []
    for row in select(read_index(root), held_out):
        if row["shard"] not in shards:
            shards[row["shard"]] = dict(np.load(Path(root) / f"{row['shard']}.npz"))
        shard, position = shards[row["shard"]], int(row["pos"])
        start, stop = shard["off"][position : position + 2]
        picture = Image.open(io.BytesIO(shard["blob"][start:stop].tobytes())).convert("RGB")
        pictures.append(np.asarray(picture.resize((size, size), Image.Resampling.BOX)))
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


def smooth_noise(count, size, device, octaves=5):
    """Noise with a falling spectrum, about unit range.  # float [count, 3, size, size]"""
    total = torch.zeros(count, 3, size, size, device=device)
    for octave in range(octaves):
        cells = min(2 ** (octave + 2), size)
        coarse = torch.randn(count, 3, cells, cells, device=device)
        total += F.interpolate(coarse, size=(size, size), mode="bicubic") / (octave + 1)
    return total / 2


def leaf_mask(count, size, device, round_shape):
    """One random ellipse or rectangle per picture.  # bool [count, size, size], gradient [count, size, size]"""
    rows, columns = torch.meshgrid(torch.arange(size, device=device), torch.arange(size, device=device), indexing="ij")
    centre = torch.rand(count, 2, 1, 1, device=device) * size
    radius = (torch.rand(count, 1, 1, device=device) ** 3 * 0.35 + 0.025) * size
    angle = torch.rand(count, 1, 1, device=device) * 2 * torch.pi
    aspect = torch.rand(count, 1, 1, device=device) + 0.4
    dx, dy = columns - centre[:, 0], rows - centre[:, 1]
    along = dx * angle.cos() + dy * angle.sin()
    across = (dy * angle.cos() - dx * angle.sin()) / aspect
    distance = (along**2 + across**2).sqrt() if round_shape else torch.maximum(along.abs(), across.abs())
    return distance < radius, along / radius


def dead_leaves(count, size=256, device="cpu", leaves=70):
    """Occluding shapes with flat, shaded or textured fill: the statistics of edges for nothing.

    Dead leaves model: Lee, Mumford and Huang 2001.  # float [count, 3, size, size], 0..1
    """
    picture = torch.rand(count, 3, 1, 1, device=device) + 0.3 * smooth_noise(count, size, device)
    for leaf in range(leaves):
        mask, gradient = leaf_mask(count, size, device, round_shape=leaf % 2 == 1)
        colour = torch.rand(count, 3, 1, 1, device=device)
        colour = colour + gradient.unsqueeze(1) / 6 * torch.randn(count, 1, 1, 1, device=device)
        if leaf % 7 == 0:
            colour = colour + 0.25 * smooth_noise(count, size, device, octaves=6)
        picture = torch.where(mask.unsqueeze(1), colour, picture)
    return picture.clamp(0, 1)


def zoom(pictures):
    """Random window of half to full width, turned by up to 10 degrees, stretched back to full size."""
    count, device = len(pictures), pictures.device
    scale = torch.rand(count, device=device) * 0.45 + 0.5
    angle = (torch.rand(count, device=device) - 0.5) * 0.35 * (0.95 - scale)
    shift = (torch.rand(count, 2, device=device) * 2 - 1) * (1 - scale).unsqueeze(1) * 0.9
    matrix = torch.zeros(count, 2, 3, device=device)
    matrix[:, 0, 0], matrix[:, 0, 1] = scale * angle.cos(), -scale * angle.sin()
    matrix[:, 1, 0], matrix[:, 1, 1] = scale * angle.sin(), scale * angle.cos()
    matrix[:, :, 2] = shift
    grid = F.affine_grid(matrix, list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, mode="bicubic", padding_mode="reflection", align_corners=False)


def mosaic(pictures):
    """Four pictures at half size side by side: finer texture than any single crop holds."""
    half = F.avg_pool2d(pictures, 2)
    parts = [half.roll(shift, 0) for shift in range(4)]
    return torch.cat([torch.cat(parts[:2], 3), torch.cat(parts[2:], 3)], 2)


def vary_colour(pictures):
    """Random contrast and offset per channel, mild."""
    gain = 1 + 0.12 * torch.randn(len(pictures), 3, 1, 1, device=pictures.device)
    offset = 0.05 * torch.randn(len(pictures), 3, 1, 1, device=pictures.device)
    return pictures * gain + offset


def pick(probability, pictures, other):
    """Per picture: `other` with this probability, else unchanged."""
    coin = torch.rand(len(pictures), 1, 1, 1, device=pictures.device) < probability
    return torch.where(coin, other, pictures)


def augment(pictures):
    """Flip, zoom, mosaic and colour, each for part of the batch; 4 in 10 stay pixel-exact up to a flip."""
    pictures = pick(0.5, pictures, pictures.flip(3))
    pictures = pick(0.15, pictures, pictures.flip(2))
    pictures = pick(0.45, pictures, zoom(pictures))
    pictures = pick(0.15, pictures, mosaic(pictures))
    return pick(0.5, pictures, vary_colour(pictures)).clamp(0, 1)


class Pictures:
    """Training pictures on the device; `sample` gives augmented batches."""

    def __init__(self, root, size, device, synthetic=3072):
        self.real = load_crops(root, held_out=False, size=size).to(device)
        batches = [dead_leaves(min(128, synthetic), size, device) for _ in range(max(1, synthetic // 128))]
        self.synthetic = torch.cat([(batch * 255).to(torch.uint8) for batch in batches])

    def sample(self, count, synthetic_share=0.15):
        """# float [count, 3, size, size], 0..1, on the device"""
        invented = int(count * synthetic_share)
        device = self.real.device
        rows = torch.randint(len(self.real), (count - invented,), device=device)
        leaves = torch.randint(len(self.synthetic), (invented,), device=device)
        return augment(torch.cat([self.real[rows], self.synthetic[leaves]]).float() / 255)
