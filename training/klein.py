"""Train tiny-klein: a reference-image editor in the latents of the shared VAE.

    python -m training.klein --data untracked/train256 --vae untracked/legs/vae.safetensors --out untracked/legs --minutes 8

Rectified flow from noise to the edited picture, given one or two references and the instruction. Half of the
noise levels drawn are those of the four-step schedule that the pipeline runs.

Two references: the state leads. The target is always the edited, clean version of the state: the second reference is
mostly the same scene moved, sometimes black, sometimes another scene, and moves nothing. A prompt that names
the roles the other way round ("keep the appearance of image 2") makes the second reference the state.

Beside these examples go runs of the model over its own output, up to ROLLOUT_ROUNDS passes old, each with the noise of
its own seed (`scenes.Rollouts`); with two references the second one stays with its run. From there they go on for UNROLL
passes of four steps each, decoded and encoded between them, and all of these shall give what the prompt makes of the
original. The VAE alone takes some per cent off a latent in every round; so the model learns to put that back.

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
from training.edits import FRAME_FIRST, PROMPTS, STATE_FIRST, draw_prompt, edit, name_roles, relative_detail
from training.leg import Average, Leg, arguments, half_precision, load_checkpoint, set_up
from training.scenes import Rollouts, free_run, second_frames, stored, wear
from training.sheets import save_sheet
from training.vae import decode, encode, load_vae, psnr

PEAK_RATE = 1e-3
CHUNK = 64  # pictures edited with the same prompt
ROLLOUT_ROUNDS = 100
ROLLOUT_LOST = 0.5  # squared error over variance, in whitened latents
ROLLOUT_EVERY = 2  # steps between two passes of some runs
ROLLOUT_CAPACITY = 2  # in units of the runs of a batch, for each number of references
ROLLOUT_NEUTRAL = 0.5  # share of the runs with the empty prompt
STEPS = 4
BANK_SECONDS = 60
ROLLOUTS_FROM = 0.3  # progress
UNROLL = 3  # passes with a gradient
HOLD_WEIGHT = 1.0  # of the runs against the fresh examples


class Latents:
    """Pictures <-> packed, whitened latents, as the pipeline makes them."""

    def __init__(self, vae):
        self.vae = vae
        self.mean = vae.bn.running_mean.view(1, -1, 1, 1)
        self.deviation = (vae.bn.running_var + vae.config.batch_norm_eps).sqrt().view(1, -1, 1, 1)

    def of(self, pictures):
        """# float [B, 3, H, W] -> [B, tokens, channels]"""
        with half_precision(pictures.device):
            latents = encode(self.vae, pictures)
        latents = Flux2KleinPipeline._patchify_latents(latents.float())
        return Flux2KleinPipeline._pack_latents((latents - self.mean) / self.deviation)

    def back(self, packed):
        """# [B, tokens, channels] -> float [B, 3, H, W]"""
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

    def text(self, prompt_rows):
        with half_precision(self.device):
            return self.prompts.embed(self.modules["text_encoder"], prompt_rows)

    def velocity(self, noisy, references, level, text, transformer):
        count = references.shape[1] // self.tokens
        batch, states = len(noisy), torch.cat([noisy, references], 1)
        if torch.is_grad_enabled() and not states.requires_grad:
            states.requires_grad_()  # as in later steps: compiled code is for one kind of input
        with half_precision(self.device):
            answer = transformer(
                hidden_states=states,
                timestep=level.contiguous(),
                guidance=None,
                encoder_hidden_states=text,
                txt_ids=self.positions.text.expand(batch, -1, -1),
                img_ids=self.positions.image[count].expand(batch, -1, -1),
                return_dict=False,
            )[0]
        return answer[:, : self.tokens].float()

    def sample(self, references, text, noise, transformer):
        """Four Euler steps.  # packed latents"""
        state = noise
        for level, following in pairwise(self.levels):
            answer = self.velocity(state, references, level.expand(len(state)), text, transformer)
            state = state + (following - level) * answer
        return state

    @torch.no_grad()
    def output(self, runs):
        """A pass of the loop.  # pictures"""
        text, transformer = self.text(runs["row"]), self.modules["transformer"]
        return self.latents.back(self.sample(references_of(runs), text, runs["noise"].float(), transformer))


def references_of(runs):
    """State and second frame, if there is one.  # packed latents"""
    frames = [runs["frame"]] if "frame" in runs else []
    return torch.cat([runs["state"], *frames], 1).float()


class Begin:
    """New runs: pictures with a prompt, noise and maybe a second frame, as half-precision latents."""

    def __init__(self, editor, pictures, count, pair):
        self.editor, self.pictures, self.count, self.pair = editor, pictures, count, pair

    @torch.no_grad()
    def __call__(self):
        of = self.editor.latents.of
        scenes, prompt = self.pictures.sample(self.count), draw_prompt(ROLLOUT_NEUTRAL)
        state, target = of(scenes).half(), of(edit(scenes, PROMPTS[prompt])).half()
        named = self.pair * int(torch.randint(2, ())) * ORDERS.index(STATE_FIRST)
        row = torch.full((self.count,), named * len(PROMPTS) + prompt, device=self.editor.device)
        run = {"state": state, "target": target, "noise": torch.randn_like(state), "row": row}
        return run | {"frame": of(second_frames(scenes)).half()} if self.pair else run


class Bank:
    """Targets, references and prompts of some thousand examples, as half-precision latents."""

    def __init__(self, editor, pictures, examples):
        self.editor, self.pictures, self.examples = editor, pictures, examples

    @torch.no_grad()
    def refresh(self):
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
        of = self.editor.latents.of
        scenes, prompt, pair = self.pictures.sample(CHUNK), draw_prompt(), number % 3 != 0
        target = of(edit(scenes, PROMPTS[prompt])).half()
        order = int(torch.multinomial(torch.tensor([0.5, 0.35, 0.15]), 1)) if pair else 0
        rows = torch.full((CHUNK,), order * len(PROMPTS) + prompt, device=self.editor.device)
        if not pair:
            return target, of(scenes).half(), None, rows
        first, second = of(wear(scenes)).half(), of(second_frames(scenes)).half()
        if ORDERS[order] == FRAME_FIRST:
            first, second = second, first
        return target, first, second, rows

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
    """One batch of fresh examples with one or two references."""
    targets, references, rows = bank.draw(batch, pair)
    noise, levels = torch.randn_like(targets), noise_levels(editor.levels, batch)
    noisy = torch.lerp(targets, noise, levels.view(-1, 1, 1))
    answer = editor.velocity(noisy, references, levels, editor.text(rows), editor.fast)
    return (weights * F.mse_loss(answer, noise - targets, reduction="none")).mean()


def hold(editor, runs, weights, passes=UNROLL):
    """Some passes from the states of runs: the mean loss of their latents, before and after a picture file holds them.

    The gradient goes through all of them, the VAE too. A single pass does best to let some of its noise through and to
    leave the VAE's loss alone; over many passes under the same noise both add up.
    """
    targets, noise, text, made = runs["target"].float(), runs["noise"].float(), editor.text(runs["row"]), []
    for _ in range(passes):
        made.append(editor.sample(references_of(runs), text, noise, editor.fast))
        made.append(editor.latents.of(stored(editor.latents.back(made[-1]))))
        runs = runs | {"state": made[-1]}
    return torch.stack([(weights * (latents - targets).square()).mean() for latents in made]).mean()


@torch.no_grad()
def glance(editor, crops, leg):
    """Numbers and a sheet at the end of a leg; `training.evaluate` measures the exported pipelines."""
    pictures = crops[:: max(1, len(crops) // 16)][:16].to(editor.device).float() / 255
    state = editor.latents.of(pictures)
    rows = torch.zeros(len(pictures), dtype=torch.long, device=editor.device)
    one = {"state": state, "noise": torch.randn_like(state[:1]).expand_as(state), "row": rows}
    outputs = {"1 reference": editor.output(one), "2 references": editor.output(one | {"frame": state})}
    for name, output in outputs.items():
        leg.log(f"held out, empty prompt, {name}: {psnr(output, pictures):.2f} dB")
    sheet = [pictures, outputs["1 reference"]]
    for number, prompt in enumerate(PROMPTS[1:], 1):
        sheet.append(editor.output(one | {"row": rows + number}))
        goal, detail = edit(pictures, prompt), relative_detail(sheet[-1], pictures)
        gain = psnr(sheet[-1], goal) - psnr(sheet[1], goal)
        leg.log(f"{prompt!r}: nearer to its goal than neutral by {gain:.2f} dB, detail x {detail}")
    save_sheet(leg.out / "klein.png", sheet, columns=10, width=128)
    black = editor.latents.of(torch.zeros_like(pictures))
    free_run(editor, one, pictures, leg, "klein-one")
    for name, second in (("black", black), ("freeze", state)):
        free_run(editor, one | {"frame": second}, pictures, leg, f"klein-{name}", passes=20)


def new_editor(options, leg, device):
    """The networks, fresh or as resumed, with the VAE."""
    vae = load_vae(options.vae, device)
    modules, tokenizer = networks.new_klein()
    if options.resume:
        load_checkpoint(options.resume, modules)
    modules = {name: module.to(device) for name, module in modules.items()}
    leg.log(f"{networks.parameters_in_millions(*modules.values())} M parameters")
    return Editor(modules, tokenizer, Latents(vae), options.size, device)


def train(editor, pictures, leg, batch, examples):
    """Steps until the leg is over; its averaged weights are saved, and stay in the editor."""
    count = max(2, batch // 2)  # one shape for runs and for the halves of the batch: compiled once
    begin = [Begin(editor, pictures, count, pair) for pair in (False, True)]
    limits = (ROLLOUT_CAPACITY * count, count, ROLLOUT_ROUNDS, ROLLOUT_LOST)
    one, two = (Rollouts(start, *limits) for start in begin)
    bank, weights = Bank(editor, pictures, examples), channel_weights(editor.latents.vae)
    optimisers, average = Optimisers(editor.modules), Average(editor.modules)
    refreshed = -BANK_SECONDS
    while leg.running():
        if leg.elapsed() - refreshed > BANK_SECONDS and (leg.step < 2 or leg.progress() < 0.97):
            bank.refresh()
            refreshed = leg.elapsed()
        late, pair = leg.progress() > ROLLOUTS_FROM, leg.step % 3 > 0
        if late and leg.step % ROLLOUT_EVERY == 0:
            (one if leg.step % (2 * ROLLOUT_EVERY) else two).advance(editor)
        flow = sum(flow_loss(editor, bank, count, pair, weights) for _ in range(2)) / 2
        held = hold(editor, (two if pair else one).draw(count), weights) if late else 0.0
        optimisers.step(flow + HOLD_WEIGHT * held, leg.learning_rate(PEAK_RATE))
        average.update()
        if leg.step % 100 == 1:
            losses = f"loss {flow.item():.4f}, held {float(held):.4f}"
            leg.log(f"step {leg.step}, {losses}, runs {one.ages()}; {two.ages()}")
        if leg.due():
            leg.save_average(average)
    leg.save_average(average)
    average.swap()


def main(argv=None):
    parser = arguments(__doc__.splitlines()[0], batch=96)
    parser.add_argument("--vae", required=True, help="checkpoint of the VAE")
    parser.add_argument("--examples", type=int, default=6144, help="size of the bank")
    options = parser.parse_args(argv)
    leg = Leg("klein", options.out, options.minutes, options.steps, options.span)
    device = set_up(options.seed)
    pictures = Pictures(options.data, options.size, device, options.synthetic)
    editor = new_editor(options, leg, device)
    train(editor, pictures, leg, options.batch, options.examples)
    leg.log(f"{leg.step} steps, weights saved")
    glance(editor, load_crops(options.data, held_out=True, size=options.size), leg)


if __name__ == "__main__":
    main()
