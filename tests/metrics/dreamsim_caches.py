"""DreamSim caches of the layout that the package reads, with random weights: checkpoints, adapters, hub code.

The files' names and keys, the package, peft and torch.hub are real. What stands in: the weights; the width of the
networks, unless a test asks for the full one; and the code behind the two hub repositories, which is not downloaded here:
dreamsim's own copy of DINO's network, and timm's DINOv2.
"""

from functools import partial
from pathlib import Path

import torch
from dreamsim import PerceptualModel
from dreamsim.config import dreamsim_args
from dreamsim.feature_extraction import load_clip_as_dino, load_open_clip_as_dino, load_synclr_as_dino
from dreamsim.feature_extraction.vision_transformer import VisionTransformer
from peft import LoraConfig, get_peft_model

from dltb.metrics.dreamsim import VARIANTS

FULL_WIDTH = 768
SMALL_WIDTH = 24
_HEAD = {"mlp.0": (2048, FULL_WIDTH), "mlp.2": (2048, 2048), "mlp.4": (256, 2048)}
_DINO_CODE = """
import torch
from dreamsim.feature_extraction.vision_transformer import VisionTransformer

URL = "https://dl.fbaipublicfiles.com/dino/dino_vitbase16_pretrain/dino_vitbase16_pretrain.pth"

def dino_vitb16(pretrained=True):
    weights = torch.hub.load_state_dict_from_url(URL, map_location="cpu")
    width = weights["norm.weight"].numel()
    model = VisionTransformer(patch_size=16, embed_dim=width, num_heads=12, qkv_bias=True)
    model.load_state_dict(weights)
    return model
"""
_DINOV2_CODE = """
import timm, torch

URL = "https://dl.fbaipublicfiles.com/dinov2/dinov2_vitb14/dinov2_vitb14_pretrain.pth"

def dinov2_vitb14(pretrained=True):
    weights = torch.hub.load_state_dict_from_url(URL, map_location="cpu")
    width = weights["norm.weight"].numel()
    model = timm.create_model("vit_base_patch14_dinov2", img_size=224, num_classes=0, embed_dim=width)
    model.load_state_dict(weights)
    return model
"""


def narrow_networks(monkeypatch) -> None:
    """Let the package build its networks in SMALL_WIDTH; the width is a constant in its code."""
    for module in (load_clip_as_dino, load_open_clip_as_dino, load_synclr_as_dino):
        monkeypatch.setattr(module, "vit_base", partial(_vit, SMALL_WIDTH))


def make_cache(cache: Path, variant: str, width: int = SMALL_WIDTH) -> Path:
    """Fill a cache for one variant; with SMALL_WIDTH, `narrow_networks` must be in force."""
    cache.mkdir(parents=True, exist_ok=True)
    _save_hub(cache, VARIANTS[variant].hub, width)
    for name in VARIANTS[variant].weights:
        if not name.endswith("_lora"):
            torch.save(_checkpoint(name, width), cache / name)
    for name in VARIANTS[variant].weights:
        if name.endswith("_lora"):
            _save_adapter(cache, variant, name)
    return cache


def _vit(width: int, patch_size: int = 16) -> VisionTransformer:
    return VisionTransformer(patch_size=patch_size, embed_dim=width, num_heads=12, qkv_bias=True)


def _checkpoint(name: str, width: int) -> dict:
    if name.startswith("dino_"):
        head = {f"module.head.{layer}.weight": _random(size) for layer, size in _HEAD.items()}
        head |= {f"module.head.{layer}.bias": _random(size[:1]) for layer, size in _HEAD.items()}
        return {"student": {**head, "module.head.last_layer.weight": _random((2048, 256))}}
    if name.startswith("dinov2"):
        return {}  # the package wants the file and reads the weights through torch.hub
    if name.startswith("synclr"):
        return {"model": {f"module.visual.{key}": value for key, value in _weights(_vit(width)).items()}}
    network = _vit(width, patch_size=32 if "vitb32" in name else 16)
    network.pos_drop = torch.nn.LayerNorm(width)
    return {"state_dict": {**_weights(network), "proj": _random((width, 2 * width // 3))}}


def _save_hub(cache: Path, names: tuple[str, ...], width: int) -> None:
    if not names:
        return
    repository, weights = names
    (cache / repository).mkdir()
    (cache / repository / "hubconf.py").write_text(_DINOV2_CODE if "dinov2" in repository else _DINO_CODE)
    (cache / weights).parent.mkdir(exist_ok=True)
    if "dinov2" in repository:
        import timm

        network = timm.create_model("vit_base_patch14_dinov2", img_size=224, num_classes=0, embed_dim=width)
    else:
        network = _vit(width)
    torch.save(_weights(network), cache / weights)


def _save_adapter(cache: Path, variant: str, name: str) -> None:
    folder = torch.hub.get_dir()
    torch.manual_seed(1)
    try:
        model = PerceptualModel(**dreamsim_args["model_config"][variant], load_dir=str(cache), device="cpu")
        config = LoraConfig(r=2, lora_alpha=0.5, target_modules=["qkv"], init_lora_weights=False)
        get_peft_model(model, config).save_pretrained(cache / name)
    finally:
        torch.hub.set_dir(folder)


def _weights(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Random tensors of the network's shapes; scales stay near 1, so that signals neither die nor explode."""
    return {
        name: _random(value.shape) + 1 if value.ndim == 1 and name.endswith("weight") else _random(value.shape)
        for name, value in network.state_dict().items()
    }


def _random(size: tuple[int, ...]) -> torch.Tensor:
    """Random values of which no more than a few thousand are stored: full-size files stay small."""
    torch.manual_seed(sum(size))
    stored = 0.1 * torch.randn(sum(size))
    return stored.as_strided(tuple(size), (1,) * len(size))
