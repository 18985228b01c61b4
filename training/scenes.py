"""What a loop shows a model: states that have been through it already, and second frames of the same scene.

`Rollouts` keeps pictures that went through the model a few times, with the originals they came from: training on
one's own outputs (DAgger, Ross et al. 2011) teaches a model to undo its own mistakes instead of adding to them.
"""

import torch
import torch.nn.functional as F

from training.data import pick, zoom
from training.edits import blur


class Rollouts:
    """Pool of states and their originals; `advance` puts all of them through the model once."""

    def __init__(self, pictures, capacity, rounds):
        self.pictures, self.most = pictures, rounds
        self.originals = self.fresh(capacity)
        self.states = self.originals.clone()
        self.rounds = torch.zeros(capacity, dtype=torch.long, device=self.originals.device)

    def fresh(self, count):
        return (self.pictures.sample(count) * 255).round().to(torch.uint8)

    @torch.no_grad()
    def advance(self, one_pass, batch):
        """`one_pass` maps pictures float [B, 3, H, W], 0..1 to the model's output for them."""
        for rows in torch.arange(len(self.rounds), device=self.rounds.device).split(batch):
            output = one_pass(self.states[rows].float() / 255)
            self.states[rows] = (output.clamp(0, 1) * 255).round().to(torch.uint8)
        self.rounds += 1
        leave = (self.rounds > self.most) | (torch.rand(len(self.rounds), device=self.rounds.device) < 0.1)
        rows = leave.nonzero().squeeze(1)
        if not len(rows):
            return
        self.originals[rows] = self.fresh(len(rows))
        self.states[rows] = self.originals[rows]
        self.rounds[rows] = 0

    def draw(self, count):
        """# originals, states: float [count, 3, H, W], 0..1"""
        rows = torch.randint(len(self.rounds), (count,), device=self.rounds.device)
        return self.originals[rows].float() / 255, self.states[rows].float() / 255


def shift(pictures, reach):
    """Move each picture by up to `reach` pixels, border mirrored, bilinear between pixels."""
    count, size = len(pictures), pictures.shape[-1]
    matrix = torch.eye(2, 3, device=pictures.device).repeat(count, 1, 1)
    matrix[:, :, 2] = (torch.rand(count, 2, device=pictures.device) * 2 - 1) * reach * 2 / size
    grid = F.affine_grid(matrix, list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def wear(states):
    """What warping and many passes do to a state: some blur, some grain, a slight cast."""
    states = pick(0.3, states, blur(states, 0.3 + 0.6 * float(torch.rand(()))))
    states = pick(0.2, states, states + 0.04 * float(torch.rand(())) * torch.randn_like(states))
    cast = 1 + 0.03 * torch.randn(len(states), 3, 1, 1, device=states.device)
    return pick(0.3, states, states * cast).clamp(0, 1)


def second_frames(scenes):
    """A second reference to go with each state: mostly the same scene moved, sometimes black or another scene."""
    draw = torch.rand(len(scenes), 1, 1, 1, device=scenes.device)
    frames = torch.where(draw < 0.45, shift(scenes, 32), scenes)
    frames = torch.where((draw >= 0.45) & (draw < 0.6), zoom(scenes), frames)
    frames = torch.where((draw >= 0.7) & (draw < 0.9), scenes.roll(1, 0), frames)
    return torch.where(draw >= 0.9, torch.zeros_like(scenes), frames).clamp(0, 1)
