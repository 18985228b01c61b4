"""Average two checkpoints of one network, weight by weight, the second a leg gone on from the first.

    python -m training.mix --first a/klein.safetensors --second b/klein.safetensors --share 0.3 --out legs/klein.safetensors

Keeps what the first leg did better without giving up all that the second learned (Wortsman et al. 2022).
"""

import argparse
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def mix(first, second, share):
    """# {name: tensor}, `share` of the second; integers from the first"""
    return {
        name: torch.lerp(tensor.float(), second[name].float(), share).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", required=True, type=Path)
    parser.add_argument("--second", required=True, type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args(argv)
    with safe_open(options.first, "pt") as stored:
        notes = stored.metadata()
    save_file(mix(load_file(options.first), load_file(options.second), options.share), options.out, metadata=notes)


if __name__ == "__main__":
    main()
