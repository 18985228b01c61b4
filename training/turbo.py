"""Train tiny-turbo: img2img in few steps, one of which runs at strength 0.4.

    python -m training.turbo --data untracked/train256 --vae untracked/legs/vae.safetensors --out untracked/legs --minutes 8

Noise is added to the picture as it is, and the answer is the picture as the prompt wants it (noise prediction, loss on
the clean latents). A model trained on pairs of the edited picture with itself would see the edit in its input
already and would not need the prompt. Six in ten of the noise levels drawn are those of the four-step schedule.

A quarter of each batch are runs of the model over its own output, up to ROLLOUT_ROUNDS passes old, each with the noise
of its own seed (`scenes.Rollouts`). From there they go on for UNROLL passes, decoded and encoded between
them, and all of these shall give what the prompt makes of the original.

The later part of the schedule works against the blur of a squared error, on decoded crops: the energy in three
frequency bands must match the target's, region by region, and a patch discriminator must not tell them apart.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from training import networks
from training.data import Pictures, load_crops
from training.edits import PROMPTS, blur, draw_prompt, edit, luma, relative_detail
from training.leg import Average, Leg, arguments, half_precision, load_checkpoint, set_up, step_optimiser
from training.scenes import Rollouts, free_run, stored
from training.sheets import save_sheet
from training.vae import decode, encode, load_vae, psnr

PEAK_RATE = 1e-3
CHUNK = 64  # pictures edited with the same prompt
SCHEDULE = (249, 499, 749, 999)  # time steps of four trailing steps; strength 0.4 runs the first
ROLLOUT_ROUNDS = 200
ROLLOUT_SHARE = 0.25  # of the batch
ROLLOUT_LOST = 0.5  # squared error over variance
ROLLOUT_EVERY = 2  # steps between two passes of some runs
ROLLOUT_CAPACITY = 4  # in units of the runs of a batch
ROLLOUT_NEUTRAL = 0.5  # share of the runs with the empty prompt
ROLLOUTS_FROM = 0.1  # progress
UNROLL = 4  # passes with a gradient
HOLD_WEIGHT = 1.0  # of the runs against the fresh examples
SHARPEN_FROM = 0.4  # progress
SHARPEN_CROP = 16  # latents
SHARPEN_SHARE = 0.2  # of the batch, half of it runs
DEVIATION = 3.0  # of the scaled latents; 26.6 dB of a picture then survive strength 0.4 (Wiener, latent by latent)
BANK_SECONDS = 60


class Latents:
    """Pictures <-> scaled latents, as the pipeline makes them."""

    def __init__(self, vae, scale):
        self.vae, self.scale = vae, scale

    def of(self, pictures):
        """# float [B, 3, H, W] -> [B, C, H/8, W/8]"""
        with half_precision(pictures.device):
            return encode(self.vae, pictures).float() * self.scale

    def back(self, latents):
        with half_precision(latents.device):
            return decode(self.vae, latents / self.scale).float()


class Painter:
    """UNet and text encoder with everything needed to call them as the pipeline does."""

    def __init__(self, modules, tokenizer, latents, device):
        self.modules, self.latents, self.device = modules, latents, device
        settings = {"padding": "max_length", "truncation": True, "max_length": networks.TURBO_TOKENS}
        self.ids = tokenizer(list(PROMPTS), return_tensors="pt", **settings)["input_ids"].to(device)
        self.alphas = networks.alphas_cumulative(device)
        self.fast = modules["unet"]
        if device.type == "cuda":
            self.fast = torch.compile(modules["unet"], dynamic=False)

    def noisy(self, latents, times, noise):
        alpha = self.alphas[times].view(-1, 1, 1, 1)
        return alpha.sqrt() * latents + (1 - alpha).sqrt() * noise

    def clean(self, noisy, times, prompt_rows, unet=None):
        """The network's estimate of the clean latents."""
        unet = self.modules["unet"] if unet is None else unet
        alpha = self.alphas[times].view(-1, 1, 1, 1)
        unique, inverse = prompt_rows.unique(return_inverse=True)
        if torch.is_grad_enabled() and not noisy.requires_grad:
            noisy.requires_grad_()  # as in later passes: compiled code is for one kind of input
        with half_precision(self.device):
            text = self.modules["text_encoder"](self.ids[unique])[0][inverse]
            noise = unet(noisy, times, encoder_hidden_states=text, return_dict=False)[0]
        return (noisy - (1 - alpha).sqrt() * noise.float()) / alpha.sqrt()

    @torch.no_grad()
    def paint(self, latents, noise, prompt_rows, steps_run=1):
        """img2img on the four-step schedule, Euler; 1 step run is strength 0.4, 3 are 0.8.  # pictures"""
        times = list(SCHEDULE[:steps_run])[::-1]
        state = self.noisy(latents, torch.full((len(latents),), times[0], device=self.device), noise)
        for position, time in enumerate(times):
            now = torch.full((len(latents),), time, device=self.device)
            clean = self.clean(state, now, prompt_rows)
            if position + 1 < len(times):
                state = self.follow(state, clean, now, times[position + 1])
        return self.latents.back(clean)

    def follow(self, noisy, clean, now, following):
        """Deterministic step to the next noise level: the same noise, less of it."""
        alpha, beta = self.alphas[now].view(-1, 1, 1, 1), self.alphas[following]
        noise = (noisy - alpha.sqrt() * clean) / (1 - alpha).sqrt()
        return beta.sqrt() * clean + (1 - beta).sqrt() * noise

    def output(self, runs):
        """A pass of the loop at strength 0.4.  # pictures"""
        return self.paint(runs["state"].float(), runs["noise"].float(), runs["row"])


class Begin:
    """New runs: pictures with a prompt and noise, as half-precision latents."""

    def __init__(self, painter, pictures, count):
        self.painter, self.pictures, self.count = painter, pictures, count

    @torch.no_grad()
    def __call__(self):
        scenes, prompt = self.pictures.sample(self.count), draw_prompt(ROLLOUT_NEUTRAL)
        state, target = (self.painter.latents.of(x).half() for x in (scenes, edit(scenes, PROMPTS[prompt])))
        rows = torch.full((self.count,), prompt, device=self.painter.device)
        return {"state": state, "target": target, "noise": torch.randn_like(state), "row": rows}


class Bank:
    """Sources, targets and prompts of some thousand examples, as half-precision latents."""

    def __init__(self, painter, pictures, examples):
        self.painter, self.pictures, self.examples = painter, pictures, examples

    @torch.no_grad()
    def refresh(self):
        chunks = [self.chunk() for _ in range(max(1, self.examples // CHUNK))]
        self.sources, self.targets, self.rows = (torch.cat(part) for part in zip(*chunks, strict=True))

    def chunk(self):
        scenes, prompt = self.pictures.sample(CHUNK), draw_prompt()
        rows = torch.full((CHUNK,), prompt, device=self.painter.device)
        latents = self.painter.latents
        return latents.of(scenes).half(), latents.of(edit(scenes, PROMPTS[prompt])).half(), rows

    def draw(self, batch):
        picked = torch.randint(len(self.rows), (batch,), device=self.rows.device)
        return self.sources[picked].float(), self.targets[picked].float(), self.rows[picked]


def time_steps(batch, device):
    """Six in ten from the four-step schedule, the first of them most; the rest anywhere.  # [batch]"""
    weights = torch.tensor([0.55, 0.2, 0.15, 0.1])
    scheduled = torch.tensor(SCHEDULE)[torch.multinomial(weights, batch, replacement=True)].to(device)
    spread = torch.randint(0, 1000, (batch,), device=device)
    return torch.where(torch.rand(batch, device=device) < 0.6, scheduled, spread)


def part_way(sources, targets, times):
    """Inputs between source and target: in later steps of several, the earlier ones have begun the edit."""
    share = torch.rand(len(times), device=times.device)
    fresh = torch.rand(len(times), device=times.device) < torch.where(times > 300, 0.4, 0.75)
    return torch.lerp(sources, targets, torch.where(fresh, 0, share).view(-1, 1, 1, 1))


def estimate(painter, bank, batch, sharp):
    """Clean latents as the network sees them, and the targets; the first `sharp` are at strength 0.4 or 0.6.

    # clean, targets [B, C, h, w], time steps [B]
    """
    sources, targets, rows = bank.draw(batch)
    times = time_steps(batch, painter.device)
    times[:sharp] = torch.where(torch.rand(sharp, device=times.device) < 0.2, SCHEDULE[1], SCHEDULE[0])
    noisy = painter.noisy(part_way(sources, targets, times), times, torch.randn_like(targets))
    return painter.clean(noisy, times, rows, painter.fast), targets, times


def hold(painter, runs, passes=UNROLL):
    """Some passes from the states of runs: their mean loss in latents, the last result, its targets.

    The gradient goes through all of them, the VAE between them too. A single pass does best to let some noise through and
    to leave the VAE's loss alone; over many passes under the same noise both add up.
    """
    state, targets, noise = (runs[name].float() for name in ("state", "target", "noise"))
    times, losses = torch.full_like(runs["row"], SCHEDULE[0]), []
    for _ in range(passes):
        clean = painter.clean(painter.noisy(state, times, noise), times, runs["row"], painter.fast)
        state = painter.latents.of(stored(painter.latents.back(clean)))
        losses += [latent_loss(painter, latents, targets, times) for latents in (clean, state)]
    return torch.stack(losses).mean(), clean, targets


def latent_loss(painter, clean, targets, times):
    """Squared error of the clean latents, weighted by the root of the signal-to-noise ratio of their time step."""
    alpha = painter.alphas[times]
    return ((alpha / (1 - alpha)).sqrt() * (clean - targets).square().mean((1, 2, 3))).mean()


class PatchDiscriminator(nn.Module):
    """Judges patches of 46 pixels (Isola et al. 2017)."""

    def __init__(self, width=48):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.GroupNorm(8, 2 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
            nn.GroupNorm(8, 4 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4 * width, 1, 3, 1, 1),
        )

    def forward(self, pictures):
        return self.layers(pictures)


def band_energies(pictures, cell=32):
    """Log of the mean absolute luma in three frequency bands, for each cell.  # [B, 3, H/cell, W/cell]"""
    levels = [luma(pictures)]
    levels += [blur(levels[0], sigma) for sigma in (0.8, 1.6, 3.2)]
    bands = torch.cat([finer - coarser for finer, coarser in pairwise(levels)], 1)
    return (F.avg_pool2d(bands.abs(), cell) + 0.004).log()


def crop_both(first, second, size):
    size = min(size, first.shape[-1])
    top, left = (int(torch.randint(0, first.shape[-1] - size + 1, ())) for _ in range(2))
    return [maps[:, :, top : top + size, left : left + size] for maps in (first, second)]


class Sharpener:
    """The losses on decoded crops and the discriminator with its optimiser."""

    def __init__(self, painter, adversarial=0.02, energy=0.3, fidelity=0.5):
        self.painter, self.adversarial, self.energy, self.fidelity = painter, adversarial, energy, fidelity
        self.judge = PatchDiscriminator().to(painter.device)
        self.optimiser = torch.optim.AdamW(self.judge.parameters(), 2e-4, betas=(0.5, 0.9))

    def loss(self, clean, targets):
        outputs, goals = (self.painter.latents.back(x) for x in crop_both(clean, targets, SHARPEN_CROP))
        self.teach(outputs.detach(), goals)
        with half_precision(outputs.device):
            opinion = self.judge(outputs).float().mean()
        cell = min(32, outputs.shape[-1])
        energy = (band_energies(outputs, cell) - band_energies(goals, cell)).abs().mean()
        return self.fidelity * (outputs - goals).abs().mean() + self.energy * energy - self.adversarial * opinion

    def teach(self, outputs, goals):
        with half_precision(outputs.device):
            real, fake = self.judge(goals).float(), self.judge(outputs).float()
        loss = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
        step_optimiser(self.optimiser, loss, self.judge.parameters(), 2e-4)


@torch.no_grad()
def glance(painter, crops, leg):
    """Numbers and a sheet at the end of a leg; `training.evaluate` measures the exported pipelines."""
    pictures = crops[:: max(1, len(crops) // 16)][:16].to(painter.device).float() / 255
    latents = painter.latents.of(pictures)
    noise = torch.randn_like(latents[:1]).expand_as(latents)
    rows = torch.zeros(len(pictures), dtype=torch.long, device=painter.device)
    neutral = {steps: painter.paint(latents, noise, rows, steps) for steps in (1, 3)}
    for steps in (1, 3):
        detail = relative_detail(neutral[steps], pictures)
        leg.log(
            f"held out, empty prompt, {steps} run: {psnr(neutral[steps], pictures):.2f} dB, detail energy x {detail}"
        )
    sheet = [pictures, neutral[1], neutral[3]]
    for number, prompt in enumerate(PROMPTS[1:], 1):
        goal = edit(pictures, prompt)
        outputs = {steps: painter.paint(latents, noise, rows + number, steps) for steps in (1, 3)}
        gains = [psnr(outputs[steps], goal) - psnr(neutral[steps], goal) for steps in (1, 3)]
        detail = relative_detail(outputs[1], pictures)
        leg.log(f"{prompt!r}: nearer to its goal than neutral by {gains[0]:.2f}, {gains[1]:.2f} dB, detail x {detail}")
        sheet.append(outputs[1])
    save_sheet(leg.out / "turbo.png", sheet, columns=10, width=128)
    for name, prompt in (("neutral", 0), ("oil", PROMPTS.index("an oil painting"))):
        runs = {"state": latents, "noise": noise, "row": rows + prompt}
        free_run(painter, runs, pictures, leg, f"turbo-{name}")


def new_painter(options, pictures, leg, device):
    """The networks, fresh or as resumed, with the VAE and the scale of its latents."""
    vae = load_vae(options.vae, device)
    modules, tokenizer = networks.new_turbo()
    if options.resume:
        scale = load_checkpoint(options.resume, modules)["scale"]
    else:
        scale = DEVIATION / Latents(vae, 1.0).of(pictures.sample(64)).std().item()
    scale = options.scale or scale
    modules = {name: module.to(device) for name, module in modules.items()}
    leg.log(f"{networks.parameters_in_millions(*modules.values())} M parameters, latent scale {scale:.3f}")
    return Painter(modules, tokenizer, Latents(vae, scale), device)


def train(painter, pictures, leg, batch, examples):
    """Steps until the leg is over; its averaged weights are saved, and stay in the painter."""
    count = max(2, int(batch * ROLLOUT_SHARE))
    rollouts = Rollouts(Begin(painter, pictures, count), ROLLOUT_CAPACITY * count, count, ROLLOUT_ROUNDS, ROLLOUT_LOST)
    bank, sharpener = Bank(painter, pictures, examples), Sharpener(painter)
    parameters = [p for module in painter.modules.values() for p in module.parameters()]
    optimiser = torch.optim.AdamW(parameters, PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    sharp = max(1, int(batch * SHARPEN_SHARE / 2))
    average, refreshed = Average(painter.modules), -BANK_SECONDS
    while leg.running():
        if leg.elapsed() - refreshed > BANK_SECONDS and (leg.step < 2 or leg.progress() < 0.97):
            bank.refresh()
            refreshed = leg.elapsed()
        if leg.progress() > ROLLOUTS_FROM and leg.step % ROLLOUT_EVERY == 0:
            rollouts.advance(painter)
        clean, targets, times = estimate(painter, bank, batch - count, sharp)
        held, ends, goals = hold(painter, rollouts.draw(count))
        loss = latent_loss(painter, clean, targets, times) + HOLD_WEIGHT * held
        if leg.progress() > SHARPEN_FROM:
            pairs = ((clean, ends), (targets, goals))
            loss = loss + sharpener.loss(*(torch.cat([first[:sharp], second[:sharp]]) for first, second in pairs))
        step_optimiser(optimiser, loss, parameters, leg.learning_rate(PEAK_RATE))
        average.update()
        if leg.step % 300 == 1:
            leg.log(f"step {leg.step}, loss {loss.item():.4f}, runs {rollouts.ages()}")
        if leg.due():
            leg.save_average(average, scale=painter.latents.scale)
    leg.save_average(average, scale=painter.latents.scale)
    average.swap()


def main(argv=None):
    parser = arguments(__doc__.splitlines()[0], batch=256)
    parser.add_argument("--vae", required=True, help="checkpoint of the VAE")
    parser.add_argument("--examples", type=int, default=8192, help="size of the bank")
    parser.add_argument(
        "--scale", type=float, help="scaling factor of the latents; default: as resumed, or by DEVIATION"
    )
    options = parser.parse_args(argv)
    leg = Leg("turbo", options.out, options.minutes, options.steps, options.span)
    device = set_up(options.seed)
    pictures = Pictures(options.data, options.size, device, options.synthetic)
    painter = new_painter(options, pictures, leg, device)
    train(painter, pictures, leg, options.batch, options.examples)
    leg.log(f"{leg.step} steps, weights saved")
    glance(painter, load_crops(options.data, held_out=True, size=options.size), leg)


if __name__ == "__main__":
    main()
