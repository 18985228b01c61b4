"""Train tiny-klein: a reference-image editor in the latents of the shared VAE.

    python -m training.klein --data untracked/train256 --vae untracked/legs/vae.safetensors --out untracked/legs --minutes 8

Rectified flow from noise to the edited picture, given one or two references and the instruction. Half of the
noise levels drawn are those of the four-step schedule that the pipeline runs.

Two references: the state leads. The target is always the edited, clean version of the state: the second reference is
mostly the same scene moved, sometimes black, sometimes another scene, and moves nothing. A prompt that names
the roles the other way round ("keep the appearance of image 2") makes the second reference the state. Part of the
states are the model's own outputs, a few passes old; with two references more than with one.

Latents are computed into a bank that is refreshed while training goes on.
"""

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline
from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu

from training import networks
from training.data import Pictures, load_crops
from training.edits import FRAME_FIRST, PROMPTS, STATE_FIRST, edit, name_roles, prompt_weights
from training.leg import Average, Leg, arguments, half_precision, load_checkpoint, set_up
from training.scenes import Rollouts, second_frames, wear
from training.sheets import save_sheet
from training.vae import decode, encode, load_vae, psnr

PEAK_RATE = 1e-3
CHUNK = 64  # pictures edited with the same prompt
ROLLOUT_ROUNDS = 5
STEPS = 4
BANK_SECONDS = 35
ROLLOUTS_FROM = 0.12  # progress


class Latents:
    """Pictures <-> packed, whitened latents, as the pipeline makes them."""

    def __init__(self, vae):
        self.vae = vae
        self.mean = vae.bn.running_mean.view(1, -1, 1, 1)
        self.deviation = (vae.bn.running_var + vae.config.batch_norm_eps).sqrt().view(1, -1, 1, 1)

    @torch.no_grad()
    def of(self, pictures):
        """# float [B, 3, H, W] -> [B, tokens, channels]"""
        with half_precision(pictures.device):
            latents = encode(self.vae, pictures)
        latents = Flux2KleinPipeline._patchify_latents(latents.float())
        return Flux2KleinPipeline._pack_latents((latents - self.mean) / self.deviation)

    @torch.no_grad()
    def back(self, packed):
        side = round(packed.shape[1] ** 0.5)
        latents = packed.float().transpose(1, 2).unflatten(2, (side, side)) * self.deviation + self.mean
        with half_precision(packed.device):
            return decode(self.vae, Flux2KleinPipeline._unpatchify_latents(latents)).float()


class Positions:
    """Position ids of target and reference tokens, as the pipeline counts them."""

    def __init__(self, side, device):
        grid = torch.zeros(1, 1, side, side)
        target = Flux2KleinPipeline._prepare_latent_ids(grid)
        references = Flux2KleinPipeline._prepare_image_ids([grid] * 2)
        count = side * side
        self.image = {1: torch.cat([target, references[:, :count]], 1), 2: torch.cat([target, references], 1)}
        self.image = {key: value.to(device) for key, value in self.image.items()}
        self.text = Flux2KleinPipeline._prepare_text_ids(torch.zeros(1, networks.KLEIN_TOKENS, 1)).to(device)


class Prompts:
    """Token ids of every prompt in every role."""

    def __init__(self, tokenizer, device):
        self.texts = [name_roles(prompt, order) if order else prompt for order in ORDERS for prompt in PROMPTS]
        chats = [self.chat(tokenizer, text) for text in self.texts]
        settings = {"padding": "max_length", "truncation": True, "max_length": networks.KLEIN_TOKENS}
        tokens = tokenizer(chats, return_tensors="pt", **settings)
        self.ids, self.mask = tokens["input_ids"].to(device), tokens["attention_mask"].to(device)

    @staticmethod
    def chat(tokenizer, text):
        messages = [{"role": "user", "content": text}]
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def embed(self, text_encoder, rows):
        """Encode each distinct prompt once.  # [B, tokens, 3 * width]"""
        unique, inverse = rows.unique(return_inverse=True)
        settings = {"output_hidden_states": True, "use_cache": False}
        states = text_encoder(input_ids=self.ids[unique], attention_mask=self.mask[unique], **settings).hidden_states
        stacked = torch.stack([states[layer] for layer in networks.KLEIN_LAYERS], 1)
        return stacked.permute(0, 2, 1, 3).flatten(2)[inverse]


ORDERS = (None, STATE_FIRST, FRAME_FIRST)


def four_steps(tokens, device):
    """The noise levels the pipeline runs, last one 0.  # [STEPS + 1]"""
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    levels = np.linspace(1.0, 1 / STEPS, STEPS)
    scheduler.set_timesteps(sigmas=levels, mu=compute_empirical_mu(tokens, STEPS))
    return scheduler.sigmas.float().to(device)


class Editor:
    """Transformer and text encoder with everything needed to call them as the pipeline does."""

    def __init__(self, modules, tokenizer, latents, size, device):
        self.modules, self.latents, self.device = modules, latents, device
        side = size // (2 * networks.COMPRESSION)
        self.tokens = side * side
        self.positions, self.prompts = Positions(side, device), Prompts(tokenizer, device)
        self.levels = four_steps(self.tokens, device)
        self.fast = modules["transformer"]
        if device.type == "cuda":
            self.fast = torch.compile(modules["transformer"], dynamic=False)

    def velocity(self, noisy, references, level, prompt_rows, transformer):
        count = references.shape[1] // self.tokens
        batch = len(noisy)
        with half_precision(self.device):
            answer = transformer(
                hidden_states=torch.cat([noisy, references], 1),
                timestep=level,
                guidance=None,
                encoder_hidden_states=self.prompts.embed(self.modules["text_encoder"], prompt_rows),
                txt_ids=self.positions.text.expand(batch, -1, -1),
                img_ids=self.positions.image[count].expand(batch, -1, -1),
                return_dict=False,
            )[0]
        return answer[:, : self.tokens].float()

    @torch.no_grad()
    def sample(self, references, prompt_rows):
        """Four Euler steps from fresh noise.  # packed latents"""
        state = torch.randn_like(references[:, : self.tokens])
        for level, following in pairwise(self.levels):
            levels = level.expand(len(state))
            answer = self.velocity(state, references, levels, prompt_rows, self.modules["transformer"])
            state = state + (following - level) * answer
        return state

    def one_pass(self, pictures):
        """A pass of the loop with an empty prompt, the second reference being what `second_frames` gives."""
        both = torch.cat([self.latents.of(pictures), self.latents.of(second_frames(pictures))], 1)
        rows = torch.zeros(len(pictures), dtype=torch.long, device=self.device)
        return self.latents.back(self.sample(both, rows))


class Bank:
    """Targets, both references and prompts of some thousand examples, as half-precision latents."""

    def __init__(self, editor, pictures, rollouts, examples):
        self.editor, self.pictures, self.rollouts, self.examples = editor, pictures, rollouts, examples

    def refresh(self, batch, able):
        """`able`: the model is good enough for its outputs to be worth learning from."""
        if able:
            self.rollouts.advance(self.editor.one_pass, batch)
        chunks = [self.chunk(number) for number in range(max(2, self.examples // CHUNK))]
        self.one = self.join([chunk for chunk in chunks if chunk[2] is None])
        self.two = self.join([chunk for chunk in chunks if chunk[2] is not None])

    @staticmethod
    def join(chunks):
        targets, states, frames, rows = zip(*chunks, strict=True)
        references = torch.cat(states) if frames[0] is None else torch.cat([torch.cat(states), torch.cat(frames)], 1)
        return torch.cat(targets), references, torch.cat(rows)

    def chunk(self, number):
        """# target, state, frame or None (packed latents), rows of the prompt table"""
        prompt = int(torch.multinomial(prompt_weights(), 1))
        pair = number % 3 != 0
        scenes, states = self.states(0.35 if pair else 0.1)
        target = self.editor.latents.of(edit(scenes, PROMPTS[prompt])).half()
        order = int(torch.multinomial(torch.tensor([0.5, 0.35, 0.15]), 1)) if pair else 0
        rows = torch.full((CHUNK,), order * len(PROMPTS) + prompt, device=self.editor.device)
        if not pair:
            return target, self.editor.latents.of(states).half(), None, rows
        first, second = (
            self.editor.latents.of(wear(states)).half(),
            self.editor.latents.of(second_frames(scenes)).half(),
        )
        if ORDERS[order] == FRAME_FIRST:
            first, second = second, first
        return target, first, second, rows

    def states(self, share):
        """Scenes and the states a loop may have made of them.  # float [CHUNK, 3, H, W] each"""
        worn = int(CHUNK * share)
        originals, states = self.rollouts.draw(worn)
        fresh = self.pictures.sample(CHUNK - worn)
        return torch.cat([originals, fresh]), torch.cat([states, fresh])

    def draw(self, batch, pair):
        targets, references, rows = self.two if pair else self.one
        picked = torch.randint(len(rows), (batch,), device=rows.device)
        return targets[picked].float(), references[picked].float(), rows[picked]


def noise_levels(levels, batch):
    """Six in ten from the four-step schedule, the rest spread over all levels.  # [batch], 0..1"""
    device = levels.device
    scheduled = levels[torch.randint(0, STEPS, (batch,), device=device)]
    spread = torch.sigmoid(torch.randn(batch, device=device) * 1.2 + 1)
    return torch.where(torch.rand(batch, device=device) < 0.6, scheduled, spread)


def channel_weights(vae):
    """Weigh the whitened channels by the square root of the variance they stand for.  # [channels]"""
    deviation = vae.bn.running_var.sqrt()
    return deviation / deviation.mean()


class Optimisers:
    """Muon (Jordan et al. 2024) for the matrices of the transformer blocks, AdamW for all else."""

    def __init__(self, modules):
        named = list(modules["transformer"].named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and "blocks" in name]
        chosen = {id(p) for p in matrices}
        others = [p for module in modules.values() for p in module.parameters() if id(p) not in chosen]
        muon = torch.optim.Muon(matrices, PEAK_RATE, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
        adam = torch.optim.AdamW(others, PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
        self.parts, self.parameters = (muon, adam), matrices + others

    def step(self, loss, rate):
        for part in self.parts:
            part.zero_grad(set_to_none=True)
            for group in part.param_groups:
                group["lr"] = rate
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for part in self.parts:
            part.step()


def flow_loss(editor, bank, batch, pair, weights):
    targets, references, rows = bank.draw(batch, pair)
    levels = noise_levels(editor.levels, batch)
    noise = torch.randn_like(targets)
    noisy = torch.lerp(targets, noise, levels.view(-1, 1, 1))
    answer = editor.velocity(noisy, references, levels, rows, editor.fast)
    return (weights * F.mse_loss(answer, noise - targets, reduction="none")).mean()


@torch.no_grad()
def glance(editor, crops, leg):
    """Numbers and a sheet at the end of a leg; `training.evaluate` measures the exported pipelines."""
    pictures = crops[:: max(1, len(crops) // 16)][:16].to(editor.device).float() / 255
    latents = editor.latents.of(pictures)
    rows = torch.zeros(len(pictures), dtype=torch.long, device=editor.device)
    outputs = {}
    for name, references in (("1 reference", latents), ("2 references", torch.cat([latents, latents], 1))):
        outputs[name] = editor.latents.back(editor.sample(references, rows))
        leg.log(f"held out, empty prompt, {name}: {psnr(outputs[name], pictures):.2f} dB")
    sheet = [pictures, outputs["1 reference"]]
    for number, prompt in enumerate(PROMPTS[1:], 1):
        sheet.append(editor.latents.back(editor.sample(latents, rows + number)))
        goal = edit(pictures, prompt)
        leg.log(f"{prompt!r}: {psnr(sheet[-1], goal):.2f} dB to its goal, neutral {psnr(sheet[1], goal):.2f} dB")
    save_sheet(leg.out / "klein.png", sheet, columns=10, width=128)


def main(argv=None):
    parser = arguments(__doc__.splitlines()[0], batch=256)
    parser.add_argument("--vae", required=True, help="checkpoint of the VAE")
    parser.add_argument("--examples", type=int, default=6144, help="size of the bank")
    options = parser.parse_args(argv)
    leg = Leg("klein", options.out, options.minutes, options.steps, options.span)
    device = set_up(options.seed)
    pictures = Pictures(options.data, options.size, device, options.synthetic)
    vae = load_vae(options.vae, device)
    modules, tokenizer = networks.new_klein()
    if options.resume:
        load_checkpoint(options.resume, modules)
    modules = {name: module.to(device) for name, module in modules.items()}
    leg.log(f"{networks.parameters_in_millions(*modules.values())} M parameters")
    editor = Editor(modules, tokenizer, Latents(vae), options.size, device)
    rollouts = Rollouts(pictures, max(16, options.examples // 4), ROLLOUT_ROUNDS)
    bank = Bank(editor, pictures, rollouts, options.examples)
    optimisers, average, weights = Optimisers(modules), Average(modules), channel_weights(vae)
    refreshed = -BANK_SECONDS
    while leg.running():
        if leg.elapsed() - refreshed > BANK_SECONDS and (leg.step < 2 or leg.progress() < 0.97):
            bank.refresh(options.batch, able=leg.progress() > ROLLOUTS_FROM)
            refreshed = leg.elapsed()
        loss = flow_loss(editor, bank, options.batch, leg.step % 3 != 0, weights)
        optimisers.step(loss, leg.learning_rate(PEAK_RATE))
        average.update()
        if leg.step % 300 == 1:
            leg.log(f"step {leg.step}, loss {loss.item():.4f}")
        if leg.due():
            average.swap()
            leg.save(modules)
            average.swap()
    average.swap()
    leg.save(modules)
    leg.log(f"{leg.step} steps, weights saved")
    glance(editor, load_crops(options.data, held_out=True, size=options.size), leg)


if __name__ == "__main__":
    main()
