"""Every stage at tiny size: two steps, a checkpoint, a second leg, and folders that diffusers loads."""

import csv
import io

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline, StableDiffusionImg2ImgPipeline
from PIL import Image
from safetensors.torch import load_file

from dltb.models import loading
from training import export, klein, linear_start, networks, scenes, turbo, vae
from training.data import dead_leaves, is_held_out
from training.edits import PROMPTS
from training.leg import Leg

SIZE = 48  # the widest blur of an edit needs more than 36 pixels
PASS_SIZE = 64  # the smallest that the pipelines take


def write_data(folder):
    """Six pictures in the format of the training data, two of them from held-out sources."""
    names = [f"pack/{number}.jpg" for number in range(200)]
    sources = [n for n in names if not is_held_out(n)][:4] + [n for n in names if is_held_out(n)][:2]
    blobs = []
    for picture in dead_leaves(len(sources), SIZE):
        stream = io.BytesIO()
        Image.fromarray((picture * 255).byte().permute(1, 2, 0).numpy()).save(stream, "WEBP")
        blobs.append(stream.getvalue())
    offsets = np.cumsum([0, *map(len, blobs)])
    np.savez(folder / "s.npz", blob=np.frombuffer(b"".join(blobs), np.uint8), off=offsets)
    with (folder / "index.tsv").open("w", newline="") as lines:
        table = csv.writer(lines, delimiter="\t")
        table.writerow(["shard", "pos", "source"])
        table.writerows(["s", number, source] for number, source in enumerate(sources))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Maps this small gain nothing from a second thread, and wait for it when the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def legs(tmp_path_factory):
    """Both legs of all stages, exported."""
    folder = tmp_path_factory.mktemp("legs")
    torch.manual_seed(0)
    write_data(folder)
    with pytest.MonkeyPatch.context() as patch:
        for stage in (klein, turbo):
            patch.setattr(stage, "CHUNK", 8)
            patch.setattr(stage, "ROLLOUT_EVERY", 1)
            patch.setattr(stage, "ROLLOUTS_FROM", -1)
        patch.setattr(turbo, "SHARPEN_FROM", -1)
        patch.setattr(scenes, "LOOK_AT", (1, 2))
        first = train_legs(folder)
    export.main([f"--legs={folder}", f"--out={folder / 'weights'}", f"--package={folder / 'package'}"])
    return folder, first


def train_legs(folder):
    """Two legs of each stage; gives the checkpoints of the first."""
    common = [f"--data={folder}", f"--out={folder}", f"--size={SIZE}", "--steps=2", "--batch=4", "--synthetic=4"]
    common.append("--minutes=0.01")
    shared = f"--vae={folder / 'vae.safetensors'}"
    vae.main(common)
    klein.main([*common, shared, "--examples=16"])
    turbo.main([*common, shared, "--examples=16", "--span", "0.5", "1"])
    first = {stage: load_file(folder / f"{stage}.safetensors") for stage in ("vae", "klein", "turbo")}
    vae.main([*common, f"--resume={folder / 'vae.safetensors'}", "--freeze-encoder"])
    klein.main([*common, shared, "--examples=16", f"--resume={folder / 'klein.safetensors'}"])
    turbo.main([*common, shared, "--examples=16", f"--resume={folder / 'turbo.safetensors'}"])
    kept = [*common[:1], f"--out={folder / 'kept'}", *common[2:], f"--resume={folder / 'vae.safetensors'}"]
    vae.main([*kept, "--keep-latents"])
    return first


@pytest.mark.parametrize("stage", ["klein", "turbo"])
def test_second_leg_goes_on_from_the_first(legs, stage):
    """Catches a resume that starts from random weights: two steps must leave most weights nearly where they were."""
    folder, first = legs
    second = load_file(folder / f"{stage}.safetensors")
    changes = [(second[key].float() - first[stage][key].float()).abs().max().item() for key in second]
    assert 0 < max(changes) < 0.05


def test_frozen_encoder_stays(legs):
    """Catches a decoder leg that moves the latents or their whitening under models trained on them."""
    folder, first = legs
    second = load_file(folder / "vae.safetensors")
    same = {key: torch.equal(second[key], first["vae"][key]) for key in second}
    assert all(kept for key, kept in same.items() if "encoder" in key or ".quant_conv" in key or "bn." in key)
    assert not all(kept for key, kept in same.items() if "decoder" in key)


def test_kept_latents_keep_their_whitening(legs):
    """Catches a leg whose whitening moves under models trained on its latents, and one that trains no encoder."""
    folder, _ = legs
    before, after = (load_file(folder / name) for name in ("vae.safetensors", "kept/vae.safetensors"))
    same = {key: torch.equal(before[key], after[key]) for key in before}
    assert all(kept for key, kept in same.items() if "bn." in key)
    assert not all(kept for key, kept in same.items() if "encoder" in key)


def test_kept_latents_are_measured_against_the_earlier_encoder(legs):
    """Catches a distance that is always 0, or that pulls nothing back."""
    folder, _ = legs
    earlier = vae.load_vae(folder / "vae.safetensors")
    trainer = vae.Trainer.__new__(vae.Trainer)
    trainer.earlier, trainer.device = earlier, torch.device("cpu")
    pictures = torch.rand(2, 3, SIZE, SIZE) * 2 - 1
    kept = earlier.encode(pictures).latent_dist.mode()
    assert trainer.distance(pictures, kept) == 0
    moved = (kept + 0.1).requires_grad_()
    distance = trainer.distance(pictures, moved)
    distance.backward()
    assert distance.item() == pytest.approx(0.01, rel=1e-3)
    assert (moved.grad > 0).all()


@pytest.mark.parametrize(
    "options", ["--keep-latents", "--freeze-encoder", "--keep-latents --freeze-encoder --resume=x"]
)
def test_latents_are_kept_of_a_checkpoint_only(options, capsys):
    """Catches an option that silently does nothing."""
    with pytest.raises(SystemExit):
        vae.main(["--data=x", "--out=y", *options.split()])
    error = capsys.readouterr().err
    assert "--resume" in error or "not allowed" in error


@pytest.mark.parametrize("stage", ["klein", "turbo"])
def test_the_gradient_goes_through_the_vae(legs, stage):
    """Catches a run whose passes are cut apart where a picture is stored between them."""
    folder, _ = legs
    shared = vae.load_vae(folder / "vae.safetensors")
    latents = klein.Latents(shared) if stage == "klein" else turbo.Latents(shared, 1.0)
    state = latents.of(torch.rand(1, 3, SIZE, SIZE)).detach().requires_grad_()
    again = latents.of(scenes.stored(latents.back(state)))
    again.square().sum().backward()
    assert state.grad.abs().max() > 0


def test_klein_folder_loads_and_runs(legs):
    """Catches an export that diffusers cannot load, and prompts longer than the token limit of the call."""
    folder, _ = legs
    pipeline = Flux2KleinPipeline.from_pretrained(folder / "weights" / export.KLEIN, dtype=torch.float32)
    picture = Image.new("RGB", (PASS_SIZE, PASS_SIZE), "teal")
    settings = {"max_sequence_length": networks.KLEIN_TOKENS, "text_encoder_out_layers": networks.KLEIN_LAYERS}
    size = {"height": PASS_SIZE, "width": PASS_SIZE, "num_inference_steps": 4, "guidance_scale": 1.0}
    answer = pipeline(image=[picture, picture], prompt="pixel art", **settings, **size)
    assert answer.images[0].size == (PASS_SIZE, PASS_SIZE)


def test_turbo_folder_loads_and_shares_the_vae(legs):
    """Catches a second copy of the VAE in the package, and a schedule that runs no step at strength 0.4."""
    folder, _ = legs
    shared = [folder / "weights" / name / export.VAE_TENSORS for name in (export.KLEIN, export.TURBO)]
    assert shared[0].resolve() == shared[1].resolve()
    path = folder / "weights" / export.TURBO
    pipeline = StableDiffusionImg2ImgPipeline.from_pretrained(path, dtype=torch.float32, safety_checker=None)
    picture, times = Image.new("RGB", (PASS_SIZE, PASS_SIZE), "teal"), []

    def record(pipeline, step, time, values):
        times.append(int(time))
        return values

    settings = {"num_inference_steps": 4, "strength": 0.4, "guidance_scale": 0.0, "callback_on_step_end": record}
    pipeline(image=picture, prompt="", **settings)
    assert times == [turbo.SCHEDULE[0]]


@pytest.mark.parametrize(("strength", "steps_run"), [(0.4, 1), (0.8, 3)])
def test_turbo_trains_on_what_the_pipeline_runs(legs, strength, steps_run):
    """Catches another prediction type, schedule, scale or prompt than the exported pipeline has."""
    folder, _ = legs
    path = folder / "weights" / export.TURBO
    pipeline = StableDiffusionImg2ImgPipeline.from_pretrained(path, dtype=torch.float32, safety_checker=None)
    picture = Image.fromarray((dead_leaves(1, PASS_SIZE)[0] * 255).byte().permute(1, 2, 0).numpy())
    settings = {"num_inference_steps": 4, "strength": strength, "guidance_scale": 0.0, "output_type": "pt"}
    answer = pipeline(image=picture, prompt="pixel art", generator=torch.Generator().manual_seed(3), **settings).images
    scale = pipeline.vae.config.scaling_factor
    latents = turbo.Latents(vae.load_vae(folder / "vae.safetensors"), scale)
    modules = {"unet": pipeline.unet, "text_encoder": pipeline.text_encoder}
    painter = turbo.Painter(modules, networks.turbo_tokenizer(), latents, torch.device("cpu"))
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255
    generator = torch.Generator().manual_seed(3)
    posterior = pipeline.vae.encode(pixels * 2 - 1).latent_dist.sample(generator) * scale
    noise = torch.randn(posterior.shape, generator=generator)
    row = torch.tensor([PROMPTS.index("pixel art")])
    torch.testing.assert_close(painter.paint(posterior, noise, row, steps_run), answer, atol=2e-3, rtol=0)


def test_package_holds_the_vae_once(legs):
    """Catches a package with the VAE's tensors twice or not at all, and files other than those it ships today."""
    folder, _ = legs
    shipped = loading.SHARED_VAE.parents[1]

    def names(root):
        return sorted(str(path.relative_to(root)) for path in root.glob("tiny-*/**/*") if path.is_file())

    assert names(folder / "package") == names(shipped)


def test_four_steps_are_those_of_the_pipeline(legs):
    """Catches training on other noise levels than the pipeline runs."""
    folder, _ = legs
    pipeline = Flux2KleinPipeline.from_pretrained(folder / "weights" / export.KLEIN, dtype=torch.float32)
    picture, seen = Image.new("RGB", (PASS_SIZE, PASS_SIZE)), []

    def record(pipeline, step, time, values):
        seen.append(float(time) / 1000)
        return values

    settings = {"max_sequence_length": networks.KLEIN_TOKENS, "text_encoder_out_layers": networks.KLEIN_LAYERS}
    size = {"height": PASS_SIZE, "width": PASS_SIZE, "num_inference_steps": 4, "guidance_scale": 1.0}
    pipeline(image=picture, prompt="", callback_on_step_end=record, **settings, **size)
    levels = klein.four_steps((PASS_SIZE // 16) ** 2, torch.device("cpu"))
    torch.testing.assert_close(torch.tensor(seen), levels[:-1], atol=1e-4, rtol=0)


class FewPictures:
    def sample(self, count):
        return dead_leaves(count, SIZE, leaves=8)


def test_grafted_vae_equals_the_linear_codec(tmp_path):
    """Catches a slip in the head start: the network must begin as exactly the linear codec that was trained."""
    torch.manual_seed(0)
    pictures = FewPictures()
    network = networks.new_vae()
    model = linear_start.give_head_start(network, pictures, Leg("test", tmp_path, 1, 3, (0, 1)), 0.1, batch=8)
    sample = pictures.sample(4) * 2 - 1
    with torch.no_grad():
        latents = model.encoder(sample)
        gap = network.encode(sample).latent_dist.mode() - latents
        assert gap.std() < 0.02 * latents.std()
        expected = model.decoder(latents)
        assert (network.decode(latents).sample - expected).std() < 0.02 * expected.std()


def test_encoder_starts_as_the_block_transform():
    """Catches a wrong order of rows, columns or colours in the space-to-depth start."""
    torch.manual_seed(0)
    components = linear_start.block_pca(dead_leaves(8, SIZE) * 2 - 1, linear_start.ENCODER_SIGNALS)
    model = linear_start.LinearAutoencoder(networks.LATENT_CHANNELS)
    for layer in model.encoder:
        torch.nn.init.zeros_(layer.weight)
    linear_start.start_encoder(model, components)
    sample = dead_leaves(2, SIZE) * 2 - 1
    with torch.no_grad():
        expected = torch.nn.functional.conv2d(sample, components[: networks.LATENT_CHANNELS], stride=8)
        torch.testing.assert_close(model.encoder(sample), expected, atol=1e-4, rtol=1e-3)


def test_compiled_unet_is_used():
    """Catches a truth test on the compiled network, which raises: the GPU leg died of it, the CPU leg never saw it."""
    modules, tokenizer = networks.new_turbo()
    painter = turbo.Painter(modules, tokenizer, None, torch.device("cpu"))
    noisy, rows = torch.randn(2, networks.LATENT_CHANNELS, 8, 8), torch.tensor([0, 3])
    times = torch.tensor([249, 499])
    compiled = torch.compile(modules["unet"], backend="eager", dynamic=False)
    with torch.no_grad():
        plain = painter.clean(noisy, times, rows)
        torch.testing.assert_close(painter.clean(noisy, times, rows, compiled), plain, atol=1e-4, rtol=1e-4)
