"""What a loop shows a model: states that have been through it many times, and second frames of the same scene.

`Rollouts` keeps runs of the loop, with the pictures they began from: training on one's own outputs (DAgger, Ross et
al. 2011) teaches a model to undo its own mistakes instead of adding to them.
"""

import torch
import torch.nn.functional as F

from training.data import pick, zoom
from training.edits import blur, relative_detail
from training.sheets import save_sheet
from training.vae import psnr

LOOK_AT = (1, 5, 10, 20, 50, 100, 200)  # passes of a free run
MOVING_SEEDS = 0.2  # share of the runs that get new noise for each pass


def stored(pictures):
    """As 8-bit pictures hold them; the gradient goes through unchanged."""
    return pictures + ((pictures * 255).round() / 255 - pictures).detach()


def one_pass(model, runs):
    """New states: what the model makes of the runs, as a picture file holds it.  # latents"""
    return model.latents.of(stored(model.output(runs)))


@torch.no_grad()
def free_run(model, runs, pictures, leg, name, passes=200):
    """Let held-out runs go on over their own output; log quality and detail on the way, and keep a sheet."""
    sheet = [pictures]
    for number in range(1, min(passes, LOOK_AT[-1]) + 1):
        if number in LOOK_AT:
            output = model.output(runs)
            apart = (output - output.roll(1, 0)).abs().mean() / (pictures - pictures.roll(1, 0)).abs().mean()
            quality = f"{psnr(output, pictures):.2f} dB to the input, detail x {relative_detail(output, pictures)}"
            leg.log(f"{name}, pass {number}: {quality}, distance between runs x {apart:.2f}")
            sheet.append(output)
        runs = runs | {"state": one_pass(model, runs)}
    save_sheet(leg.out / f"free-{name}.png", sheet, columns=16, width=96)


class Rollouts:
    """Pool of runs of the loop, each with its picture, its prompt and the noise of its seed.

    A tool keeps its seed, so the noise that a run sees is the same in every pass: what leaks of it into the output adds up
    until it is the picture. Only runs that live through many passes show that to the model.
    """

    def __init__(self, begin, capacity, count, most, lost):
        """`begin` gives `count` new runs: {"state", "target", "noise", ...: [count, ...]}, the first two in latents.

        A run ends after `most` passes, or once its squared error is `lost` times the variance of the picture.
        """
        self.begin, self.count, self.most, self.lost = begin, count, most, lost
        parts = [begin() for _ in range(max(1, capacity // count))]
        self.runs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        self.rounds = torch.zeros(len(self.runs["state"]), dtype=torch.long, device=self.runs["state"].device)
        self.spare, self.used, self.turn = begin(), 0, 0

    @torch.no_grad()
    def advance(self, model):
        """One pass for the next `count` runs; the finished ones make room."""
        rows = (torch.arange(self.count, device=self.rounds.device) + self.turn) % len(self.rounds)
        self.turn = (self.turn + self.count) % len(self.rounds)
        states = one_pass(model, {name: values[rows] for name, values in self.runs.items()})
        self.runs["state"][rows] = states.to(self.runs["state"].dtype)
        self.rounds[rows] += 1
        moving = rows[rows < len(self.rounds) * MOVING_SEEDS]
        self.runs["noise"][moving] = torch.randn_like(self.runs["noise"][moving])
        self.replace(rows[self.finished(rows)])

    def finished(self, rows):
        """Old runs, those that have lost their picture, and a few at random.  # bool [rows]"""
        states, targets = (self.runs[name][rows].float().flatten(1) for name in ("state", "target"))
        error = (states - targets).square().mean(1) / targets.var(1)
        old = self.rounds[rows] >= self.most
        chance = torch.rand(len(rows), device=rows.device) < 0.01
        return old | chance | ((self.rounds[rows] > 4) & (error > self.lost)) | ~error.isfinite()

    def replace(self, rows):
        if self.used + len(rows) > self.count:
            self.spare, self.used = self.begin(), 0
        for name, values in self.spare.items():
            self.runs[name][rows] = values[self.used : self.used + len(rows)]
        self.rounds[rows] = 0
        self.used += len(rows)

    def draw(self, count):
        """Some of the runs.  # {name: [count, ...]}"""
        rows = torch.randint(len(self.rounds), (count,), device=self.rounds.device)
        return {name: values[rows] for name, values in self.runs.items()}

    def ages(self):
        """For the log: median and greatest number of passes."""
        return f"{int(self.rounds.median())} passes, oldest {int(self.rounds.max())}"


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
    frames = torch.where(draw < 0.4, shift(scenes, 32), scenes)
    frames = torch.where((draw >= 0.4) & (draw < 0.5), zoom(scenes), frames)
    frames = torch.where((draw >= 0.6) & (draw < 0.8), scenes.roll(1, 0), frames)
    return torch.where(draw >= 0.8, torch.zeros_like(scenes), frames).clamp(0, 1)
