"""hf-cache.sh on a cache that the test makes."""

from pathlib import Path

import pytest

from tests.scripts.conftest import ROOT, Place

TURBO, XL, OTHER = "models--stabilityai--sd-turbo", "models--stabilityai--sdxl-turbo", "models--someone--else"
HERE = Place(ROOT)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """HF_HOME with three models, the transfer cache and a login."""
    home = tmp_path / "hf home"
    for name in (f"hub/{TURBO}", f"hub/{XL}", f"hub/{OTHER}", "xet"):
        (home / name).mkdir(parents=True)
        (home / name / "weights").write_bytes(b"x" * 5000)
    (home / "token").write_text("secret")
    return home


def left(cache: Path) -> set[str]:
    return {path.name for path in (*cache.glob("hub/*"), *cache.iterdir())} - {"hub"}


def test_status_names_every_model(cache: Path) -> None:
    """Catches a model that takes room unseen."""
    out = HERE.call("hf-cache.sh", "status", HF_HOME=str(cache)).stdout
    assert all(name in out for name in (TURBO, XL, OTHER, "xet", "free"))


@pytest.mark.parametrize(
    ("words", "stays"),
    [(["keep", "SD_Turbo"], {TURBO, "token"}), (["keep", "tiny-turbo"], {"token"}), (["clean"], {"token"})],
)
def test_making_room(words: list[str], stays: set[str], cache: Path) -> None:
    """Catches the wrong model evicted, one left because its name begins alike, and a login that is lost."""
    dry = HERE.call("hf-cache.sh", *words, HF_HOME=str(cache), DRY_RUN="1")
    assert dry.stdout.count("rm -rf -- ") == 5 - len(stays)
    assert left(cache) == {TURBO, XL, OTHER, "xet", "token"}
    assert HERE.call("hf-cache.sh", *words, HF_HOME=str(cache)).returncode == 0
    assert left(cache) == stays


def test_a_personal_cache_is_left_alone(cache: Path) -> None:
    """Catches an eviction from ~/.cache/huggingface because a variable was not set."""
    settings = {"HF_HOME": "", "XDG_CACHE_HOME": str(cache.parent)}
    (cache.parent / "huggingface").symlink_to(cache)
    for words in (["clean"], ["keep", "sd-turbo"]):
        done = HERE.call("hf-cache.sh", *words, **settings)
        assert done.returncode == 2
        assert "HF_HOME is not set" in done.stderr
    assert left(cache) == {TURBO, XL, OTHER, "xet", "token"}
    assert HERE.call("hf-cache.sh", "clean", **settings, FORCE="1").returncode == 0
    assert left(cache) == {"token"}


def test_an_unknown_model_evicts_nothing(cache: Path) -> None:
    """Catches `keep` with a typo that empties the cache."""
    done = HERE.call("hf-cache.sh", "keep", "sd-trubo", HF_HOME=str(cache))
    assert done.returncode == 2
    assert "unknown model 'sd-trubo'" in done.stderr
    assert left(cache) == {TURBO, XL, OTHER, "xet", "token"}
