"""A head start for the VAE: solve the linear problem first, then write the solution into the network.

A stock VAE trained from scratch for minutes reaches 25 dB on held-out pictures, while a plain linear transform
of 8x8 blocks with as many numbers (a PCA) reaches 31 to 33 dB. The skip paths of the stock encoder and decoder are
linear: convolutions in, down, up and out, with 1x1 convolutions where the width changes. So `LinearAutoencoder`
trains those alone (a few milliseconds a step), starting from the PCA, and `graft` copies them into the real
network with every residual branch set to zero. The network then starts as a good linear codec, and training adds
what only a non-linear one can do.

The two places where the path is not linear are the output heads (GroupNorm, SiLU, convolution). They are made linear:
silu(x) - silu(-x) = x, so each signal enters as a pair of opposite signs, and constant channels far larger than the
signals hold the group's standard deviation still.
"""

import torch
import torch.nn.functional as F
from torch import nn

from training.networks import VAE_CHANNELS, VAE_GROUPS

ENCODER_SIGNALS = 64  # 8 in each of 8 groups of 18 channels
DECODER_SIGNALS = 8  # 1 in each of 8 groups of 4 channels
ANCHOR = 10.0  # size of the constant channels, in root-sum-squares of a group's signals
LOG_NOISE = -7.0  # log variance of the posterior at the start; latents have unit scale
BLOCK = 8  # pixels


class Down(nn.Conv2d):
    """As diffusers' Downsample2D with padding 0."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, stride=2)

    def forward(self, maps):
        return super().forward(F.pad(maps, (0, 1, 0, 1)))


class Up(nn.Conv2d):
    """As diffusers' Upsample2D."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, padding=1)

    def forward(self, maps):
        return super().forward(F.interpolate(maps, scale_factor=2, mode="nearest"))


class LinearAutoencoder(nn.Module):
    """The skip paths of the VAE, as modules of their own."""

    def __init__(self, latent_channels):
        super().__init__()
        one, two, three, four = VAE_CHANNELS
        self.encoder = nn.Sequential(
            nn.Conv2d(3, one, 3, padding=1),
            Down(one),
            nn.Conv2d(one, two, 1),
            Down(two),
            nn.Conv2d(two, three, 1),
            Down(three),
            nn.Conv2d(three, ENCODER_SIGNALS, 1),
            nn.Conv2d(ENCODER_SIGNALS, latent_channels, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(latent_channels, four, 3, padding=1),
            Up(four),
            nn.Conv2d(four, three, 1),
            Up(three),
            nn.Conv2d(three, two, 1),
            Up(two),
            nn.Conv2d(two, DECODER_SIGNALS, 1),
            nn.Conv2d(DECODER_SIGNALS, 3, 3, padding=1),
        )

    def forward(self, pictures):
        return self.decoder(self.encoder(pictures))


def block_pca(pictures, count):
    """Principal components of 8x8 blocks; pictures in -1..1.  # [count, 3, 8, 8]"""
    blocks = F.unfold(pictures, BLOCK, stride=BLOCK).transpose(1, 2).flatten(0, 1)
    _, vectors = torch.linalg.eigh(torch.cov(blocks.T).double())
    return vectors.flip(1)[:, :count].T.reshape(count, 3, BLOCK, BLOCK).float()


@torch.no_grad()
def start_encoder(model, components):
    """Space to depth twice, then the block transform: the encoder begins as the PCA itself."""
    first, down1, widen1, down2, widen2, down3, narrow, head = model.encoder
    for layer in model.encoder:
        layer.weight.mul_(0.05)
        layer.bias.zero_()
    for layer, channels in ((first, 3), (widen1, 12), (widen2, 48), (narrow, ENCODER_SIGNALS), (head, len(head.bias))):
        centre = layer.kernel_size[0] // 2
        for channel in range(channels):
            layer.weight[channel, channel, centre, centre] += 1
    for corner in range(4):
        row, column = divmod(corner, 2)
        for layer, channels in ((down1, 3), (down2, 12)):
            for channel in range(channels):
                layer.weight[corner * channels + channel, channel, row, column] += 1
        part = components[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        fine = part.reshape(-1, 3, 2, 2, 2, 2).permute(0, 2, 4, 3, 5, 1)  # [signal, row2, column2, row1, column1, rgb]
        down3.weight[: len(components), :48, row, column] += fine.flatten(1)


@torch.no_grad()
def start_decoder(model):
    for layer in model.decoder:
        nn.init.orthogonal_(layer.weight.view(len(layer.weight), -1))
        layer.bias.zero_()


@torch.no_grad()
def settle_gauge(model, pictures):
    """Choose among the equivalent latents those whose channels are uncorrelated and weigh alike in the picture.

    First latents in which a unit step of any channel changes the decoded picture by the same energy, then a rotation to
    principal axes, then one common factor that gives unit mean variance.
    """
    head, start = model.encoder[-1], model.decoder[0]
    count, device = len(head.bias), head.bias.device
    impulses = torch.zeros(count + 1, count, 9, 9, device=device)
    impulses[torch.arange(count), torch.arange(count), 4, 4] = 1
    answers = model.decoder(impulses).flatten(1)
    answers = (answers[:count] - answers[count:]).double()
    values, vectors = torch.linalg.eigh(answers @ answers.T)
    root = vectors @ torch.diag(values.clamp_min(values.max() * 1e-6).sqrt()) @ vectors.T
    latents = model.encoder(pictures).transpose(0, 1).flatten(1).double()
    variances, axes = torch.linalg.eigh(root @ torch.cov(latents) @ root.T)
    change = axes.flip(1).T @ root / variances.mean().sqrt()
    back = torch.linalg.inv(change)
    mean = latents.mean(1)
    head.weight.copy_(torch.einsum("oc,cihw->oihw", change, head.weight.double()))
    head.bias.copy_(change @ (head.bias.double() - mean))
    start.bias.add_(torch.einsum("ochw,c->o", start.weight.double(), mean).to(start.bias.dtype))
    start.weight.copy_(torch.einsum("ochw,cn->onhw", start.weight.double(), back))


def train(model, pictures, leg, seconds, peak=2e-3, crop=96, batch=64):
    """Squared error only, Adam, linear decay."""
    optimiser = torch.optim.Adam(model.parameters(), peak, betas=(0.9, 0.95))
    started, step = leg.elapsed(), 0
    while (share := (leg.elapsed() - started) / seconds) < 1 or step < 3:
        inputs = random_crop(pictures.sample(batch), crop) * 2 - 1
        loss = (model(inputs) - inputs).square().mean()
        rate = peak * min(1, (step + 1) / 50) * max(0.01, min(1.0, 1.3 * (1 - share)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        if step % 500 == 0:
            leg.log(f"linear step {step}, {-10 * torch.log10(loss / 4).item():.2f} dB in training")


def random_crop(pictures, size):
    size = min(size, pictures.shape[-1])
    top, left = (int(torch.randint(0, pictures.shape[-1] - size + 1, ())) for _ in range(2))
    return pictures[:, :, top : top + size, left : left + size]


def silence_branches(network):
    """Every residual block begins as its skip path."""
    for module in network.modules():
        if hasattr(module, "conv_shortcut") and hasattr(module, "conv2"):
            nn.init.zeros_(module.conv2.weight)
            nn.init.zeros_(module.conv2.bias)


def copy_conv(target, source):
    target.weight.copy_(source.weight)
    target.bias.copy_(source.bias)


def graft_head(shortcut, norm, conv, narrow, head, power):
    """Make GroupNorm, SiLU, convolution act as the linear `head` on the signals of `narrow`.

    power: mean square of each signal on pictures.  # [signals]
    """
    width = norm.num_channels // VAE_GROUPS
    each = len(power) // VAE_GROUPS
    for tensor in (shortcut.weight, shortcut.bias, conv.weight, norm.bias):
        tensor.zero_()
    norm.weight.fill_(1)
    conv.bias.zero_()
    conv.bias[: len(head.bias)] = head.bias
    for group in range(VAE_GROUPS):
        signals = range(group * each, (group + 1) * each)
        total = power[signals.start : signals.stop].sum()
        anchor = ANCHOR * total.clamp_min(1e-6).sqrt()
        deviation = ((2 * anchor**2 + 2 * total) / width).sqrt()
        first = group * width
        for offset, signal in enumerate(signals):
            for channel, sign in ((first + 2 * offset, 1), (first + 2 * offset + 1, -1)):
                shortcut.weight[channel] = sign * narrow.weight[signal]
                shortcut.bias[channel] = sign * narrow.bias[signal]
                norm.weight[channel] = deviation
                conv.weight[: len(head.bias), channel] = sign * head.weight[:, signal]
        shortcut.bias[first + width - 2], shortcut.bias[first + width - 1] = anchor, -anchor


def identity_conv(conv):
    nn.init.zeros_(conv.bias)
    conv.weight.copy_(torch.eye(len(conv.bias), device=conv.weight.device)[:, :, None, None])


@torch.no_grad()
def graft(model, vae, pictures):
    """Write the linear solution into the VAE; both give the same pictures afterwards."""
    encoder, decoder = vae.encoder, vae.decoder
    silence_branches(vae)
    first, down1, widen1, down2, widen2, down3, narrow, head = model.encoder
    copy_conv(encoder.conv_in, first)
    for block, down in zip(encoder.down_blocks, (down1, down2, down3), strict=False):
        copy_conv(block.downsamplers[0].conv, down)
    copy_conv(encoder.down_blocks[1].resnets[0].conv_shortcut, widen1)
    copy_conv(encoder.down_blocks[2].resnets[0].conv_shortcut, widen2)
    signals = model.encoder[:7](pictures)
    shortcut = encoder.down_blocks[3].resnets[0].conv_shortcut
    graft_head(shortcut, encoder.conv_norm_out, encoder.conv_out, narrow, head, signals.square().mean((0, 2, 3)))
    encoder.conv_out.bias[len(head.bias) :] = LOG_NOISE
    identity_conv(vae.quant_conv)
    identity_conv(vae.post_quant_conv)
    first, up1, slim1, up2, slim2, up3, narrow, head = model.decoder
    copy_conv(decoder.conv_in, first)
    for block, up in zip(decoder.up_blocks, (up1, up2, up3), strict=False):
        copy_conv(block.upsamplers[0].conv, up)
    copy_conv(decoder.up_blocks[1].resnets[0].conv_shortcut, slim1)
    copy_conv(decoder.up_blocks[2].resnets[0].conv_shortcut, slim2)
    signals = model.decoder[:7](model.encoder(pictures))
    shortcut = decoder.up_blocks[3].resnets[0].conv_shortcut
    graft_head(shortcut, decoder.conv_norm_out, decoder.conv_out, narrow, head, signals.square().mean((0, 2, 3)))


def give_head_start(vae, pictures, leg, seconds, batch=64):
    """Train the linear model and graft it."""
    device = vae.encoder.conv_in.weight.device
    model = LinearAutoencoder(vae.config.latent_channels).to(device)
    sample = torch.cat([pictures.sample(batch // 2) for _ in range(4)]) * 2 - 1
    start_encoder(model, block_pca(sample, ENCODER_SIGNALS))
    start_decoder(model)
    train(model, pictures, leg, seconds, batch=batch)
    settle_gauge(model, sample)
    graft(model, vae, sample)
    return model
