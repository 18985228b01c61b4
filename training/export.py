"""Write the checkpoints as two diffusers folders in float16.

    python -m training.export --legs untracked/legs --out untracked/weights

The VAE's tensors are written once, into tiny-klein/vae; tiny-turbo/vae gets its config and a link to them.
`--package src/dltb/models/weights` also puts them where the package keeps them: the VAE's tensors in tiny-vae alone.
"""

import argparse
import shutil
from pathlib import Path

import torch

from training import networks
from training.leg import load_checkpoint
from training.vae import load_vae

KLEIN, TURBO = "tiny-klein", "tiny-turbo"
VAE_TENSORS = Path("vae") / "diffusion_pytorch_model.safetensors"


def link_vae(out):
    """Replace turbo's copy of the VAE by a link to klein's, which holds the whitening statistics as well."""
    copy = out / TURBO / VAE_TENSORS
    copy.unlink()
    copy.symlink_to(Path("..") / ".." / KLEIN / VAE_TENSORS)


def export_klein(legs, out):
    modules, tokenizer = networks.new_klein()
    load_checkpoint(legs / "klein.safetensors", modules)
    vae = load_vae(legs / "vae.safetensors")
    networks.klein_pipeline(vae, modules, tokenizer).to(dtype=torch.float16).save_pretrained(out / KLEIN)


def export_turbo(legs, out, scale=None):
    modules, tokenizer = networks.new_turbo()
    notes = load_checkpoint(legs / "turbo.safetensors", modules)
    vae = load_vae(legs / "vae.safetensors")
    pipeline = networks.turbo_pipeline(vae, modules, tokenizer, scale or notes["scale"])
    pipeline.to(dtype=torch.float16).save_pretrained(out / TURBO)


def fill_package(out, package):
    """Copy both folders without the VAE's tensors, and these beside them; links do not survive a wheel."""
    for name in (KLEIN, TURBO):
        for part in sorted(path for path in (out / name).iterdir() if path.is_dir()):
            rule = shutil.ignore_patterns(VAE_TENSORS.name) if part.name == "vae" else None
            shutil.copytree(part, package / name / part.name, ignore=rule, dirs_exist_ok=True)
        shutil.copy(out / name / "model_index.json", package / name)
    (package / "tiny-vae").mkdir(exist_ok=True)
    shutil.copy(out / KLEIN / VAE_TENSORS, package / "tiny-vae")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--legs", required=True, type=Path, help="folder with vae, klein and turbo .safetensors")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--package", type=Path, help="the package's own folder of weights")
    options = parser.parse_args(argv)
    export_klein(options.legs, options.out)
    export_turbo(options.legs, options.out)
    link_vae(options.out)
    if options.package:
        fill_package(options.out, options.package)


if __name__ == "__main__":
    main()
