"""Measure exported weights on held-out pictures, through the pipelines as the tools call them.

    python -m training.evaluate --weights untracked/weights --data untracked/train256 --out untracked/evaluation

Writes numbers.json, model-card.md and contact sheets. `--images` and `--passes` trade time for certainty: a pass of the
pipelines takes 0.2 to 0.5 s on two cores, and everything an hour.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from training.card import write_card
from training.data import load_crops
from training.edits import FRAME_FIRST, LADDER, PROMPTS, STYLES, WEATHERING, edit, name_roles, relative_detail
from training.export import KLEIN, TURBO
from training.sheets import save_sheet
from training.vae import measure, psnr

SEED = 1234
PAN = 4  # pixels a frame


class Models:
    """Both pipelines; pictures in and out as float [3, H, W], 0..1, rounded to 8 bits."""

    def __init__(self, weights, device):
        from diffusers import Flux2KleinPipeline, StableDiffusionImg2ImgPipeline

        settings = {"torch_dtype": torch.float32}
        self.klein_pipeline = Flux2KleinPipeline.from_pretrained(Path(weights) / KLEIN, **settings)
        settings["safety_checker"] = None
        self.turbo_pipeline = StableDiffusionImg2ImgPipeline.from_pretrained(Path(weights) / TURBO, **settings)
        for pipeline in (self.klein_pipeline, self.turbo_pipeline):
            pipeline.set_progress_bar_config(disable=True)
            pipeline.to(device)

    def klein(self, references, prompt=""):
        answer = self.klein_pipeline(
            image=[to_image(reference) for reference in references],
            prompt=prompt,
            num_inference_steps=4,
            guidance_scale=1.0,
            height=references[0].shape[1],
            width=references[0].shape[2],
            max_sequence_length=64,
            text_encoder_out_layers=(1, 2, 3),
            generator=torch.Generator().manual_seed(SEED),
        )
        return to_tensor(answer.images[0])

    def turbo(self, picture, prompt="", strength=0.4):
        answer = self.turbo_pipeline(
            image=to_image(picture),
            prompt=prompt,
            num_inference_steps=4,
            strength=strength,
            guidance_scale=0.0,
            generator=torch.Generator().manual_seed(SEED),
        )
        return to_tensor(answer.images[0])


def to_image(picture):
    from PIL import Image

    return Image.fromarray((picture * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def to_tensor(image):
    import numpy as np

    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def each(function, pictures):
    return torch.stack([function(picture) for picture in pictures])


def seconds(function, repeats=3):
    """Best of a few calls after a warm-up."""
    function()
    times = []
    for _ in range(repeats):
        started = time.monotonic()
        function()
        times.append(time.monotonic() - started)
    return round(min(times), 3)


def difference(first, second):
    return (first - second).abs().mean().item()


def gains(outputs, neutral, pictures):
    """dB by which each prompt's outputs are nearer to their goal than the neutral outputs are."""
    goals = {prompt: edit(pictures, prompt) for prompt in outputs}
    return {prompt: round(psnr(outputs[prompt], goals[prompt]) - psnr(neutral, goals[prompt]), 2) for prompt in outputs}


def hue_shift(outputs, neutral):
    """How far the mean colour moves from red and blue towards green, in parts of the full range."""
    change = (outputs - neutral).mean((0, 2, 3))
    return round((change[1] - (change[0] + change[2]) / 2).item(), 4)


def structure(outputs, pictures):
    """Mean correlation of horizontal and vertical luma gradients: 1 where every edge is kept."""
    scores = []
    for axis in (1, 2):
        ours, theirs = (maps.mean(1).diff(dim=axis).flatten(1) for maps in (outputs, pictures))
        scores.append(torch.nn.functional.cosine_similarity(ours - ours.mean(), theirs - theirs.mean()))
    return round(torch.stack(scores).mean().item(), 3)


def measure_klein(models, pictures, out):
    one = each(lambda picture: models.klein([picture]), pictures)
    two = each(lambda picture: models.klein([picture, picture]), pictures)
    outputs = {prompt: each(lambda picture, p=prompt: models.klein([picture], p), pictures) for prompt in PROMPTS[1:]}
    save_sheet(out / "klein-prompts.png", [pictures, one, *outputs.values()], width=128)
    ladder = [one, *(outputs[prompt] for prompt in LADDER[1:])]
    gained = gains(outputs, one, pictures)
    return {
        "empty prompt, 1 reference, dB": round(psnr(one, pictures), 2),
        "empty prompt, 2 references, dB": round(psnr(two, pictures), 2),
        "ladder, detail energy against the input": [relative_detail(step, pictures) for step in ladder],
        "weathering, shift towards green": hue_shift(outputs[WEATHERING], one),
        "weathering, structure": structure(outputs[WEATHERING], pictures),
        "nearer to the goal than neutral, dB": gained,
        "weakest style, dB": min(gained[style] for style in STYLES),
    }


def influence(models, picture, frames, prompt="", state_first=True):
    """Movement of the output over movement of the second reference, between each pair of frames."""

    def run(frame):
        return models.klein([picture, frame] if state_first else [frame, picture], prompt)

    outputs = [run(frame) for frame in frames]
    ratios = [
        difference(outputs[0], other) / difference(frames[0], frame)
        for frame, other in zip(frames[1:], outputs[1:], strict=True)
    ]
    return sum(ratios) / len(ratios)


def pan(models, picture, frames, warp, state_first=True, prompt=""):
    """A loop over a wrapping pan; gives the output's motion over the source's, last half of the run."""
    state, motion = picture, []
    for number in range(1, frames):
        frame = picture.roll(PAN * number, 2)
        before, carried = state, state.roll(PAN, 2) if warp else state
        state = models.klein([carried, frame] if state_first else [frame, carried], prompt)
        motion.append(difference(state, before) / difference(frame, frame.roll(-PAN, 2)))
    late = motion[len(motion) // 2 :]
    return sum(late) / len(late)


def tail(models, picture, second, passes):
    """Mean absolute distance to the start after some passes, 0..255; `second` None is the free tail."""
    state = picture
    for _ in range(passes):
        state = models.klein([state] if second is None else [state, second])
    return 255 * difference(state, picture)


def mean_over(pictures, function):
    return round(sum(function(picture, number) for number, picture in enumerate(pictures)) / len(pictures), 3)


def measure_references(models, pictures, passes):
    """Who leads with two references."""
    black = torch.zeros_like(pictures[0])

    def frames(picture, number):
        return [picture, picture.roll(24, 2), pictures[number - 1], black]

    def lead(first, prompt=""):
        return mean_over(pictures, lambda p, n: influence(models, p, frames(p, n), prompt, first))

    role = name_roles("", FRAME_FIRST)
    return {
        "influence of the second reference, state first": lead(True),
        "influence of the frame, frame first, no roles named": lead(False),
        "influence of the frame, frame first, roles named": lead(False, role),
        "motion without warp, state first": mean_over(pictures, lambda p, n: pan(models, p, passes, False)),
        "motion with warp, state first": mean_over(pictures, lambda p, n: pan(models, p, passes, True)),
        "motion without warp, frame first": mean_over(pictures, lambda p, n: pan(models, p, passes, False, False)),
        "free tail, distance": mean_over(pictures, lambda p, n: tail(models, p, None, passes)),
        "black tail, distance": mean_over(pictures, lambda p, n: tail(models, p, black, passes)),
        "freeze tail, distance": mean_over(pictures, lambda p, n: tail(models, p, p, passes)),
    }


def measure_turbo(models, pictures, out):
    numbers, sheet = {}, [pictures]
    for strength in (0.4, 0.8):
        neutral = each(lambda picture, s=strength: models.turbo(picture, "", s), pictures)
        outputs = {
            prompt: each(lambda picture, p=prompt, s=strength: models.turbo(picture, p, s), pictures)
            for prompt in PROMPTS[1:]
        }
        numbers[f"strength {strength}"] = {
            "empty prompt, dB": round(psnr(neutral, pictures), 2),
            "detail energy against the input": relative_detail(neutral, pictures),
            "nearer to the goal than neutral, dB": gains(outputs, neutral, pictures),
        }
        sheet += [neutral, *(outputs.values() if strength == 0.4 else [outputs[WEATHERING]])]
    save_sheet(out / "turbo-prompts.png", sheet, width=128)
    return numbers


def free_run(one_pass, pictures, passes, path):
    """Run freely from each picture; detail, distances to the start and between the ends."""
    states, sheet, rates = pictures, [pictures], []
    for number in range(1, passes + 1):
        states = each(one_pass, states)
        if number in (1, 5, 10, 20, 50, 100, 200):
            sheet.append(states)
            rates.append(round(255 * difference(states, pictures), 2))
    save_sheet(path, sheet, width=128)
    return {
        "passes": passes,
        "distance to the start after 1, 5, 10, 20, 50, 100, 200": rates,
        "detail energy against the input": relative_detail(states, pictures),
        "distance between two ends": round(255 * difference(states[0], states[1]), 2),
        "spread of one end": round(255 * states.std((1, 2, 3)).min().item(), 2),
        "finite": bool(states.isfinite().all()),
    }


def measure_free_runs(models, pictures, passes, out):
    runs = {
        "turbo, empty prompt": models.turbo,
        "turbo, an oil painting": lambda picture: models.turbo(picture, "an oil painting"),
        "klein, empty prompt": lambda picture: models.klein([picture]),
        "klein, slight": lambda picture: models.klein([picture], LADDER[1]),
    }
    return {
        name: free_run(run, pictures, passes, out / f"free-{name.replace(', ', '-').replace(' ', '-')}.png")
        for name, run in runs.items()
    }


def megabytes(weights):
    """Tensor files, links counted once."""
    files = {path.resolve() for path in Path(weights).rglob("*.safetensors")}
    return round(sum(path.stat().st_size for path in files) / 1e6, 2)


def measure_speed(models, picture):
    return {
        "turbo, 4 steps x 0.4": seconds(lambda: models.turbo(picture)),
        "klein, 1 reference": seconds(lambda: models.klein([picture])),
        "klein, 2 references": seconds(lambda: models.klein([picture, picture])),
        "threads": torch.get_num_threads(),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True, type=Path, help="folder with tiny-klein and tiny-turbo")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--images", type=int, default=8, help="pictures for the prompts")
    parser.add_argument("--passes", type=int, default=200, help="passes of the free runs")
    parser.add_argument(
        "--device", default="cpu", help="cuda measures all but the seconds, in float32 too (%(default)s)"
    )
    parser.add_argument("--only", nargs="*", help="sections: vae klein references turbo free speed")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    models, crops = Models(options.weights, options.device), load_crops(options.data, held_out=True)
    pictures = crops[:: max(1, len(crops) // options.images)][: options.images].float() / 255
    sections = {
        "vae": lambda: measure(models.klein_pipeline.vae, crops)[0],
        "speed": lambda: measure_speed(models, pictures[0]),
        "klein": lambda: measure_klein(models, pictures, options.out),
        "turbo": lambda: measure_turbo(models, pictures, options.out),
        "references": lambda: measure_references(models, pictures[:3], passes=10),
        "free": lambda: measure_free_runs(models, pictures[1:3], options.passes, options.out),
    }
    path = options.out / "numbers.json"
    numbers = json.loads(path.read_text()) if path.exists() else {}
    numbers["megabytes"], numbers["pictures"] = megabytes(options.weights), len(pictures)
    for name in options.only or sections:
        with torch.no_grad():
            numbers[name] = sections[name]()
        path.write_text(json.dumps(numbers, indent=2))
        print(name, json.dumps(numbers[name]), flush=True)
    write_card(numbers, options.out / "model-card.md")


if __name__ == "__main__":
    main()
