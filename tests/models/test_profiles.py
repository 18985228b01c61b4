"""Which profiles are refused where, before anything loads."""

import pytest

from dltb import UsageError
from dltb.models import MODELS
from dltb.models.profiles import PROFILES, check_profile


@pytest.mark.parametrize("device", ["cuda", "mps", "cpu"])
@pytest.mark.parametrize("key", MODELS)
def test_exact_runs_everywhere(key, device) -> None:
    """Catches a default that some machine refuses."""
    check_profile("exact", MODELS[key], device=device, offload=True)


@pytest.mark.parametrize(
    ("profile", "key", "device", "text"),
    [
        ("fp8", "flux2-klein-4b", "cpu", "needs a CUDA device of compute capability 8.9 or newer, not CPU"),
        ("fp8", "flux2-klein-4b", "mps", "not MPS"),
        ("fp8", "sd-turbo", "cuda", "nothing to do in sd-turbo"),
        ("fast", "sd-turbo", "mps", "not on MPS"),
        ("quick", "sd-turbo", "cuda", "unknown profile 'quick'; known: exact, fast, fp8"),
    ],
)
def test_what_cannot_work_is_refused(profile, key, device, text) -> None:
    """Catches a profile that fails, or does nothing, only after minutes of loading."""
    with pytest.raises(UsageError, match=text):
        check_profile(profile, MODELS[key], device=device)


@pytest.mark.parametrize("profile", PROFILES[1:])
def test_a_changed_model_is_not_offloaded(profile) -> None:
    """Catches compiled or quantised parts being moved away under their graphs."""
    with pytest.raises(UsageError, match="leave --offload away"):
        check_profile(profile, MODELS["flux2-klein-4b"], device="cuda", offload=True)


def test_an_old_card_is_refused_by_name(monkeypatch) -> None:
    """Catches fp8 on a card that cannot multiply it, which fails in the first pass."""
    import torch

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "RTX 3090")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 6))
    with pytest.raises(UsageError, match=r"RTX 3090 has 8\.6"):
        check_profile("fp8", MODELS["flux2-klein-4b"], device="cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 9))
    check_profile("fp8", MODELS["flux2-klein-4b"], device="cuda")


def test_a_missing_compiler_is_named(monkeypatch, tmp_path) -> None:
    """Catches a long traceback of the compiler's absence in the first pass."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UsageError, match="g\\+\\+ is not found"):
        check_profile("fast", MODELS["tiny-turbo"], device="cpu")
    compiler = tmp_path / "mine"
    compiler.touch(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    check_profile("fast", MODELS["tiny-turbo"], device="cpu")
