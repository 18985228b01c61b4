"""RAFT through torchvision: what is said without its weights, and the shapes with weights that are random."""

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.raft import WEIGHTS, Raft, weights_file

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A torch hub cache of this test's own."""
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints" / WEIGHTS


def test_missing_weights_are_one_line_and_no_download(hub):
    """Catches a download that nobody asked for, and torchvision's own traceback."""
    with pytest.raises(UsageError, match=r"raft needs its weights at .*; they are not there .* take --flow dis"):
        weights_file()


def test_the_name_is_torchvisions():
    """Catches weights that torchvision saves under another name than the one looked for."""
    from torchvision.models.optical_flow import Raft_Large_Weights

    assert Raft_Large_Weights.DEFAULT.url.endswith(WEIGHTS)


def test_damaged_weights_are_one_line(hub):
    """Catches a half download that fails inside torch."""
    hub.write_bytes(b"half")
    with pytest.raises(UsageError, match="damaged or another network's"):
        Raft("cpu")


def test_any_size_comes_back(hub):
    """Catches the padding left on, (dy, dx), and a size that is no multiple of 8 or under 128 px."""
    from torchvision.models.optical_flow import raft_large

    torch.manual_seed(0)
    torch.save(raft_large(weights=None).state_dict(), hub)
    frame = np.random.default_rng(0).integers(0, 256, (70, 132, 3), dtype=np.uint8)
    flow = Raft("cpu")(frame, np.roll(frame, 2, axis=1))
    assert (flow.shape, flow.dtype) == ((70, 132, 2), np.float32)
    assert np.isfinite(flow).all()


def test_its_identity_holds_all_that_rounds(hub, monkeypatch):
    """Catches a cache that hands on the flows of another device, library or set of weights."""
    import torchvision
    from torchvision.models.optical_flow import raft_large

    torch.manual_seed(0)
    weights = raft_large(weights=None).state_dict()
    torch.save(weights, hub)
    first = Raft("cpu").identity
    assert Raft("cpu").identity == first
    assert Raft("meta").identity != first
    for module in (torch, torchvision):
        with monkeypatch.context() as patch:
            patch.setattr(module, "__version__", "0.0")
            assert Raft("cpu").identity != first
    torch.save({name: tensor + 1 for name, tensor in weights.items()}, hub)
    assert Raft("cpu").identity != first
