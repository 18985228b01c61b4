"""bundle.sh: what goes to a pod, what stays behind, and that no Finder file gets there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripts.conftest import Place, extract, git, members

SCRIPTS = ["scripts", "input_example", "pyproject.toml"]
NEEDED = [
    "bash", "basename", "cat", "cut", "date", "dirname", "du", "find", "git", "gzip", "mkdir", "mktemp", "mv", "rm", "sed",
    "tar", "tr",
]  # fmt: skip


@pytest.fixture
def laptop(tmp_path: Path, make_checkout: Callable) -> Place:
    """A small checkout with inputs of its own."""
    place = make_checkout(tmp_path / "my laptop", SCRIPTS)
    own = place.root / "untracked" / "input"
    own.mkdir(parents=True)
    (own / "inputs.env").write_text('CLIP="${CLIP:-untracked/input/ü clip.mp4}"\n')
    (tmp_path / "far away.mp4").write_bytes(b"film")
    (own / "ü clip.mp4").symlink_to(tmp_path / "far away.mp4")
    for name in ("._inputs.env", ".DS_Store"):
        (own / name).write_bytes(b"\0\5\26\7")
    (place.root / ".gitignore").write_text("untracked/\nbundle/\n")
    return place


def bundles(place: Place) -> list[str]:
    folder = place.root / "bundle"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_round_trip(laptop: Place, tmp_path: Path) -> None:
    """Catches a lost or stale file, a link that leads nowhere on the pod, a script that may not be run, a bundle without
    its one top folder, Finder files, and untracked work that stays behind without a word."""
    (laptop.root / "pyproject.toml").write_text("# not committed yet\n")
    (laptop.root / "input_example" / "SOURCES.txt").unlink()
    (laptop.root / "new_experiment.py").touch()
    done = laptop.call("bundle.sh")
    assert done.returncode == 0, done.stderr
    assert "left out (untracked): new_experiment.py" in done.stdout
    tracked = set(git(laptop.root, "ls-files").split("\n")) - {"", "input_example/SOURCES.txt"}
    packed = {name for name, member in members(laptop).items() if member.isfile()}
    assert packed == tracked | {"untracked/input/inputs.env", "untracked/input/ü clip.mp4"}

    pod = Place(tmp_path / "pod")
    extract(laptop, pod.root)
    assert (pod.root / "untracked/input/ü clip.mp4").read_bytes() == b"film"
    assert (pod.root / "pyproject.toml").read_text() == "# not committed yet\n"
    assert os.access(pod.root / "scripts" / "sweep.sh", os.X_OK)
    assert "--input 'untracked/input/ü clip.mp4'" in pod.dry("sweep.sh").stdout


def test_a_bundle_with_finder_files_is_deleted(laptop: Place) -> None:
    """Catches an archive that looks clean in tar's own listing and litters the pod."""
    (laptop.root / "scripts" / "._sweep.sh").touch()
    git(laptop.root, "add", "--force", "scripts/._sweep.sh")
    done = laptop.call("bundle.sh")
    assert done.returncode == 2
    assert "Finder files, such as ._sweep.sh" in done.stderr
    assert bundles(laptop) == []


def test_without_python_the_check_is_skipped_aloud(laptop: Place, tmp_path: Path) -> None:
    """Catches a laptop without Python 3 that cannot bundle, or bundles as if it had looked."""
    few = tmp_path / "few"
    few.mkdir()
    for name in NEEDED:
        found = subprocess.run(["/bin/sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True)
        (few / name).symlink_to(found.stdout.strip())
    done = laptop.call("bundle.sh", PATH=str(few), UV_PROJECT_ENVIRONMENT=".venv")
    assert done.returncode == 0, done.stderr
    assert "WARNING: no python3 here" in done.stderr
    assert len(bundles(laptop)) == 1


def test_only_a_checkout_can_be_bundled(laptop: Place, tmp_path: Path) -> None:
    """Catches an empty bundle made on a pod, or one of another repository around this folder."""
    laptop.root.joinpath(".git").rename(tmp_path / ".git")
    done = laptop.call("bundle.sh")
    assert done.returncode == 2
    assert "is no git checkout" in done.stderr
    assert bundles(laptop) == []


def test_dry_run_lists(laptop: Place) -> None:
    """Catches a dry run that packs."""
    done = laptop.dry("bundle.sh")
    assert {"scripts/sweep.sh", "untracked/input/ü clip.mp4"} <= set(done.stdout.split("\n"))
    assert bundles(laptop) == []
