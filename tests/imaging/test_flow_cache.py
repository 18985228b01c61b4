"""Flows on disk: the same bits, found by content, and never the wrong ones."""

from functools import partial

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.flow import METHODS, Flow, estimate_flow, identity
from dltb.imaging.flow_cache import FlowCache


class Counted:
    """An estimator that says how often it was asked."""

    def __init__(self, backward: bool = True) -> None:
        self.calls = 0
        self._estimate = partial(estimate_flow, backward=backward)

    def __call__(self, previous, current) -> Flow:
        self.calls += 1
        return self._estimate(previous, current)


@pytest.fixture
def pair(picture):
    """Two frames a few pixels apart."""
    return picture, np.ascontiguousarray(np.roll(picture, 3, axis=1))


def _same(one: Flow, other: Flow) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("forward", "backward", "warp_error")
    )


@pytest.mark.parametrize("backward", [True, False])
def test_what_is_read_is_what_was_written(backward, pair, tmp_path) -> None:
    """Catches half precision, a lost direction or value, and frames found by identity instead of content."""
    estimate = Counted(backward)
    made = FlowCache(tmp_path / "new" / "flows", estimate, kind="x")(*pair)
    read = FlowCache(tmp_path / "new" / "flows", estimate, kind="x")(*(frame.copy() for frame in pair))
    assert estimate.calls == 1
    assert _same(made, read)
    assert _same(made, estimate_flow(*pair, backward=backward))
    assert read.forward.dtype == np.float32


def test_the_warp_error_is_kept(pair, tmp_path) -> None:
    """Catches a value that only fresh flows carry, so that steps.jsonl would depend on the cache."""
    flow = Flow(np.zeros((4, 4, 2), np.float32), None, 0.25)
    for _ in range(2):
        assert FlowCache(tmp_path, lambda *_: flow, kind="x")(*pair).warp_error == 0.25


def test_other_frames_orders_and_kinds_are_others(pair, tmp_path) -> None:
    """Catches a name that does not hold all that decides the flow."""
    estimate = Counted()
    FlowCache(tmp_path, estimate, kind="x")(*pair)
    for frames, kind in [(pair[::-1], "x"), (pair, "y"), ((pair[0], pair[1].swapaxes(0, 1)), "x")]:
        FlowCache(tmp_path, estimate, kind=kind)(*frames)
    assert estimate.calls == 4


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"", lambda data: data[:-50] + bytes(50)])
def test_a_damaged_file_is_made_again(damage, pair, tmp_path) -> None:
    """Catches a crash, or zeros taken for a flow, after a full disk or a kill."""
    estimate = Counted()
    made = FlowCache(tmp_path, estimate, kind="x")(*pair)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert _same(made, FlowCache(tmp_path, estimate, kind="x")(*pair))
    assert estimate.calls == 2
    assert _same(made, FlowCache(tmp_path, estimate, kind="x")(*pair))
    assert estimate.calls == 2


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path) -> None:
    """Catches a traceback in the place of a line."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--flow-cache .* is a file, not a folder"):
        FlowCache(tmp_path / "file", Counted(), kind="x")


def test_methods_have_names_of_their_own(monkeypatch) -> None:
    """Catches the flow of one method, library or setting read as another's."""
    from dltb.imaging import flow

    class Own:
        identity = "own"

    names = {identity(method) for method in (*METHODS, Own())}
    assert len(names) == len(METHODS) + 1
    monkeypatch.setattr("cv2.__version__", "0.0")
    other = identity("farneback")
    monkeypatch.setitem(flow.FARNEBACK, "levels", 1)
    assert not {other, identity("farneback")} & names
    assert other != identity("farneback")
