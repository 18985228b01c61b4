"""DreamSim: the cosine distance between embeddings that were tuned to what people find similar.

Fu et al. 2023, arXiv:2306.09344, through their package `dreamsim`. Its weights are not part of that package: they come
from GitHub releases, and for the DINO types the network's code and base weights come through torch.hub. All of it lands
in one cache folder; with that folder full, no network is needed.
"""

import contextlib
import fcntl
import http.client
import os
import shutil
import socket
import sys
import time
import urllib.error
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dltb import DltbError, RunError, UsageError, causes
from dltb.imaging.atomic import write_error
from dltb.metrics.table import offline_metrics

T = TypeVar("T")
STALLED_AFTER = 60  # seconds without a byte after which a download counts as failed; torch.hub waits for ever

_DINO = ("facebookresearch_dino_main", "checkpoints/dino_vitbase16_pretrain.pth")
_DINOV2 = ("facebookresearch_dinov2_main", "checkpoints/dinov2_vitb14_pretrain.pth")


@dataclass(frozen=True)
class Files:
    """What a full cache holds for one variant, as paths in it."""

    weights: tuple[str, ...]  # from dreamsim's release
    hub: tuple[str, ...] = ()  # code and base weights, through torch.hub


# The names are those of the package's own table, in which a patch variant is a type of its own.
VARIANTS: Mapping[str, Files] = MappingProxyType(
    {
        "ensemble": Files(
            (
                "dino_vitb16_pretrain.pth",
                "open_clip_vitb16_pretrain.pth.tar",
                "clip_vitb16_pretrain.pth.tar",
                "ensemble_lora",
            ),
            _DINO,
        ),
        "dino_vitb16": Files(("dino_vitb16_pretrain.pth", "dino_vitb16_single_lora"), _DINO),
        "clip_vitb32": Files(("clip_vitb32_pretrain.pth.tar", "clip_vitb32_single_lora")),
        "open_clip_vitb32": Files(("open_clip_vitb32_pretrain.pth.tar", "open_clip_vitb32_single_lora")),
        "dinov2_vitb14": Files(("dinov2_vitb14_pretrain.pth", "dinov2_vitb14_single_lora"), _DINOV2),
        "synclr_vitb16": Files(("synclr_vit_b_16.pth", "synclr_vitb16_single_lora")),
        "dino_vitb16_patch": Files(("dino_vitb16_pretrain.pth", "dino_vitb16_patch_lora"), _DINO),
        "dinov2_vitb14_patch": Files(("dinov2_vitb14_pretrain.pth", "dinov2_vitb14_patch_lora"), _DINOV2),
    }
)
TYPES = tuple(name for name in VARIANTS if not name.endswith("_patch"))
PATCH_TYPES = tuple(name for name in TYPES if f"{name}_patch" in VARIANTS)


@dataclass(frozen=True)
class DreamSimSettings:
    """Which DreamSim, and where its files are; refuses combinations that do not exist."""

    type: str
    patch: bool  # compare the class token and the mean patch token, instead of the class token alone
    cache_dir: Path
    retries: int  # of a failed download

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise UsageError(f"unknown --dreamsim-type {self.type!r}; known: {', '.join(TYPES)}")
        if self.patch and self.type not in PATCH_TYPES:
            raise UsageError(
                f"--patch: DreamSim ships no patch checkpoint for {self.type}; use --dreamsim-type "
                f"{' or '.join(PATCH_TYPES)}, or leave --patch away"
            )

    @property
    def variant(self) -> str:
        """The row of VARIANTS."""
        return f"{self.type}_patch" if self.patch else self.type

    def missing(self) -> list[str]:
        """What the cache lacks."""
        files = VARIANTS[self.variant]
        return [name for name in (*files.weights, *files.hub) if not (self.cache_dir / name).exists()]


def cosine_distances(images: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> np.ndarray:
    """1 - cos of N embeddings and N others, float64 [D] each."""
    a, b = np.stack(images), np.stack(references)
    return 1 - (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def load_embedder(
    settings: DreamSimSettings, device: str, *, sleep: Callable[[float], None] | None = None
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A function from N frames to N embeddings, float64 [D], in one call of the model.

    A failed download is tried again after 2, 4, 8, ... seconds.

    Raises:
        RunError: when the weights cannot be had, or do not load.
    """
    with _one_line_errors(settings):
        model, preprocess = with_retries(
            lambda: _load(settings, device), retries=settings.retries, sleep=sleep or time.sleep
        )

    def embed(frames: Sequence[np.ndarray]) -> list[np.ndarray]:
        import torch
        from PIL import Image

        batch = torch.cat([preprocess(Image.fromarray(frame)) for frame in frames])
        try:
            with torch.inference_mode():
                found = model.embed(batch.to(device))
        except torch.OutOfMemoryError:
            raise RunError(
                f"a batch of {len(frames)} frames does not fit in the device's memory: use a smaller --batch-size"
            ) from None
        if settings.patch:  # [N, 1 + patches, D] -> class token and mean patch token, as the package's own forward
            found = torch.cat([found[:, 0], found[:, 1:].mean(dim=1)], dim=1)
        return list(found.cpu().double().numpy())

    return embed


def with_retries(work: Callable[[], T], *, retries: int, sleep: Callable[[float], None]) -> T:
    """The result of ``work``, which is tried again after 2, 4, 8, ... seconds while a download fails."""
    for attempt in range(1, retries + 1):
        try:
            return work()
        except Exception as error:
            if not _may_pass(error):
                raise
            wait = 2**attempt
            print(
                f"download failed ({_reason(error)}); trying again in {wait} s ({attempt} of {retries})",
                file=sys.stderr,
                flush=True,
            )
            sleep(wait)
    return work()


def _load(settings: DreamSimSettings, device: str) -> tuple[Any, Callable]:
    """Model and preprocessing, from the cache alone when it is full."""
    import dreamsim

    cache = settings.cache_dir.absolute()
    with contextlib.ExitStack() as stack:
        if settings.missing():
            stack.enter_context(_filling(cache))
            _fetch_weights(settings, cache)
        stack.enter_context(_hub_in(cache))
        stack.enter_context(_quiet_load())
        # What the package prints is about loading; stdout belongs to results.
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        return dreamsim.dreamsim(
            device=device, cache_dir=str(cache), dreamsim_type=settings.type, use_patch_model=settings.patch
        )


@contextlib.contextmanager
def _filling(cache: Path) -> Iterator[None]:
    """Hold the cache while files are added to it: two tools at a time would download the same twice.

    Folders made for it that stay empty are removed again.
    """
    created = [folder for folder in (cache, *cache.parents) if not folder.exists()]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache):
            _remove_broken(cache)
            yield
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--cache-dir {cache}: not a folder") from None
    finally:
        for folder in created:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for whoever else holds the folder; the lock leaves no file and ends with its process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_broken(cache: Path) -> None:
    """Remove archives that were not downloaded to the end; nothing would ever read or replace them."""
    broken = [path for path in cache.glob("*.zip") if not zipfile.is_zipfile(path)]
    for path in (*broken, *cache.glob("*.zip.*.partial")):
        path.unlink(missing_ok=True)


def _fetch_weights(settings: DreamSimSettings, cache: Path) -> None:
    """Download and unpack in a folder of their own, then move: a file in the cache is a whole one.

    The package unpacks into the cache itself, and afterwards takes half a checkpoint for a whole one.
    """
    from dreamsim.model import download_weights

    wanted = VARIANTS[settings.variant].weights
    if all((cache / name).exists() for name in wanted):
        return
    staging = cache / ".download"
    shutil.rmtree(staging, ignore_errors=True)  # what a kill left
    staging.mkdir()
    try:
        with contextlib.redirect_stdout(sys.stderr), _timeout(STALLED_AFTER):
            download_weights(cache_dir=str(staging), dreamsim_type=settings.variant)
        absent = [name for name in wanted if not (staging / name).exists()]
        if absent:
            raise RunError(f"the download of DreamSim {settings.variant} holds no {absent[0]}")
        for name in wanted:
            if not (cache / name).exists():
                (staging / name).rename(cache / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _hub_in(cache: Path) -> Iterator[None]:
    """torch.hub on this cache.

    dreamsim points it there and leaves it so. It also names no branch for one of its repositories, and torch then asks
    GitHub for it although the code is in the cache.
    """
    import torch

    folder, load = torch.hub.get_dir(), torch.hub.load

    def load_cached(repository: str, *arguments: Any, **options: Any) -> Any:
        branches = (b for b in ("main", "master") if (cache / f"{repository.replace('/', '_')}_{b}").is_dir())
        branch = next(branches, None)
        return load(f"{repository}:{branch}" if branch else repository, *arguments, **options)

    torch.hub.load = load_cached
    try:
        with _timeout(STALLED_AFTER):
            yield
    finally:
        torch.hub.load = load
        torch.hub.set_dir(folder)


@contextlib.contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Sockets opened inside give up after so long without a byte."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextlib.contextmanager
def _quiet_load() -> Iterator[None]:
    """Without two warnings that every load gives and that change nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*weight_norm.*", category=FutureWarning)
        warnings.filterwarnings("ignore", message="Already found a `peft_config` attribute.*", category=UserWarning)
        yield


@contextlib.contextmanager
def _one_line_errors(settings: DreamSimSettings) -> Iterator[None]:
    try:
        yield
    except DltbError:
        raise
    except Exception as error:
        # Whatever comes out is about the network, the disk or the files; the cause stays chained.
        raise _explain(error, settings) from error


def _explain(error: BaseException, settings: DreamSimSettings) -> DltbError:
    cache, missing = settings.cache_dir, settings.missing()
    if _is_download_error(error):
        after = f" after {settings.retries} retries" if settings.retries and _may_pass(error) else ""
        return RunError(
            f"cannot download DreamSim {settings.variant} ({_reason(error)}{after}); {cache} lacks "
            f"{', '.join(missing) or 'nothing'}. Run once online, or give a full cache with --cache-dir, or use a metric "
            f"that needs no weights: --metric {offline_metrics()}"
        )
    if isinstance(error, OSError) and error.errno is not None:
        return write_error(cache, error) if missing else RunError(f"cannot read {error.filename}: {error.strerror}")
    return RunError(
        f"cannot load DreamSim {settings.variant} from {cache}: {_first_line(error)}. Delete the damaged file there and "
        f"it is downloaded again, or use a metric that needs no weights: --metric {offline_metrics()}"
    )


_DOWNLOAD_ERRORS = (
    *(urllib.error.URLError, http.client.HTTPException),  # URLError includes HTTPError
    *(ConnectionError, TimeoutError, zipfile.BadZipFile),  # a connection that ends early gives half an archive
)


def _is_download_error(error: BaseException) -> bool:
    return any(isinstance(link, _DOWNLOAD_ERRORS) for link in causes(error))


def _may_pass(error: BaseException) -> bool:
    """Whether the same download may well work in a moment: not where the server has said no."""
    statuses = [link.code for link in causes(error) if isinstance(link, urllib.error.HTTPError)]
    return _is_download_error(error) and all(code >= 500 or code in (408, 429) for code in statuses)


def _reason(error: BaseException) -> str:
    """The innermost thing that went wrong with a download."""
    link = next(link for link in causes(error) if isinstance(link, _DOWNLOAD_ERRORS))
    if isinstance(link, urllib.error.HTTPError):
        return f"HTTP {link.code}"
    if isinstance(link, zipfile.BadZipFile):
        return "the archive is damaged"
    return str(link.reason) if isinstance(link, urllib.error.URLError) else _first_line(link)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {text[0]}"
