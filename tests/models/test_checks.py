"""What is refused before anything loads."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dltb import UsageError
from dltb.models import MODELS, check_requirements, resolve_geometry

GATED = [spec for spec in MODELS.values() if spec.gated]


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())
def test_the_native_size_is_the_default(spec: Any) -> None:
    """Catches a native size that the row's own limits refuse."""
    assert resolve_geometry(spec, None, None) == (spec.native_size, spec.native_size)


def test_one_side_alone_keeps_the_other_native() -> None:
    """Catches width and height being swapped."""
    assert resolve_geometry(MODELS["sd-turbo"], 640, None) == (640, 512)
    assert resolve_geometry(MODELS["sd-turbo"], None, 640) == (512, 640)


@pytest.mark.parametrize(("width", "text"), [(0, "--width 0"), (-16, "--width -16"), (500, "nearest is 496")])
def test_a_side_off_the_grid_is_refused(width: int, text: str) -> None:
    """Catches a size that the pipeline would round unasked, so that output and source differ in size."""
    with pytest.raises(UsageError, match=text):
        resolve_geometry(MODELS["sd-turbo"], width, 512)


@pytest.mark.parametrize(
    ("size", "text"),
    [((48, 256), "at least 64 px"), ((1040, 128), "at most 8:1"), ((1536, 1024), r"shrinks references above")],
)
def test_klein_sizes_are_checked_before_the_run(size: tuple[int, int], text: str) -> None:
    """Catches sizes that klein refuses only in the middle of a run, or shrinks without a word."""
    with pytest.raises(UsageError, match=text):
        resolve_geometry(MODELS["flux2-klein-4b"], *size)
    assert resolve_geometry(MODELS["sdxl-turbo"], *size) == size


def test_klein_limits_themselves_are_accepted() -> None:
    """Catches an off-by-one at the limits."""
    for size in [(64, 512), (1024, 128), (1024, 1024)]:
        assert resolve_geometry(MODELS["tiny-klein"], *size) == size


@pytest.mark.parametrize(("steps", "strength"), [(5, 0.2), (10, 0.1), (20, 0.05), (100, 0.01), (1, 1.0), (3, 0.34)])
def test_a_schedule_of_one_step_is_accepted(steps: int, strength: float) -> None:
    """Catches a product that floating point puts just under 1 being refused."""
    check_requirements(MODELS["tiny-turbo"], num_inference_steps=steps, strength=strength)


@pytest.mark.parametrize(("steps", "strength", "advice"), [(2, 0.4, 3), (1, 0.99, 2), (4, 0.1, 10), (3, 0.3, 4)])
@pytest.mark.parametrize("key", ["tiny-turbo", "flux-schnell"])
def test_a_schedule_of_no_step_is_refused(key: str, steps: int, strength: float, advice: int) -> None:
    """Catches a run whose SD pipeline would run no step, and advice that would be refused again."""
    with pytest.raises(UsageError, match=f"e.g. --num-inference-steps {advice}$"):
        check_requirements(MODELS[key], num_inference_steps=steps, strength=strength)
    check_requirements(MODELS[key], num_inference_steps=advice, strength=strength)


@pytest.mark.parametrize("strength", [0.0, -0.5, 1.01, float("nan")])
def test_a_strength_outside_its_range_is_refused(strength: float) -> None:
    """Catches a strength that diffusers refuses after the weights have loaded."""
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        check_requirements(MODELS["tiny-turbo"], strength=strength, num_inference_steps=4)


def test_klein_has_no_strength_to_check() -> None:
    """Catches steps x strength being applied to a model that always runs the whole schedule."""
    check_requirements(MODELS["tiny-klein"], strength=0.1, num_inference_steps=1)
    with pytest.raises(UsageError, match="at least 1"):
        check_requirements(MODELS["tiny-klein"], num_inference_steps=0)


def test_offload_on_the_cpu_is_refused() -> None:
    """Catches a flag that would do nothing, or fail deep inside accelerate."""
    with pytest.raises(UsageError, match="--offload"):
        check_requirements(MODELS["sd-turbo"], offload=True, device="cpu")


@pytest.mark.parametrize("spec", GATED, ids=lambda spec: spec.key)
def test_a_gated_model_names_its_licence_page(spec: Any) -> None:
    """Catches a long download that ends in a bare 401."""
    with pytest.raises(UsageError, match=f"https://huggingface.co/{spec.repo}.*HF_TOKEN.*--weights"):
        check_requirements(spec)


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_a_token_opens_a_gated_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches one of the two variables being forgotten."""
    monkeypatch.setenv(name, "hf_not_a_real_token")
    check_requirements(GATED[0])


def test_a_saved_login_opens_a_gated_model() -> None:
    """Catches users of `hf auth login` being turned away."""
    token = Path(os.environ["HF_HOME"]) / "token"
    token.parent.mkdir(exist_ok=True)
    token.write_text("hf_not_a_real_token")
    try:
        check_requirements(GATED[0])
    finally:
        token.unlink()


def test_cached_weights_open_a_gated_model() -> None:
    """Catches a pod that downloaded the weights once being turned away without a token."""
    commit = "0" * 40
    repo = Path(os.environ["HF_HOME"]) / "hub" / ("models--" + GATED[0].repo.replace("/", "--"))
    for path, text in [(repo / "refs" / "main", commit), (repo / "snapshots" / commit / "model_index.json", "{}")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    check_requirements(GATED[0])
    (repo / "refs" / "main").unlink()
    (repo / "snapshots" / commit / "model_index.json").unlink()


def _folder(path: Path, class_name: str) -> Path:
    (path / "model_index.json").write_text(json.dumps({"_class_name": class_name}))
    return path


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())
def test_a_local_folder_of_the_right_kind_opens_every_model(spec: Any, tmp_path: Path) -> None:
    """Catches a row that refuses the folder its own repository would give, or a gate in front of local files."""
    for class_name in spec.folder_classes:
        check_requirements(spec, weights=_folder(tmp_path, class_name))


def test_a_local_folder_of_another_kind_is_named(tmp_path: Path) -> None:
    """Catches loading SDXL weights into an SD pipeline, which fails late and at length."""
    with pytest.raises(
        UsageError, match="holds a StableDiffusionXLPipeline, but sd-turbo takes a StableDiffusionPipeline"
    ):
        check_requirements(MODELS["sd-turbo"], weights=_folder(tmp_path, "StableDiffusionXLPipeline"))


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "no model_index.json"), ("{", "not a JSON file"), ("[]", "names no pipeline class"), ("{}", "names no")],
)
def test_a_folder_that_is_no_pipeline_is_named(content: str | None, text: str, tmp_path: Path) -> None:
    """Catches a traceback for a folder of something else, such as a bare checkpoint."""
    if content is not None:
        (tmp_path / "model_index.json").write_text(content)
    with pytest.raises(UsageError, match=text):
        check_requirements(MODELS["sd-turbo"], weights=tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Catches a mistyped path being taken for the name of a repository."""
    with pytest.raises(UsageError, match="no such folder"):
        check_requirements(MODELS["sd-turbo"], weights=tmp_path / "nowhere")


def test_a_light_install_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an ImportError traceback where torch is left out on purpose."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else real(name))
    with pytest.raises(UsageError, match=r"needs torch: `uv sync` in a checkout, or `pip install 'dltb\[models\]'`"):
        check_requirements(MODELS["tiny-turbo"])
