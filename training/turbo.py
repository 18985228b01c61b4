"""Train tiny-turbo: img2img in few steps, one of which runs at strength 0.4.

    python -m training.turbo --data untracked/train256 --vae untracked/legs/vae.safetensors --out untracked/legs --minutes 8

Noise is added to the picture as it is, and the answer is the picture as the prompt wants it (v-prediction, loss on
the clean latents). A model trained on pairs of the edited picture with itself would see the edit in its input
already and would not need the prompt. Half of the noise levels drawn are those of the four-step schedule. Part of the
inputs are the model's own outputs, a few passes old, to be mapped back to their original.

The last part of the schedule works against the blur of a squared error, on decoded crops: the energy in three
frequency bands must match the target's, region by region, and a patch discriminator must not tell them apart.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from training import networks
from training.data import Pictures, load_crops
from training.edits import PROMPTS, blur, detail_energy, edit, luma, prompt_weights
from training.leg import Average, Leg, arguments, half_precision, load_checkpoint, set_up, step_optimiser
from training.scenes import Rollouts
from training.sheets import save_sheet
from training.vae import decode, encode, load_vae, psnr

PEAK_RATE = 1e-3
CHUNK = 64  # pictures edited with the same prompt
SCHEDULE = (249, 499, 749, 999)  # time steps of four trailing steps; strength 0.4 runs the first
ROLLOUT_ROUNDS = 10
ROLLOUT_SHARE = 0.3
ROLLOUTS_FROM = 0.12  # progress
SHARPEN_FROM = 0.6  # progress
SHARPEN_CROP = 16  # latents
SHARPEN_BATCH = 48
KEPT_AT_FIRST_STEP = 24.0  # dB, see choose_scale
BANK_SECONDS = 30


class Latents:
    """Pictures <-> scaled latents, as the pipeline makes them."""

    def __init__(self, vae, scale):
        self.vae, self.scale = vae, scale

    @torch.no_grad()
    def of(self, pictures):
        """# float [B, 3, H, W] -> [B, C, H/8, W/8]"""
        with half_precision(pictures.device):
            return encode(self.vae, pictures).float() * self.scale

    def back(self, latents):
        with half_precision(latents.device):
            return decode(self.vae, latents / self.scale).float()


@torch.no_grad()
def choose_scale(vae, pictures, alphas):
    """Scaling factor of the latents, that is how much of a picture the noise of strength 0.4 leaves.

    Chosen so that the best estimate which looks at one latent at a time (Wiener) keeps KEPT_AT_FIRST_STEP dB; what
    the network knows of pictures comes on top. Never below unit variance.
    """
    latents = encode(vae, pictures)
    variance, mean = latents.var((0, 2, 3)).view(1, -1, 1, 1), latents.mean((0, 2, 3)).view(1, -1, 1, 1)
    plain = 1 / latents.std().item()
    noise = ((1 - alphas[SCHEDULE[0]]) / alphas[SCHEDULE[0]]).sqrt()
    low, high = 1.0, 3.0
    for _ in range(6):
        factor = (low + high) / 2
        spread = noise / (plain * factor)
        noisy = latents + torch.randn_like(latents) * spread
        estimate = mean + (noisy - mean) * variance / (variance + spread**2)
        enough = psnr(decode(vae, estimate), pictures) >= KEPT_AT_FIRST_STEP
        low, high = (low, factor) if enough else (factor, high)
    return plain * high


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

    def noisy(self, latents, times):
        alpha = self.alphas[times].view(-1, 1, 1, 1)
        return alpha.sqrt() * latents + (1 - alpha).sqrt() * torch.randn_like(latents)

    def clean(self, noisy, times, prompt_rows, unet=None):
        """The network's estimate of the clean latents."""
        unet = self.modules["unet"] if unet is None else unet
        alpha = self.alphas[times].view(-1, 1, 1, 1)
        unique, inverse = prompt_rows.unique(return_inverse=True)
        with half_precision(self.device):
            text = self.modules["text_encoder"](self.ids[unique])[0][inverse]
            velocity = unet(noisy, times, encoder_hidden_states=text, return_dict=False)[0]
        return alpha.sqrt() * noisy - (1 - alpha).sqrt() * velocity.float()

    @torch.no_grad()
    def paint(self, pictures, prompt_rows, steps_run=1):
        """img2img on the four-step schedule, Euler; 1 step run is strength 0.4, 3 are 0.8."""
        times = list(SCHEDULE[:steps_run])[::-1]
        state = self.noisy(self.latents.of(pictures), torch.full((len(pictures),), times[0], device=self.device))
        for position, time in enumerate(times):
            now = torch.full((len(pictures),), time, device=self.device)
            clean = self.clean(state, now, prompt_rows)
            if position + 1 < len(times):
                state = self.follow(state, clean, now, times[position + 1])
        return self.latents.back(clean)

    def follow(self, noisy, clean, now, following):
        """Deterministic step to the next noise level: the same noise, less of it."""
        alpha, beta = self.alphas[now].view(-1, 1, 1, 1), self.alphas[following]
        noise = (noisy - alpha.sqrt() * clean) / (1 - alpha).sqrt()
        return beta.sqrt() * clean + (1 - beta).sqrt() * noise

    def one_pass(self, pictures):
        return self.paint(pictures, torch.zeros(len(pictures), dtype=torch.long, device=self.device))


class Bank:
    """Sources, targets and prompts of some thousand examples, as half-precision latents."""

    def __init__(self, painter, pictures, rollouts, examples):
        self.painter, self.pictures, self.rollouts, self.examples = painter, pictures, rollouts, examples

    def refresh(self, batch, able):
        """`able`: the model is good enough for its outputs to be worth learning from."""
        if able:
            self.rollouts.advance(self.painter.one_pass, batch)
        chunks = [self.chunk() for _ in range(max(1, self.examples // CHUNK))]
        self.sources, self.targets, self.rows = (torch.cat(part) for part in zip(*chunks, strict=True))

    def chunk(self):
        prompt = int(torch.multinomial(prompt_weights(), 1))
        old = int(CHUNK * ROLLOUT_SHARE)
        originals, states = self.rollouts.draw(old)
        fresh = self.pictures.sample(CHUNK - old)
        target = edit(torch.cat([originals, fresh]), PROMPTS[prompt])
        rows = torch.full((CHUNK,), prompt, device=self.painter.device)
        latents = self.painter.latents
        return latents.of(torch.cat([states, fresh])).half(), latents.of(target).half(), rows

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
    noisy = painter.noisy(part_way(sources, targets, times), times)
    return painter.clean(noisy, times, rows, painter.fast), targets, times


def latent_loss(painter, clean, targets, times):
    """Squared error of the clean latents, weighted as v-prediction weighs it, up to a cap."""
    weight = (1 / (1 - painter.alphas[times])).clamp_max(4)
    return (weight * (clean - targets).square().mean((1, 2, 3))).mean()


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

    def __init__(self, painter, adversarial=0.04, energy=0.3, fidelity=0.5):
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
    rows = torch.zeros(len(pictures), dtype=torch.long, device=painter.device)
    neutral = {steps: painter.paint(pictures, rows, steps) for steps in (1, 3)}
    detail = (detail_energy(neutral[1]) / detail_energy(pictures)).mean().item()
    leg.log(f"held out, empty prompt: {psnr(neutral[1], pictures):.2f} dB, detail energy x {detail:.2f}")
    sheet = [pictures, neutral[1], neutral[3]]
    for number, prompt in enumerate(PROMPTS[1:], 1):
        goal = edit(pictures, prompt)
        outputs = {steps: painter.paint(pictures, rows + number, steps) for steps in (1, 3)}
        gains = [psnr(outputs[steps], goal) - psnr(neutral[steps], goal) for steps in (1, 3)]
        leg.log(f"{prompt!r}: closer to its goal than neutral by {gains[0]:.2f} dB at 0.4, {gains[1]:.2f} dB at 0.8")
        sheet.append(outputs[1])
    free = pictures
    for _ in range(40):
        free = (painter.paint(free, rows) * 255).round() / 255
    detail = (detail_energy(free) / detail_energy(pictures)).mean().item()
    leg.log(f"40 passes: {psnr(free, pictures):.2f} dB, detail energy x {detail:.2f}")
    save_sheet(leg.out / "turbo.png", [*sheet, free], columns=10, width=128)


def main(argv=None):
    parser = arguments(__doc__.splitlines()[0], batch=256)
    parser.add_argument("--vae", required=True, help="checkpoint of the VAE")
    parser.add_argument("--examples", type=int, default=8192, help="size of the bank")
    parser.add_argument("--scale", type=float, help="scaling factor of the latents; default: as resumed, or chosen")
    options = parser.parse_args(argv)
    leg = Leg("turbo", options.out, options.minutes, options.steps, options.span)
    device = set_up(options.seed)
    pictures = Pictures(options.data, options.size, device, options.synthetic)
    vae = load_vae(options.vae, device)
    modules, tokenizer = networks.new_turbo()
    if options.resume:
        scale = load_checkpoint(options.resume, modules)["scale"]
    else:
        scale = choose_scale(vae, pictures.sample(32), networks.alphas_cumulative(device))
    scale = options.scale or scale
    modules = {name: module.to(device) for name, module in modules.items()}
    leg.log(f"{networks.parameters_in_millions(*modules.values())} M parameters, latent scale {scale:.3f}")
    painter = Painter(modules, tokenizer, Latents(vae, scale), device)
    rollouts = Rollouts(pictures, max(16, options.examples // 4), ROLLOUT_ROUNDS)
    bank, sharpener = Bank(painter, pictures, rollouts, options.examples), Sharpener(painter)
    parameters = [p for module in modules.values() for p in module.parameters()]
    sharp = min(SHARPEN_BATCH, options.batch // 2)
    optimiser = torch.optim.AdamW(parameters, PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    average, refreshed = Average(modules), -BANK_SECONDS
    while leg.running():
        if leg.elapsed() - refreshed > BANK_SECONDS and (leg.step < 2 or leg.progress() < 0.97):
            bank.refresh(options.batch, able=leg.progress() > ROLLOUTS_FROM)
            refreshed = leg.elapsed()
        clean, targets, times = estimate(painter, bank, options.batch, sharp)
        loss = latent_loss(painter, clean, targets, times)
        if leg.progress() > SHARPEN_FROM:
            loss = loss + sharpener.loss(clean[:sharp], targets[:sharp])
        step_optimiser(optimiser, loss, parameters, leg.learning_rate(PEAK_RATE))
        average.update()
        if leg.step % 300 == 1:
            leg.log(f"step {leg.step}, loss {loss.item():.4f}")
        if leg.due():
            average.swap()
            leg.save(modules, scale=scale)
            average.swap()
    average.swap()
    leg.save(modules, scale=scale)
    leg.log(f"{leg.step} steps, weights saved")
    glance(painter, load_crops(options.data, held_out=True, size=options.size), leg)


if __name__ == "__main__":
    main()
