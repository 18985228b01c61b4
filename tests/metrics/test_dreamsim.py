"""The real dreamsim package on caches of the right layout with random weights; no network, no waiting."""

import io
import shutil
import socket
import threading
import urllib.error
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dltb import RunError, UsageError
from dltb.metrics.distances import load_metric, score
from dltb.metrics.dreamsim import (
    PATCH_TYPES,
    TYPES,
    VARIANTS,
    DreamSimSettings,
    _filling,
    cosine_distances,
    load_embedder,
    with_retries,
)
from dltb.metrics.table import METRICS
from tests.metrics.dreamsim_caches import FULL_WIDTH, make_cache, narrow_networks

OFFLINE = [key for key, row in METRICS.items() if row.offline]


def settings(variant: str, cache: Path, retries: int = 0) -> DreamSimSettings:
    return DreamSimSettings(variant.removesuffix("_patch"), variant.endswith("_patch"), cache, retries)


def http_error(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://github.com/x.zip", status, "no", None, io.BytesIO())


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever connects, fails as it does without a network."""

    def refuse(*address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(autouse=True)
def _narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "full_size" not in request.node.name:
        narrow_networks(monkeypatch)


@pytest.fixture(scope="session")
def full_cache(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A full cache of narrow networks: ``full_cache(variant)``; not to be changed."""
    root = tmp_path_factory.mktemp("dreamsim")

    def cache(variant: str) -> Path:
        if not (root / variant).exists():
            with pytest.MonkeyPatch.context() as patch:
                narrow_networks(patch)
                make_cache(root / variant, variant)
        return root / variant

    return cache


@pytest.fixture
def frames(picture: np.ndarray) -> list[np.ndarray]:
    """Five different frames, none of them square."""
    return [np.ascontiguousarray(picture[: 192 - 8 * i, 16 * i :]) for i in range(5)]


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """Let downloads of the release end as told: ``downloads(outcome, ...)``, a Path to zip, bytes or an exception."""
    import torch

    def prepare(*outcomes: Path | bytes | Exception) -> list[str]:
        urls, remaining = [], list(outcomes)

        def download(url: str, dst: str, *rest: object, **options: object) -> None:
            urls.append(url)
            outcome = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            if isinstance(outcome, Exception):
                raise outcome
            Path(dst).write_bytes(outcome if isinstance(outcome, bytes) else zipped(outcome))

        monkeypatch.setattr(torch.hub, "download_url_to_file", download)
        return urls

    return prepare


def zipped(cache: Path) -> bytes:
    """A release archive: everything of a cache that does not come through torch.hub."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(cache.rglob("*")):
            if path.is_file() and not path.relative_to(cache).parts[0].startswith(("facebook", "checkpoints")):
                archive.write(path, path.relative_to(cache))
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore:.*weight_norm", "ignore:Already found a `peft_config`")
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_type_loads_offline_and_equals_the_package(variant, full_cache, frames) -> None:
    """Catches a type that asks the network despite a full cache, and embeddings put together otherwise than the package's.

    Patch types: the package pools the patch tokens in its forward, not in its embed.
    """
    import dreamsim
    import torch
    from PIL import Image

    cache = full_cache(variant)
    ready = load_embedder(settings(variant, cache), "cpu")(frames)
    found = cosine_distances(ready[1:], ready[:-1])
    folder = torch.hub.get_dir()
    try:
        model, preprocess = dreamsim.dreamsim(
            device="cpu",
            cache_dir=str(cache),
            dreamsim_type=variant.removesuffix("_patch"),
            use_patch_model=variant.endswith("_patch"),
        )
    finally:
        torch.hub.set_dir(folder)
    with torch.no_grad():
        images = [preprocess(Image.fromarray(frame)) for frame in frames]
        expected = [model(a, b).item() for a, b in zip(images[1:], images[:-1], strict=True)]
    assert min(expected) > 1e-6
    np.testing.assert_allclose(found, expected, atol=5e-7)


@pytest.mark.parametrize("variant", VARIANTS)
def test_identities(variant, full_cache, frames) -> None:
    """Catches a distance of a frame to itself, a sign, and a result that depends on the batch."""
    metric = load_metric("dreamsim", dreamsim=settings(variant, full_cache(variant)))
    ready = metric.prepare(frames)
    itself = metric.between(ready, ready)
    assert ((itself >= 0) & (itself < 1e-12)).all()
    np.testing.assert_array_equal(metric.between(ready[1:], ready[:-1]), metric.between(ready[:-1], ready[1:]))
    one_by_one = [metric.prepare([frame])[0] for frame in frames]
    np.testing.assert_allclose(ready, one_by_one, atol=1e-6)


def test_rounding_below_zero_is_cut_off(full_cache, picture) -> None:
    """Catches a distance of -2e-16, which 1 - cos gives for some frames against themselves."""
    metric = load_metric("dreamsim", dreamsim=settings("clip_vitb32", full_cache("clip_vitb32")))
    ready = metric.prepare([np.roll(picture, 8 * i, axis=1) for i in range(16)])
    assert cosine_distances(ready, ready).min() < 0
    assert metric.between(ready, ready).min() == 0


def test_cosine_by_hand() -> None:
    """Catches a similarity in place of a distance, and a missing norm."""
    a = np.array([[3.0, 0], [0, 2], [1, 1]])
    b = np.array([[5.0, 0], [1, 0], [-1, -1]])
    np.testing.assert_allclose(cosine_distances(a, b), [0, 1, 2], atol=1e-15)


def test_full_size(tmp_path, frames) -> None:
    """Catches what the narrow networks hide: the package as it is, unpatched, on a checkpoint of the published size."""
    make_cache(tmp_path, "clip_vitb32", FULL_WIDTH)
    ready = load_embedder(settings("clip_vitb32", tmp_path), "cpu")(frames[:2])
    assert [len(item) for item in ready] == [512, 512]
    assert cosine_distances(ready[:1], ready[1:]) > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_type_in_full_size(variant, tmp_path, frames) -> None:
    """Catches the same in every type."""
    make_cache(tmp_path, variant, FULL_WIDTH)
    widths = {"ensemble": 768 + 512 + 512, "clip_vitb32": 512, "open_clip_vitb32": 512}
    ready = load_embedder(settings(variant, tmp_path), "cpu")(frames[:2])
    assert len(ready[0]) == (2 * 768 if variant.endswith("_patch") else widths.get(variant, 768))
    assert cosine_distances(ready[:1], ready[1:]) > 0.001


def test_a_batch_is_one_call_and_a_frame_is_embedded_once(full_cache, frames, monkeypatch) -> None:
    """Catches a loop over the batch, and an embedding for to_ref and another one for to_prev."""
    import dreamsim

    calls, embed = [], dreamsim.PerceptualModel.embed

    def counted(self, images):
        calls.append(len(images))
        return embed(self, images)

    monkeypatch.setattr(dreamsim.PerceptualModel, "embed", counted)
    metric = load_metric("dreamsim", dreamsim=settings("clip_vitb32", full_cache("clip_vitb32")))
    assert len(list(score(frames, frames[2], metric, batch_size=2))) == 5
    assert calls == [1, 2, 2, 1]


@pytest.mark.parametrize("type_", sorted(set(TYPES) - set(PATCH_TYPES)))
def test_patch_is_refused_where_none_is_shipped(type_, tmp_path) -> None:
    """Catches a download of gigabytes that ends in a KeyError."""
    with pytest.raises(UsageError, match=f"--patch: .*{type_}; use --dreamsim-type dino_vitb16 or dinov2_vitb14"):
        DreamSimSettings(type_, True, tmp_path, 3)


def test_unknown_type(tmp_path) -> None:
    """Catches a KeyError from inside the package."""
    with pytest.raises(UsageError, match="unknown --dreamsim-type 'dino'; known: ensemble, dino_vitb16, clip_vitb32"):
        DreamSimSettings("dino", False, tmp_path, 3)


def test_our_files_are_the_packages_own(tmp_path, monkeypatch) -> None:
    """Catches a table that has fallen behind the package: with our files there, the package sees a full cache."""
    import torch
    from dreamsim.config import dreamsim_weights
    from dreamsim.model import download_weights

    def forbidden(*rest: object, **options: object) -> None:
        raise AssertionError("the package would download")

    monkeypatch.setattr(torch.hub, "download_url_to_file", forbidden)
    assert set(dreamsim_weights) == set(VARIANTS)
    for variant, files in VARIANTS.items():
        (tmp_path / variant).mkdir()
        for name in files.weights:
            (tmp_path / variant / name).touch()
        download_weights(str(tmp_path / variant), variant)


def test_a_download_fills_a_nested_cache_and_leaves_no_archive(tmp_path, full_cache, frames, downloads) -> None:
    """Catches the package's single-level mkdir, and a gigabyte of archive that nothing reads again."""
    urls = downloads(full_cache("synclr_vitb16"))
    cache = tmp_path / "a" / "b" / "c"
    assert len(load_embedder(settings("synclr_vitb16", cache), "cpu")(frames[:1])) == 1
    assert sorted(path.name for path in cache.iterdir()) == sorted(VARIANTS["synclr_vitb16"].weights)
    load_embedder(settings("synclr_vitb16", cache), "cpu")
    assert len(urls) == 1
    assert urls[0].endswith("dreamsim_synclr_vitb16_checkpoint.zip")


def test_retries_wait_2_4_8_seconds(tmp_path, full_cache, downloads, capsys) -> None:
    """Catches another back-off, a retry without one, and a success that is not taken."""
    waits: list[float] = []
    whole = zipped(full_cache("clip_vitb32"))
    downloads(http_error(504), ConnectionResetError(104, "reset"), whole[: len(whole) // 2], whole)
    load_embedder(settings("clip_vitb32", tmp_path, retries=3), "cpu", sleep=waits.append)
    assert waits == [2, 4, 8]
    error = capsys.readouterr().err
    assert "(HTTP 504); trying again in 2 s (1 of 3)" in error
    assert "(the archive is damaged); trying again in 8 s (3 of 3)" in error


def test_when_retries_run_out_the_offline_metrics_are_named(tmp_path, downloads) -> None:
    """Catches a dead end, and a folder left by a failed start."""
    waits: list[float] = []
    urls = downloads(http_error(504))
    cache = tmp_path / "new" / "cache"
    with pytest.raises(RunError) as failed:
        load_embedder(settings("ensemble", cache, retries=2), "cpu", sleep=waits.append)
    assert (waits, len(urls)) == ([2, 4], 3)
    text = str(failed.value)
    assert "cannot download DreamSim ensemble (HTTP 504 after 2 retries)" in text
    assert f"--metric {', '.join(OFFLINE)}" in text
    assert "ensemble_lora, facebookresearch_dino_main" in text
    assert list(tmp_path.iterdir()) == []


def test_without_a_network(tmp_path) -> None:
    """Catches the package's or torch's own traceback: nothing is stubbed here but the socket."""
    with pytest.raises(
        RunError, match=r"cannot download DreamSim clip_vitb32 \(.*unreachable\); .*--metric flip, ssim"
    ):
        load_embedder(settings("clip_vitb32", tmp_path), "cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (http_error(404), 1),
        (http_error(403), 1),
        (http_error(429), 4),
        (urllib.error.URLError("unreachable"), 4),
        (TimeoutError("timed out"), 4),
        (KeyError("type"), 1),
        (OSError(28, "No space left on device"), 1),
    ],
)
def test_only_what_may_pass_is_tried_again(error, tries) -> None:
    """Catches a wait of 14 seconds for a file that does not exist, or for a full disk."""
    calls = []

    def work() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        with_retries(work, retries=3, sleep=lambda seconds: None)
    assert len(calls) == tries


def test_a_full_disk_is_named(tmp_path, downloads) -> None:
    """Catches a full disk that is called a network error."""
    downloads(OSError(28, "No space left on device"))
    with pytest.raises(RunError, match=f"cannot write {tmp_path}: No space left"):
        load_embedder(settings("clip_vitb32", tmp_path, retries=3), "cpu", sleep=lambda seconds: None)


def test_broken_archives_and_what_a_kill_left_are_removed(tmp_path, full_cache, downloads) -> None:
    """Catches gigabytes that stay for ever, and half a checkpoint taken for a whole one; a whole archive is not ours."""
    downloads(full_cache("clip_vitb32"))
    whole = zipped(full_cache("clip_vitb32"))
    (tmp_path / "pretrained.zip").write_bytes(whole[:1000])
    (tmp_path / "pretrained.zip.0123abcd.partial").write_bytes(whole[:10])
    (tmp_path / "mine.zip").write_bytes(whole)
    (tmp_path / ".download" / "clip_vitb32_single_lora").mkdir(parents=True)
    (tmp_path / ".download" / "clip_vitb32_pretrain.pth.tar").write_bytes(b"half")
    load_embedder(settings("clip_vitb32", tmp_path), "cpu")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*VARIANTS["clip_vitb32"].weights, "mine.zip"])


def test_an_archive_that_lacks_something_is_an_error(tmp_path, full_cache, downloads) -> None:
    """Catches a release whose layout has changed."""
    downloads(full_cache("synclr_vitb16"))
    with pytest.raises(RunError, match="holds no clip_vitb32_pretrain"):
        load_embedder(settings("clip_vitb32", tmp_path), "cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variant", ["dino_vitb16", "dinov2_vitb14"])
def test_a_cache_without_hub_code_is_not_full(variant, tmp_path, full_cache, downloads) -> None:
    """Catches a cache called full that ends in the network: the DINO types fetch code through torch.hub."""
    downloads(full_cache(variant))
    with pytest.raises(RunError, match=f"{tmp_path} lacks facebookresearch_dino.*, checkpoints/"):
        load_embedder(settings(variant, tmp_path), "cpu")
    assert settings(variant, tmp_path).missing() == list(VARIANTS[variant].hub)  # the weights were kept


def test_a_full_cache_asks_nobody(full_cache, monkeypatch) -> None:
    """Catches torch asking GitHub which branch dinov2's code is on, which a 504 or a proxy turns into a failed run."""
    import torch

    def busy(*request: object) -> None:
        raise http_error(504)

    monkeypatch.setattr(torch.hub, "urlopen", busy)
    load_embedder(settings("dinov2_vitb14", full_cache("dinov2_vitb14")), "cpu")


def test_a_second_tool_waits_for_the_first_ones_download(tmp_path, full_cache, downloads) -> None:
    """Catches two downloads of the same gigabytes, and one that removes the other's files."""
    urls = downloads(full_cache("clip_vitb32"))
    with _filling(tmp_path):
        second = threading.Thread(target=load_embedder, args=(settings("clip_vitb32", tmp_path), "cpu"))
        second.start()
        second.join(timeout=0.2)
        assert second.is_alive()
        shutil.copytree(full_cache("clip_vitb32"), tmp_path, dirs_exist_ok=True)
    second.join(timeout=30)
    assert not second.is_alive()
    assert urls == []


def test_a_damaged_checkpoint_is_named_as_one(tmp_path, full_cache) -> None:
    """Catches torch's own text about a zip archive, and a retry of what no retry can mend."""
    make_cache(tmp_path, "clip_vitb32")
    path = tmp_path / "clip_vitb32_pretrain.pth.tar"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RunError, match=r"cannot load DreamSim clip_vitb32 .*Delete the damaged file .*--metric flip"):
        load_embedder(settings("clip_vitb32", tmp_path, retries=3), "cpu")


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_file_as_cache_is_refused(below, tmp_path) -> None:
    """Catches an OSError traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--cache-dir .*: not a folder"):
        load_embedder(settings("clip_vitb32", tmp_path / "file" / below), "cpu")


def test_what_loading_sets_is_set_back(full_cache, capsys) -> None:
    """Catches a hub folder that other code inherits, a timeout on all its sockets, and loading chatter among results."""
    import torch

    before = torch.hub.get_dir(), torch.hub.load, socket.getdefaulttimeout()
    load_embedder(settings("dino_vitb16", full_cache("dino_vitb16")), "cpu")
    assert (torch.hub.get_dir(), torch.hub.load, socket.getdefaulttimeout()) == before
    assert capsys.readouterr().out == ""


def test_the_device_is_the_one_given(full_cache, frames, monkeypatch) -> None:
    """Catches the package's default, cuda."""
    import dreamsim

    asked = []
    real = dreamsim.dreamsim

    def spy(**options):
        asked.append(options["device"])
        return real(**options)

    monkeypatch.setattr(dreamsim, "dreamsim", spy)
    load_embedder(settings("clip_vitb32", full_cache("clip_vitb32")), "cpu")
    assert asked == ["cpu"]
