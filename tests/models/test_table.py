"""The table of models: complete, consistent, and readable without importing anything heavy."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

from dltb import UsageError
from dltb.models import MODELS, ModelSpec, model_key

# key: repo, native size, guidance scale, strength, explicit size, gated. Users' scripts rely on these.
CONTRACT = {
    "tiny-turbo": ("tiny-turbo", 256, 0.0, True, False, False),
    "tiny-klein": ("tiny-klein", 256, 1.0, False, True, False),
    "sd-turbo": ("stabilityai/sd-turbo", 512, 0.0, True, False, False),
    "sdxl-turbo": ("stabilityai/sdxl-turbo", 768, 0.0, True, False, False),
    "flux-schnell": ("black-forest-labs/FLUX.1-schnell", 768, 0.0, True, True, False),
    "flux2-klein-4b": ("black-forest-labs/FLUX.2-klein-4B", 768, 1.0, False, True, False),
    "flux2-klein-9b": ("black-forest-labs/FLUX.2-klein-9B", 768, 1.0, False, True, True),
    "flux2-klein-9b-kv": ("black-forest-labs/FLUX.2-klein-9b-kv", 768, 1.0, False, True, True),
}

every_row = pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())


@pytest.mark.parametrize("key", CONTRACT)
def test_rows_keep_their_contract(key: str) -> None:
    """Catches an edit of a row that changes what an existing command does."""
    spec = MODELS[key]
    row = (spec.repo, spec.native_size, spec.guidance_scale, spec.uses_strength, spec.pass_size, spec.gated)
    assert row == CONTRACT[key]


@every_row
def test_a_row_is_filed_under_its_key(spec: ModelSpec) -> None:
    """Catches a key that model_key could never return, which would make the row unreachable."""
    assert MODELS[spec.key] is spec
    assert model_key(spec.key.upper().replace("-", "_")) == spec.key


@every_row
def test_a_row_can_be_a_dict_key_and_cannot_be_edited(spec: ModelSpec) -> None:
    """Catches a mutable field: one run's change would leak into the next, and rows could not be hashed."""
    hash(spec)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.native_size = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        spec.call_arguments["prompt"] = "x"  # type: ignore[index]


@every_row
def test_a_row_matches_the_call_of_its_pipeline(spec: ModelSpec) -> None:
    """Catches a row that passes an argument its pipeline lacks, or leaves out one that it has."""
    import diffusers

    name = spec.folder_classes[-1] if spec.uses_strength else spec.pipeline
    call = inspect.signature(getattr(diffusers, name).__call__).parameters
    assert ("strength" in call) == spec.uses_strength
    assert ("guidance_scale" in call) == spec.takes_guidance
    assert {"height", "width"} <= call.keys() or not spec.pass_size
    assert "negative_prompt" in call or not spec.takes_negative_prompt
    assert spec.call_arguments.keys() <= call.keys()


@every_row
def test_embedded_files_are_there(spec: ModelSpec) -> None:
    """Catches a package that is built without the weights of a model it offers."""
    if spec.folder is not None:
        assert (spec.folder / "model_index.json").is_file()
        assert all(spec.folder.glob(pattern) for pattern in ("*/config.json", "*/*.safetensors"))


@pytest.mark.parametrize("text", ["sd_turbo", "SD-Turbo", " sd-turbo "])
def test_spelling_variants_are_one_key(text: str) -> None:
    """Catches a key that depends on case, underscores or a stray blank."""
    assert model_key(text) == "sd-turbo"


def test_an_unknown_key_names_the_known_ones() -> None:
    """Catches an error that leaves the user to guess what is accepted."""
    with pytest.raises(
        UsageError, match=r"unknown model 'sdxl-trubo' \(did you mean sdxl-turbo\?\); known: tiny-turbo, "
    ):
        model_key("sdxl-trubo")


def test_reading_the_table_imports_nothing_heavy() -> None:
    """Catches an import that would make every --help take seconds."""
    program = (
        "import sys, dltb.models, dltb.imaging; from dltb.models import MODELS, model_key, resolve_geometry;"
        "resolve_geometry(MODELS['sd-turbo'], None, None);"
        "print([name for name in ('numpy', 'PIL', 'torch', 'cv2', 'huggingface_hub') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
