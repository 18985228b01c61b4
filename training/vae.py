"""Train the VAE both models share.

    python -m training.vae --data untracked/train256 --out untracked/legs --minutes 8

A fresh VAE begins with the linear head start of `linear_start`. Then all of it is trained on L1, squared error,
gradients and pooled differences, with a faint KL term. Three things keep encode/decode rounds from drifting. Replay:
half of each batch is the decoder's own earlier output, rounded to 8 bits and up to 40 rounds old, to be mapped back to
the original. An output that is encoded again must give the latents it was made from. And what is decoded from those
must be the original again: two rounds in one step.

A later leg must leave models valid that were trained on its latents. It may keep the encoder as it is
(`--freeze-encoder`), or train it near the latents that it gave (`--keep-latents`): only then can it learn to read what the
decoder writes.

No discriminator: it costs the fidelity that 20 rounds need.
"""

import math

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLFlux2, Flux2KleinPipeline

from training import networks
from training.data import Pictures, load_crops
from training.leg import Average, Leg, arguments, half_precision, load_checkpoint, set_up, step_optimiser
from training.linear_start import give_head_start
from training.sheets import save_sheet

PEAK_RATE = 2e-4
KL_WEIGHT = 1e-6
HEAD_START = 0.16  # of a first leg's time
REPLAY_ROUNDS = 40
REPLAY_SHARE = 0.5  # of the batch
CYCLE_WEIGHT = 0.2
KEPT_CYCLE_WEIGHT = 1.0  # where latents are kept: there an encoder has little else to learn
KEEP_WEIGHT = 1.0  # of the distance to the latents of the earlier leg
SECOND_WEIGHT = 0.5  # of the second round
REPLAY_FROM = 0.02  # progress at which replay begins


def psnr(pictures, targets):
    """Of the mean squared error over all pictures, range 0..1."""
    return -10 * math.log10((pictures.float() - targets.float()).square().mean().item() + 1e-12)


def encode(vae, pictures):
    """The mode of the posterior, not whitened, not scaled.  # [B, C, H/8, W/8]"""
    return vae.encode(pictures * 2 - 1).latent_dist.mode()


def decode(vae, latents):
    """# float [B, 3, H, W], 0..1"""
    return (vae.decode(latents).sample / 2 + 0.5).clamp(0, 1)


def round_trips(vae, pictures, rounds):
    """Encode and decode again and again through 8-bit pictures, as a loop does."""
    for _ in range(rounds):
        pictures = (decode(vae, encode(vae, pictures)).float() * 255).round() / 255
    return pictures


def gradients(pictures):
    return pictures[..., 1:, :] - pictures[..., :-1, :], pictures[..., :, 1:] - pictures[..., :, :-1]


def reconstruction_loss(output, target):
    """Pictures in -1..1."""
    loss = (output - target).abs().mean() + 5 * (output - target).square().mean()
    for ours, theirs in zip(gradients(output), gradients(target), strict=True):
        loss = loss + 0.5 * (ours - theirs).abs().mean()
    for pool in (2, 4):
        loss = loss + 0.25 * (F.avg_pool2d(output, pool) - F.avg_pool2d(target, pool)).abs().mean()
    return loss


class Replay:
    """Pool of pictures that have been through the VAE a few times, with their originals."""

    def __init__(self, pictures, capacity):
        self.pictures = pictures
        self.originals = self.bytes_of(pictures.sample(capacity))
        self.current = self.originals.clone()
        self.rounds = torch.zeros(capacity, dtype=torch.long, device=self.originals.device)

    @staticmethod
    def bytes_of(pictures):
        return (pictures * 255).round().to(torch.uint8)

    def draw(self, count):
        rows = torch.randperm(len(self.rounds), device=self.rounds.device)[:count]
        return rows, self.current[rows].float() / 255, self.originals[rows].float() / 255

    def put(self, rows, outputs, restart):
        """Store the outputs of two rounds as the new state; old ones (or all, on `restart`) make room for fresh pictures."""
        self.rounds[rows] += 2
        over = (self.rounds[rows] >= REPLAY_ROUNDS) | (torch.rand(len(rows), device=rows.device) < 0.05) | restart
        fresh = self.bytes_of(self.pictures.sample(len(rows)))
        gate = over.view(-1, 1, 1, 1)
        self.current[rows] = torch.where(gate, fresh, self.bytes_of(outputs.clamp(0, 1)))
        self.originals[rows] = torch.where(gate, fresh, self.originals[rows])
        self.rounds[rows] = torch.where(over, 0, self.rounds[rows])


class Trainer:
    """The VAE, its optimiser and one step."""

    def __init__(self, vae, pictures, batch, rate, earlier=None):
        """`earlier`: the VAE whose latents shall be kept, frozen, or None."""
        self.vae, self.pictures, self.batch, self.rate, self.earlier = vae, pictures, batch, rate, earlier
        device = next(vae.parameters()).device
        self.encoder, self.decoder = vae.encoder, vae.decoder
        if device.type == "cuda":
            vae.to(memory_format=torch.channels_last)
            self.encoder = torch.compile(vae.encoder, dynamic=False)
            self.decoder = torch.compile(vae.decoder, dynamic=False)
        self.optimiser = torch.optim.AdamW(vae.parameters(), rate, betas=(0.9, 0.99), weight_decay=1e-4)
        self.replay = Replay(pictures, capacity=4 * batch)
        self.device = device

    def batch_of(self):
        old = int(self.batch * REPLAY_SHARE)
        rows, current, originals = self.replay.draw(old)
        fresh = self.pictures.sample(self.batch - old)
        return rows, torch.cat([fresh, current]) * 2 - 1, torch.cat([fresh, originals]) * 2 - 1

    def posterior(self, inputs):
        """# mean, log variance, both float32"""
        frozen = not self.vae.encoder.conv_in.weight.requires_grad
        encoder = self.vae.encoder if frozen and not inputs.requires_grad else self.encoder  # one graph less to compile
        mean, log_variance = self.vae.quant_conv(encoder(inputs)).float().chunk(2, 1)
        return mean, log_variance.clamp(-14, 4)

    def again(self, outputs):
        """Latents of the output as a picture file would hold it: clipped, with the noise of 8 bits."""
        stored = outputs.clamp(-1, 1) + (torch.rand_like(outputs) - 0.5) / 127.5
        return self.posterior(stored.contiguous(memory_format=torch.channels_last))[0]

    def distance(self, targets, mean):
        """Squared distance to the latents that the earlier leg gave the originals."""
        with torch.no_grad(), half_precision(self.device):
            kept = self.earlier.encode(targets).latent_dist.mode().float()
        return (mean - kept).square().mean()

    def step(self, leg):
        rows, inputs, targets = self.batch_of()
        inputs, targets = (x.contiguous(memory_format=torch.channels_last) for x in (inputs, targets))
        with half_precision(self.device):
            mean, log_variance = self.posterior(inputs)
            latents = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            outputs = self.decoder(self.vae.post_quant_conv(latents)).float()
            again = self.again(outputs)
            cycle = (again - mean.detach()).square().mean()
            second = self.decoder(self.vae.post_quant_conv(again)).float()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
        loss = reconstruction_loss(outputs, targets) + SECOND_WEIGHT * reconstruction_loss(second, targets)
        loss = loss + KL_WEIGHT * divergence
        if self.earlier is None:
            loss = loss + CYCLE_WEIGHT * cycle
        else:
            loss = loss + KEPT_CYCLE_WEIGHT * cycle + KEEP_WEIGHT * self.distance(targets, mean)
        step_optimiser(self.optimiser, loss, self.vae.parameters(), leg.learning_rate(self.rate, hold=0.2))
        self.replay.put(rows, second[-len(rows) :].detach() / 2 + 0.5, restart=leg.progress() < REPLAY_FROM)
        return outputs, targets, cycle


@torch.no_grad()
def measure_whitening(vae, pictures, batches=40, batch=64):
    """Set `bn`, the statistics by which klein whitens its latents."""
    latents = []
    for _ in range(batches):
        latents.append(Flux2KleinPipeline._patchify_latents(encode(vae, pictures.sample(batch))))
    latents = torch.cat(latents)
    vae.bn.running_mean.copy_(latents.mean((0, 2, 3)))
    vae.bn.running_var.copy_(latents.var((0, 2, 3)))


@torch.no_grad()
def measure(vae, crops, rounds=20):
    """# {name: dB} on held-out crops, float32"""
    pictures = crops.to(vae.device).float() / 255
    once = torch.cat([round_trips(vae, part, 1) for part in pictures.split(16)])
    often = torch.cat([round_trips(vae, part, rounds) for part in pictures.split(16)])
    return {"reconstruction": psnr(once, pictures), f"rounds_{rounds}": psnr(often, pictures)}, (pictures, once, often)


def save(leg, vae, average, pictures, batches):
    """Averaged weights with whitening statistics from so many batches; with 0, those of the earlier leg."""
    average.swap()
    if batches:
        measure_whitening(vae, pictures, batches)
    leg.save({"vae": vae})
    average.swap()


def load_vae(path, device="cpu"):
    """The VAE of a checkpoint, float32, for use."""
    vae = networks.new_vae(AutoencoderKLFlux2)
    load_checkpoint(path, {"vae": vae})
    return vae.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)


def main(argv=None):
    parser = arguments(__doc__.splitlines()[0], batch=40)
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--freeze-encoder", action="store_true", help="train the decoder only")
    later.add_argument("--keep-latents", action="store_true", help="train all, near the latents of the one resumed")
    parser.add_argument("--rate", type=float, default=PEAK_RATE, help="peak learning rate")
    options = parser.parse_args(argv)
    if (options.keep_latents or options.freeze_encoder) and not options.resume:
        parser.error("--keep-latents and --freeze-encoder go on from a checkpoint: name it with --resume")
    leg = Leg("vae", options.out, options.minutes, options.steps, options.span)
    device = set_up(options.seed)
    pictures = Pictures(options.data, options.size, device, options.synthetic)
    vae = networks.new_vae().to(device)
    if options.resume:
        load_checkpoint(options.resume, {"vae": vae})
    else:
        give_head_start(vae, pictures, leg, leg.budget * HEAD_START, batch=2 * options.batch)
    earlier = load_vae(options.resume, device) if options.keep_latents else None
    if options.freeze_encoder:
        for module in (vae.encoder, vae.quant_conv):
            module.requires_grad_(False)
    leg.log(f"{len(pictures.real)} crops, {networks.parameters_in_millions(vae)} M parameters")
    trainer = Trainer(vae, pictures, options.batch, options.rate, earlier)
    average = Average({"vae": vae})
    stays = options.freeze_encoder or options.keep_latents
    batches = 0 if stays else 40 if device.type == "cuda" else 1
    while leg.running():
        outputs, targets, cycle = trainer.step(leg)
        average.update()
        if leg.step % 500 == 1:
            quality = psnr(outputs.detach() / 2, targets / 2)
            leg.log(f"step {leg.step}, {quality:.2f} dB in training, cycle {cycle.item():.4f}")
        if leg.due():
            save(leg, vae, average, pictures, -(-batches // 5))
    save(leg, vae, average, pictures, batches)
    leg.log(f"{leg.step} steps, weights saved")
    average.swap()
    vae.eval()
    numbers, (originals, once, often) = measure(vae, load_crops(options.data, held_out=True, size=options.size))
    leg.log(f"held out: {numbers}")
    save_sheet(leg.out / "vae.png", [originals[::5], once[::5], often[::5]], columns=12)


if __name__ == "__main__":
    main()
