"""What can be refused before anything loads. Needs no torch, and imports huggingface_hub only for a gated model."""

import importlib.util
import json
from pathlib import Path

from dltb import UsageError
from dltb.imaging.limits import check_reference_size, check_side
from dltb.models.table import ModelSpec


def resolve_geometry(spec: ModelSpec, width: int | None, height: int | None) -> tuple[int, int]:
    """Width and height of a pass in px; None is the model's native size."""
    size = (spec.native_size if width is None else width, spec.native_size if height is None else height)
    check_side("--width", size[0])
    check_side("--height", size[1])
    if spec.edits_references:
        check_reference_size(spec.key, *size)
    return size


def check_requirements(
    spec: ModelSpec,
    *,
    strength: float | None = None,
    num_inference_steps: int | None = None,
    weights: str | Path | None = None,
    offload: bool = False,
    device: str | None = None,
) -> None:
    """Refuse a request that cannot work, before anything loads: settings, folder, installed packages, licence."""
    check_schedule(spec, strength=strength, num_inference_steps=num_inference_steps)
    check_offload(offload, device)
    if weights is not None:
        check_weights_folder(spec, weights)
    check_installed()
    if spec.gated and weights is None:
        check_access(spec)


def check_schedule(spec: ModelSpec, *, strength: float | None, num_inference_steps: int | None) -> None:
    """Refuse a schedule in which no step would run; None stands for a value that is not known here."""
    if num_inference_steps is not None and num_inference_steps < 1:
        raise UsageError(f"--num-inference-steps {num_inference_steps}: at least 1 is needed")
    if not spec.uses_strength or strength is None:
        return
    if not 0 < strength <= 1:
        raise UsageError(f"--strength {strength:g}: a value above 0 and at most 1 is needed")
    # The very expression with which the SD pipelines count their steps, rounding included.
    if num_inference_steps is not None and int(num_inference_steps * strength) < 1:
        raise UsageError(
            f"--num-inference-steps {num_inference_steps} x --strength {strength:g} is below 1: no step would run; "
            f"raise one of them, e.g. --num-inference-steps {_steps_for(strength)}"
        )


def _steps_for(strength: float) -> int:
    """The shortest schedule of which at least one step runs."""
    steps = max(1, int(1 / strength))
    return steps if int(steps * strength) >= 1 else steps + 1


def check_offload(offload: bool, device: str | None) -> None:
    """Refuse offloading from the CPU to the CPU; None is a device that is not known yet."""
    if offload and device == "cpu":
        raise UsageError("--offload moves a model between main memory and a GPU: leave it away with --device cpu")


def check_installed() -> None:
    """Refuse when the packages that run a model are missing, as they are in a light install."""
    missing = [name for name in ("torch", "diffusers", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"running a model needs {', '.join(missing)}: `uv sync` in a checkout, or `pip install 'dltb[models]'`"
        )


def check_weights_folder(spec: ModelSpec, weights: str | Path) -> None:
    """Refuse a ``--weights`` folder that is missing or holds another kind of pipeline than the row's."""
    if not str(weights):
        raise UsageError("--weights is empty; give a folder, or leave the flag out")
    index = Path(weights) / "model_index.json"
    if not index.parent.is_dir():
        raise UsageError(f"--weights {weights}: no such folder; a diffusers folder with a model_index.json is needed")
    if not index.is_file():
        raise UsageError(
            f"--weights {weights}: no model_index.json in it; the folder of a diffusers pipeline is needed"
        )
    found = _class_name(index)
    if found not in spec.folder_classes:
        accepted = " or ".join(spec.folder_classes)
        raise UsageError(f"--weights {weights}: holds a {found}, but {spec.key} takes a {accepted}")


def _class_name(index: Path) -> str:
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{index}: not a JSON file ({error})") from None
    name = content.get("_class_name") if isinstance(content, dict) else None
    return name if isinstance(name, str) else "folder that names no pipeline class"


def check_access(spec: ModelSpec) -> None:
    """Refuse a gated model to which nobody is logged in and of which nothing has been downloaded."""
    if not is_logged_in() and not is_cached(spec):
        raise UsageError(
            f"{spec.key} is gated: accept its licence at {spec.license_page}, then set HF_TOKEN or run "
            "`hf auth login`, or give a local folder with --weights"
        )


def is_logged_in() -> bool:
    """Whether there is a token in the environment (HF_TOKEN, HUGGING_FACE_HUB_TOKEN) or of a saved login."""
    from huggingface_hub import get_token

    return bool(get_token())


def is_cached(spec: ModelSpec) -> bool:
    """Whether a download of this model has at least begun; loading finds out whether it is complete."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(spec.repo, "model_index.json"), str)
