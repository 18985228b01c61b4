"""Loading: every row through the real from_pretrained, and every way in which that can fail."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from dltb import Interrupted, RunError, UsageError
from dltb.models import MODELS, describe_environment, load_pipeline, loading
from tests.models.checkpoints import save_checkpoint

every_row = pytest.mark.parametrize("key", MODELS)
EMBEDDED = [key for key, spec in MODELS.items() if spec.embedded]


def _modules(pipe) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}


@every_row
def test_every_row_loads_a_folder_of_its_class(key: str, random_model) -> None:
    """Catches a row whose class, variant or load arguments from_pretrained does not take, and text-to-image folders
    that are not mapped to their img2img pipeline."""
    pipe, spec = random_model(key)
    named = spec.pipeline if not spec.pipeline.startswith("Auto") else spec.folder_classes[-1]
    assert type(pipe).__name__ == named


@every_row
def test_everything_is_float32_and_ready_on_the_cpu(key: str, random_model) -> None:
    """Catches half precision on the CPU, modules of mixed types, and modules left in training mode."""
    pipe, _ = random_model(key)
    assert {part.dtype for part in _modules(pipe).values()} == {torch.float32}
    assert not any(part.training for part in _modules(pipe).values())
    assert pipe._progress_bar_config["disable"]


@pytest.mark.parametrize("key", EMBEDDED)
def test_embedded_models_load_whole(key: str, request) -> None:
    """Catches a part of an embedded model that is left at its random start, or in another type."""
    pipe, spec = request.getfixturevalue(key.replace("-", "_"))
    index = json.loads((spec.folder / "model_index.json").read_text())
    assert type(pipe).__name__ == index["_class_name"] == spec.pipeline
    assert type(pipe.vae).__name__ == index["vae"][1]
    assert {part.dtype for part in _modules(pipe).values()} == {torch.float32}
    assert not any(part.training for part in _modules(pipe).values())


def test_the_shared_vae_is_one_and_the_same(tiny_turbo, tiny_klein) -> None:
    """Catches the two models drifting apart: their VAEs must have equal tensors, klein's statistics apart."""
    turbo, klein = (loaded.pipe.vae.state_dict() for loaded in (tiny_turbo, tiny_klein))
    assert {name for name in klein if name not in turbo} == {name for name in klein if name.startswith("bn.")} != set()
    assert all(torch.equal(tensor, klein[name]) for name, tensor in turbo.items())


def test_a_vae_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Catches weights that are loaded in part and leave the rest random."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(loading.SHARED_VAE)
    tensors.pop("decoder.conv_out.weight")
    save_file(tensors, tmp_path / "vae.safetensors")
    monkeypatch.setattr(loading, "SHARED_VAE", tmp_path / "vae.safetensors")
    with pytest.raises(RunError, match=r"does not fit tiny-turbo \(at decoder.conv_out.weight\)"):
        load_pipeline(MODELS["tiny-turbo"])


def test_half_precision_files_load_as_one_type(tmp_path: Path) -> None:
    """Catches a float16 folder with and without variant files: found, not mixed, and float32 on the CPU."""
    save_checkpoint("StableDiffusionPipeline", tmp_path, variant="fp16")
    assert loading.resolve_variant(MODELS["sd-turbo"], tmp_path) == "fp16"
    pipe = load_pipeline(MODELS["sd-turbo"], weights=tmp_path)
    assert {part.dtype for part in _modules(pipe).values()} == {torch.float32}


@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.float32), ("cuda", torch.float16), ("mps", torch.float16)])
def test_the_dtype_follows_the_device(device: str, dtype: torch.dtype) -> None:
    """Catches half precision on the CPU, and float32 on an accelerator."""
    assert loading.resolve_dtype(MODELS["sd-turbo"], device) is dtype


def test_a_full_cache_works_offline() -> None:
    """Catches a load that asks the network for files which are all there."""
    commit = "1" * 40
    repo = Path(os.environ["HF_HOME"]) / "hub" / "models--stabilityai--sd-turbo"
    save_checkpoint("StableDiffusionPipeline", repo / "snapshots" / commit, variant="fp16")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    pipe = load_pipeline(MODELS["sd-turbo"])
    shutil.rmtree(repo)
    assert type(pipe).__name__ == "StableDiffusionImg2ImgPipeline"


@pytest.mark.parametrize("key", ["sd-turbo", "flux2-klein-4b", "flux2-klein-9b-kv"])
def test_an_empty_cache_offline_is_one_line(key: str) -> None:
    """Catches the page of chained tracebacks that a missing network otherwise gives."""
    with pytest.raises(
        RunError, match=f"^{MODELS[key].repo} is not complete in the cache .*HF_HUB_OFFLINE is set.*--weights$"
    ):
        load_pipeline(MODELS[key])


class _RefusingHub(BaseHTTPRequestHandler):
    """A hub on this machine that turns every request down, in the ways in which the real one does."""

    def do_GET(self) -> None:
        answers = {"schnell": (404, "RepoNotFound"), "klein-9b": (403, "GatedRepo"), "sd-turbo": (401, "")}
        status, code = next(answer for name, answer in answers.items() if name in self.path.lower())
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


_LOAD_ALL = """
from dltb import DltbError
from dltb.models import MODELS, load_pipeline
for key in ("flux-schnell", "flux2-klein-9b", "sd-turbo"):
    try:
        load_pipeline(MODELS[key])
    except DltbError as error:
        print(type(error).__name__, error)
"""


def test_what_the_hub_refuses_is_one_line_each() -> None:
    """Catches an error that does not say which repository, or where to go. In a fresh interpreter, since the
    libraries read the hub's address at import."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _RefusingHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", _LOAD_ALL], env=os.environ | address, capture_output=True, text=True)
    server.shutdown()
    missing, gated, token = done.stdout.splitlines()
    assert missing.startswith("UsageError the hub has no black-forest-labs/FLUX.1-schnell")
    for line, status, repo in [(gated, 403, "black-forest-labs/FLUX.2-klein-9B"), (token, 401, "stabilityai/sd-turbo")]:
        assert line.startswith(f"UsageError the hub refuses {repo} (HTTP {status}): accept its licence at https://")
        assert "HF_TOKEN" in line


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionError("no route"), "FLUX.1-schnell is not complete in the cache"),
        (torch.OutOfMemoryError("CUDA"), "does not fit in the device's memory .*48 GB.*--offload"),
        (ValueError("odd file\nand more"), "cannot load flux-schnell from .*: OSError: see above$"),
    ],
)
def test_causes_are_found_behind_a_wrapper(error: Exception, text: str) -> None:
    """Catches an error judged by its outermost wrapper alone, which is how diffusers raises."""
    wrapped = OSError("see above")
    wrapped.__cause__ = error
    message = str(loading.explain_load_error(wrapped, MODELS["flux-schnell"], None))
    assert re.search(text, message)
    assert "\n" not in message


@pytest.mark.parametrize("signal", [Interrupted(15, "stopped by SIGTERM"), KeyboardInterrupt()])
def test_a_signal_during_an_import_is_no_broken_checkpoint(signal: BaseException, monkeypatch) -> None:
    """Catches "cannot load" with a usage error's exit code where diffusers wrapped the signal as a failed import."""

    def importing(*_: object) -> None:
        try:
            raise signal
        except BaseException as error:
            raise RuntimeError("Failed to import diffusers.pipelines") from error

    monkeypatch.setattr(loading, "_from_pretrained", importing)
    with pytest.raises(type(signal)) as caught:
        load_pipeline(MODELS["tiny-turbo"])
    assert caught.value is signal


@pytest.mark.parametrize("part", ["unet/diffusion_pytorch_model.safetensors", "text_encoder/config.json", "vae"])
def test_a_folder_with_a_missing_part_is_one_line(part: str, checkpoint, tmp_path: Path) -> None:
    """Catches a half-copied folder: it must be named, not traced back, and never half random."""
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint("StableDiffusionPipeline"), folder)
    shutil.rmtree(folder / part) if (folder / part).is_dir() else (folder / part).unlink()
    with pytest.raises(UsageError, match=f"cannot load sd-turbo from {folder}: ") as caught:
        load_pipeline(MODELS["sd-turbo"], weights=folder)
    assert "\n" not in str(caught.value)


def test_offload_on_the_cpu_is_refused() -> None:
    """Catches the CPU being offloaded to itself."""
    with pytest.raises(UsageError, match="--offload"):
        load_pipeline(MODELS["tiny-turbo"], offload=True, device="cpu")


def test_only_the_false_line_is_dropped(random_model, caplog) -> None:
    """Catches a filter that hides the real warning about modules that have to stay float32."""
    pipe, _ = random_model("sdxl-turbo")
    log = logging.getLogger("diffusers")
    log.addHandler(caplog.handler)
    try:
        pipe.vae.to(dtype=torch.float32)
        assert caplog.messages == []
        pipe.vae._keep_in_fp32_modules = ["norm"]
        pipe.vae.to(dtype=torch.float32)
    finally:
        del pipe.vae._keep_in_fp32_modules
        log.removeHandler(caplog.handler)
    assert len(caplog.messages) == 1
    assert "['norm']" in caplog.messages[0]


def test_the_environment_says_what_ran() -> None:
    """Catches a run.json that cannot explain why two runs differ."""
    found = describe_environment("cpu")
    assert found["torch_threads"] == torch.get_num_threads()
    assert found["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert all(found["versions"].values())
    assert json.loads(json.dumps(found)) == found


def test_only_the_false_float32_line_is_dropped(tiny_turbo, monkeypatch) -> None:
    """Catches a filter that hides more: a list that names modules, and any other warning of that module, are true; and
    a wording of diffusers that the filter no longer meets."""
    log = logging.getLogger("diffusers.models.modeling_utils")
    seen: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: seen.append(record.getMessage())
    monkeypatch.setattr(log, "handlers", [listener])
    monkeypatch.setattr(log, "propagate", False)
    tiny_turbo.pipe.vae.to(dtype=torch.float32)
    assert seen == []
    monkeypatch.setattr(log, "filters", [])
    tiny_turbo.pipe.vae.to(dtype=torch.float32)
    assert [("AutoencoderKL" in text, "kept in float32: []" in text) for text in seen] == [(True, True)]
    monkeypatch.undo()
    monkeypatch.setattr(log, "handlers", [listener])
    monkeypatch.setattr(log, "propagate", False)
    for text in (true := [seen[0].replace("[]", "['norm']"), "something else"]):
        log.warning(text)
    assert seen[1:] == true
