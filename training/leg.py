"""One leg of training: a time budget, a schedule, averaged weights, a log and checkpoints.

A stage may be trained in several legs (`--resume`). What a leg hands on is its averaged weights in float16, small
enough to be carried anywhere; the optimiser starts afresh with a short warm-up, which costs a few hundred steps
and keeps a checkpoint as small as the model.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def arguments(description, **defaults):
    """Command line shared by the stages."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", required=True, help="folder with index.tsv and the shards")
    parser.add_argument("--out", required=True, help="folder for checkpoint, log and contact sheet")
    parser.add_argument("--minutes", type=float, default=8, help="wall clock of this leg, start-up included")
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps (0: by time)")
    parser.add_argument("--resume", help="checkpoint of an earlier leg")
    parser.add_argument("--span", type=float, nargs=2, default=(0, 1), help="part of the whole schedule in this leg")
    parser.add_argument("--size", type=int, default=256, help="pixels; other than 256 only for dry runs")
    parser.add_argument("--batch", type=int, default=defaults.get("batch", 32))
    parser.add_argument("--synthetic", type=int, default=3072, help="number of procedural pictures")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def set_up(seed):
    """Seed, fast float32 paths, device."""
    torch.manual_seed(seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def half_precision(device):
    """bfloat16 autocast on a GPU, float32 on the CPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


class Leg:
    """Clock, log and checkpoint of one leg."""

    def __init__(self, name, out, minutes, steps, span, save_every=100.0):
        self.name, self.out = name, Path(out)
        self.budget, self.most_steps, self.span = minutes * 60, steps, span
        self.started = self.saved = time.monotonic()
        self.loop_started, self.step, self.save_every = None, 0, save_every
        self.out.mkdir(parents=True, exist_ok=True)
        self.log_file = (self.out / f"{name}.log").open("a")

    def elapsed(self):
        return time.monotonic() - self.started

    def log(self, text):
        line = f"[{self.elapsed():6.1f}] {self.name} {text}"
        print(line, flush=True)
        self.log_file.write(line + "\n")
        self.log_file.flush()

    def running(self):
        """Count a step; False once the time or the steps are used up."""
        if self.loop_started is None:
            self.loop_started = self.elapsed()
        if self.most_steps and self.step >= self.most_steps:
            return False
        self.step += 1
        return bool(self.most_steps) or self.elapsed() < self.budget

    def progress(self):
        """Where this step lies in the schedule of the whole training, 0..1."""
        if self.most_steps:
            share = self.step / self.most_steps
        else:
            share = (self.elapsed() - (self.loop_started or 0)) / max(1.0, self.budget - (self.loop_started or 0))
        return self.span[0] + (self.span[1] - self.span[0]) * min(1.0, share)

    def learning_rate(self, peak, hold=0.4, warm_up=200):
        """Linear warm-up, constant until `hold`, then a cosine down to 2 % of the peak."""
        late = max(0.0, (self.progress() - hold) / (1 - hold))
        return peak * min(1.0, self.step / warm_up) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * late)))

    def due(self):
        """True every `save_every` seconds."""
        if time.monotonic() - self.saved < self.save_every:
            return False
        self.saved = time.monotonic()
        return True

    def save(self, modules, **notes):
        save_checkpoint(self.out / f"{self.name}.safetensors", modules, steps=self.step, **notes)

    def save_average(self, average, **notes):
        average.swap()
        self.save(average.modules, **notes)
        average.swap()


class Average:
    """Exponential moving average of the parameters (Polyak), kept beside the modules."""

    def __init__(self, modules, decay=0.999):
        self.modules, self.decay, self.count = modules, decay, 0
        self.shadow = {name: [p.detach().clone() for p in m.parameters()] for name, m in modules.items()}

    @torch.no_grad()
    def update(self):
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        for name, module in self.modules.items():
            torch._foreach_lerp_(self.shadow[name], [p.detach() for p in module.parameters()], 1 - decay)

    @torch.no_grad()
    def swap(self):
        """Exchange averaged and raw weights; call twice to get back."""
        for name, module in self.modules.items():
            for parameter, shadow in zip(module.parameters(), self.shadow[name], strict=True):
                raw = parameter.detach().clone()
                parameter.copy_(shadow)
                shadow.copy_(raw)


def step_optimiser(optimiser, loss, parameters, rate, clip=1.0):
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, clip)
    optimiser.step()


def half(tensor):
    kind = torch.float16 if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", kind).contiguous().clone()


def save_checkpoint(path, modules, **notes):
    """Weights of several modules in one float16 file, names prefixed; notes travel as JSON in its header."""
    tensors = {
        f"{name}/{key}": half(value) for name, module in modules.items() for key, value in module.state_dict().items()
    }
    scratch = path.with_suffix(".partial")
    save_file(tensors, scratch, metadata={key: json.dumps(value) for key, value in notes.items()})
    scratch.replace(path)


def load_checkpoint(path, modules):
    """Fill the modules from a checkpoint; gives the notes."""
    with safe_open(path, "pt") as stored:
        for name, module in modules.items():
            prefix = f"{name}/"
            keys = [key for key in stored.keys() if key.startswith(prefix)]  # noqa: SIM118
            module.load_state_dict({key.removeprefix(prefix): stored.get_tensor(key) for key in keys})
        return {key: json.loads(value) for key, value in stored.metadata().items()}
