"""Where a model runs, on machines with every combination of devices."""

import pytest

from dltb import UsageError
from dltb.models import MODELS, device, resolve_device

EMBEDDED = [spec for spec in MODELS.values() if spec.embedded]
FULL_SIZE = [spec for spec in MODELS.values() if not spec.embedded]


def _machine(monkeypatch: pytest.MonkeyPatch, *present: str) -> None:
    """Pretend that torch finds these accelerators; test machines have none."""
    monkeypatch.setattr(device, "available_devices", lambda: (*present, "cpu"))


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize(("present", "best"), [(("cuda", "mps"), "cuda"), (("cuda",), "cuda"), (("mps",), "mps")])
def test_the_best_accelerator_is_taken(spec, present, best, monkeypatch) -> None:
    """Catches a machine's accelerator being left idle."""
    _machine(monkeypatch, *present)
    assert resolve_device(None, spec) == best


@pytest.mark.parametrize("spec", FULL_SIZE, ids=lambda spec: spec.key)
def test_a_full_size_model_never_lands_on_the_cpu_unasked(spec, monkeypatch) -> None:
    """Catches an hour-long pass that nobody asked for, and an error that does not name the way out."""
    _machine(monkeypatch)
    small = "tiny-klein" if spec.edits_references else "tiny-turbo"
    with pytest.raises(UsageError, match=f"--model {small}, .*--device cpu .*slow"):
        resolve_device(None, spec)
    assert resolve_device("cpu", spec) == "cpu"


@pytest.mark.parametrize("spec", EMBEDDED, ids=lambda spec: spec.key)
def test_an_embedded_model_takes_the_cpu(spec, monkeypatch) -> None:
    """Catches the README's first command failing on a machine without a GPU."""
    _machine(monkeypatch)
    assert resolve_device(None, spec) == "cpu"


@pytest.mark.parametrize(("present", "best"), [(("cuda", "mps"), "cuda"), (("mps",), "mps"), ((), "cpu")])
def test_a_metric_takes_the_best_device_there_is(present, best, monkeypatch) -> None:
    """Catches a metric refused on a machine without a GPU, or left on the CPU of one with."""
    _machine(monkeypatch, *present)
    assert device.best_device(None) == best
    assert device.best_device("cpu") == "cpu"
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        device.best_device("gpu")


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_missing_accelerator_is_named(name, monkeypatch) -> None:
    """Catches a silent change of device, or torch's own error after the weights have loaded."""
    _machine(monkeypatch)
    with pytest.raises(UsageError, match=f"--device {name}: torch finds no {name.upper()} .*available: cpu"):
        resolve_device(name, MODELS["tiny-turbo"])


def test_an_unknown_device_lists_the_known_ones() -> None:
    """Catches a typo reaching torch."""
    with pytest.raises(UsageError, match="unknown device 'gpu'; known: cuda, mps, cpu"):
        resolve_device("gpu", MODELS["tiny-turbo"])


def test_what_torch_reports_is_what_is_available() -> None:
    """Catches the probe and torch falling apart; the CPU closes every list."""
    import torch

    found = device.available_devices()
    assert ("cuda" in found) == torch.cuda.is_available()
    assert found[-1] == "cpu"
