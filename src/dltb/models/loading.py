"""From a row of the table to a pipeline that is ready to run.

Every model takes the same path, diffusers' ``from_pretrained``: from the hub, from a local folder, or from the folder
of an embedded model inside this package. Whatever goes wrong there becomes one line that says where to go.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dltb import DltbError, RunError, UsageError, causes, interruption
from dltb.models.checks import check_offload, check_weights_folder
from dltb.models.table import WEIGHTS_DIR, ModelSpec

SHARED_VAE = WEIGHTS_DIR / "tiny-vae" / "diffusion_pytorch_model.safetensors"


def load_pipeline(
    spec: ModelSpec, offload: bool = False, device: str = "cpu", weights: str | Path | None = None
) -> Any:
    """Load a model and put it on its device; ``weights`` is a local diffusers folder to load instead of the row's."""
    check_offload(offload, device)
    if weights is not None:
        check_weights_folder(spec, weights)
    _calm_the_log()
    with _one_line_errors(spec, weights), _loading_bars(visible=sys.stderr.isatty() and not spec.embedded):
        pipe = _from_pretrained(spec, device, weights)
        return _place(pipe, device, offload)


def _from_pretrained(spec: ModelSpec, device: str, weights: str | Path | None) -> Any:
    import diffusers

    dtype = resolve_dtype(spec, device)
    folder = Path(weights) if weights is not None else spec.folder
    arguments = {
        # Always said: a float16 folder loaded without it mixes float16 and float32 modules.
        "dtype": dtype,
        "variant": resolve_variant(spec, folder),
        **spec.load_arguments,
    }
    if weights is None and spec.folder is not None:
        arguments["vae"] = build_shared_vae(spec.folder, dtype)
    return getattr(diffusers, spec.pipeline).from_pretrained(folder or spec.repo, **arguments)


def resolve_dtype(spec: ModelSpec, device: str) -> Any:
    """The torch dtype to load in: the row's, but float32 on the CPU, where half precision is slow or missing."""
    import torch

    return torch.float32 if device == "cpu" else getattr(torch, spec.dtype)


def resolve_variant(spec: ModelSpec, folder: Path | None) -> str | None:
    """The row's file variant, unless a local folder has no files of it; diffusers would refuse such a folder."""
    if spec.variant is None or folder is None:
        return spec.variant
    return spec.variant if any(folder.glob(f"*/*.{spec.variant}*")) else None


def build_shared_vae(folder: Path, dtype: Any) -> Any:
    """The VAE of an embedded model: its own class and config, with the one set of tensors that these models share.

    The package holds the tensors once. They belong to the FLUX.2 class; the plain class has the same encoder and
    decoder without the latent statistics ``bn.*``.
    """
    import diffusers
    from safetensors.torch import load_file

    index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
    vae_class = getattr(diffusers, index["vae"][1])
    vae = vae_class.from_config(vae_class.load_config(folder / "vae"))
    tensors, expected = load_file(SHARED_VAE), set(vae.state_dict())
    strangers = {name for name in tensors.keys() - expected if not name.startswith("bn.")}
    if strangers or expected - tensors.keys():
        wrong = min(strangers | (expected - tensors.keys()))
        raise RunError(f"{SHARED_VAE} does not fit {folder.name} (at {wrong}): this installation is damaged")
    vae.load_state_dict({name: tensors[name] for name in expected})
    return vae.to(dtype=dtype).eval()


def _place(pipe: Any, device: str, offload: bool) -> Any:
    if offload:
        pipe.enable_model_cpu_offload(device=device)
    else:
        pipe.to(device)
    if device == "mps":
        pipe.enable_attention_slicing()
    pipe.set_progress_bar_config(disable=True)  # a loop has its own
    # A loop makes the same call thousands of times; a warning about its arguments is worth saying once.
    logging.getLogger(type(pipe).__module__).addFilter(_ONCE)
    return pipe


class _FalseFloat32Alarm(logging.Filter):
    """Drops one line that diffusers writes on every cast of a model of which nothing has to stay float32.

    The list at its end is empty then; a list with names in it is a real warning and passes.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return "should be kept in float32: []" not in record.getMessage()


class _Once(logging.Filter):
    """Lets every text through the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_new = text not in self.seen
        self.seen.add(text)
        return is_new


_FALSE_ALARM = _FalseFloat32Alarm()
_ONCE = _Once()


def _calm_the_log() -> None:
    logging.getLogger("diffusers.models.modeling_utils").addFilter(_FALSE_ALARM)


@contextlib.contextmanager
def _loading_bars(*, visible: bool) -> Iterator[None]:
    """Hide the libraries' bars about loading files, where nobody watches or it takes a moment only."""
    from diffusers.utils import logging as diffusers_log
    from transformers.utils import logging as transformers_log

    hidden = [log for log in (diffusers_log, transformers_log) if log.is_progress_bar_enabled() and not visible]
    for log in hidden:
        log.disable_progress_bar()
    try:
        yield
    finally:
        for log in hidden:
            log.enable_progress_bar()


@contextlib.contextmanager
def _one_line_errors(spec: ModelSpec, weights: str | Path | None) -> Iterator[None]:
    try:
        yield
    except DltbError:
        raise
    except Exception as error:
        if (arrived := interruption(error)) is not None:
            raise arrived from None
        # Whatever from_pretrained raises is about the checkpoint, the network or the memory; the cause stays chained.
        raise explain_load_error(error, spec, weights) from error


def explain_load_error(error: BaseException, spec: ModelSpec, weights: str | Path | None) -> DltbError:
    """What a failed load means for the user, judged by the whole chain of causes."""
    import torch
    from huggingface_hub import errors as hub

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in causes(error))

    status = _http_status(error)
    if caused_by(torch.OutOfMemoryError) or "out of memory" in str(error).lower():
        known = f" (reported to need a {spec.vram_gb} GB card)" if spec.vram_gb else ""
        return RunError(f"{spec.key} does not fit in the device's memory{known}: use --offload or a smaller --model")
    if weights is not None or spec.embedded:
        return UsageError(f"cannot load {spec.key} from {weights or spec.folder}: {_first_line(error)}")
    if caused_by(hub.GatedRepoError) or status in (401, 403):
        return UsageError(
            f"the hub refuses {spec.repo} (HTTP {status}): accept its licence at {spec.license_page} and set HF_TOKEN "
            "or run `hf auth login` with that account, or give a local folder with --weights"
        )
    if caused_by(hub.RepositoryNotFoundError):
        return UsageError(
            f"the hub has no {spec.repo}, or hides it from this account: look at {spec.license_page}, or give a local "
            "folder with --weights"
        )
    unreachable = (hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled, ConnectionError, TimeoutError)
    # diffusers' pipelines hide the hub's error behind an OSError that names both of its reasons.
    hidden = "local_files_only" in str(error) and "Cannot load model" in str(error)
    if status is None and (hidden or caused_by(*unreachable)):
        return RunError(_not_cached(spec))
    return RunError(f"cannot load {spec.key} from {spec.repo}: {_first_line(error)}")


def _not_cached(spec: ModelSpec) -> str:
    from huggingface_hub import constants

    size = f" (about {spec.disk_gb:g} GB)" if spec.disk_gb else ""
    offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub cannot be reached"
    return (
        f"{spec.repo} is not complete in the cache {constants.HF_HUB_CACHE} and {offline}: run once online{size}, or "
        "give a local folder with --weights"
    )


def _http_status(error: BaseException) -> int | None:
    responses = (getattr(link, "response", None) for link in causes(error))
    return next((response.status_code for response in responses if response is not None), None)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {text[0]}"
