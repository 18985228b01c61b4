"""What all tests share: no network, an empty hub cache, and the embedded models loaded once."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dltb.models.table import MODELS, ModelSpec
from tests.page_runs import runs  # noqa: F401 - a fixture

# Set here, before any test module imports a library that reads these at import.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# One thread: torch's spinning threads slow each other down several times over where tests share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="dltb-tests-hf-")
for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
    os.environ.pop(name, None)


class Loaded(NamedTuple):
    """A pipeline with its row of the table."""

    pipe: Any
    spec: ModelSpec


@pytest.fixture(scope="session", autouse=True)
def _remove_hub_cache() -> Iterator[None]:
    yield
    shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_turbo() -> Loaded:
    """The embedded img2img model on the CPU."""
    return _load("tiny-turbo")


@pytest.fixture(scope="session")
def tiny_klein() -> Loaded:
    """The embedded reference editor on the CPU."""
    return _load("tiny-klein")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny random checkpoint: ``checkpoint(class_name)``; copy it before changing anything in it."""
    from tests.models.checkpoints import save_checkpoint

    root = tmp_path_factory.mktemp("checkpoints")

    def folder(class_name: str) -> Path:
        if not (root / class_name).exists():
            save_checkpoint(class_name, root / class_name)
        return root / class_name

    return folder


@pytest.fixture(scope="session")
def random_model(checkpoint: Callable[[str], Path]) -> Callable[[str], Loaded]:
    """Any row of the table, loaded from a tiny random checkpoint of its pipeline class: ``random_model(key)``."""
    from dltb.models.loading import load_pipeline

    loaded: dict[str, Loaded] = {}

    def load(key: str) -> Loaded:
        spec = MODELS[key]
        if key not in loaded:
            loaded[key] = Loaded(load_pipeline(spec, weights=checkpoint(spec.folder_classes[0])), spec)
        return loaded[key]

    return load


@pytest.fixture(scope="session")
def picture() -> np.ndarray:
    """A 256x256 uint8 RGB frame with edges, gradients and colour."""
    from PIL import Image

    path = Path(__file__).parent.parent / "input_example" / "test_512.png"
    return np.asarray(Image.open(path).convert("RGB").resize((256, 256), Image.Resampling.LANCZOS))


@pytest.fixture
def small_picture(picture: np.ndarray) -> np.ndarray:
    """A 64x64 uint8 RGB frame, the smallest that every model takes."""
    return np.ascontiguousarray(picture[96:160, 96:160])


def _load(key: str) -> Loaded:
    from dltb.models.loading import load_pipeline

    return Loaded(load_pipeline(MODELS[key]), MODELS[key])


@pytest.fixture
def shared_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools called in this test's process get the embedded models that are loaded already."""
    import dltb.runs.model

    def loaded(spec: ModelSpec, **how: Any) -> Any:
        return request.getfixturevalue(spec.key.replace("-", "_")).pipe

    monkeypatch.setattr(dltb.runs.model, "load_pipeline", loaded)
