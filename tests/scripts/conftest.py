"""A laptop's checkout, the bundle made there, and a pod on which it was extracted; the drivers run on the pod."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
TINY = {
    "SKIP_GPU_CHECK": "1",
    "MODEL": "tiny-turbo",
    "MODELS": "tiny-turbo",
    "KLEIN_MODEL": "tiny-klein",
    "MAX_FRAMES": "2",
    "TAIL_FRAMES": "1",
    "SAVE_EVERY": "1",
    "ITERATIONS": "2",
    "EXTRA_ARGS": "--width 64 --height 64",
}


@dataclass(frozen=True)
class Place:
    """A copy of the project, and how its scripts are called there."""

    root: Path

    def command(self, script: str, *arguments: str) -> list[str]:
        """The bash that a user of this system gets, and the script."""
        return ["/bin/bash", str(self.root / "scripts" / script), *arguments]

    def environment(self, **settings: str) -> dict[str, str]:
        """This test's Python, with the package of this copy, and nothing of the developer's own settings."""
        own = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1"}
        return PLAIN | own | {"HF_HUB_OFFLINE": "1", "HF_HOME": os.environ["HF_HOME"]} | settings

    def call(
        self, script: str, *arguments: str, cwd: Path | None = None, **settings: str
    ) -> subprocess.CompletedProcess:
        """Run a script to its end."""
        return subprocess.run(
            self.command(script, *arguments),
            env=self.environment(**settings),
            cwd=cwd or self.root.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def dry(
        self, script: str, *arguments: str, cwd: Path | None = None, **settings: str
    ) -> subprocess.CompletedProcess:
        """What a script would run, on a machine where nothing is installed."""
        settings = {"DRY_RUN": "1", "UV_PROJECT_ENVIRONMENT": ".venv", "PYTHONPATH": ""} | settings
        return self.call(script, *arguments, cwd=cwd, **settings)

    def files(self) -> set[str]:
        """Every file and folder here."""
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*")}


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="session")
def make_checkout() -> Callable[[Path, list[str]], Place]:
    """``make_checkout(folder, names)``: a git checkout of these tracked files or folders, as they are in the tree."""

    def make(folder: Path, names: list[str]) -> Place:
        folder.mkdir(parents=True)
        for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *names).split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        return Place(folder)

    return make


@pytest.fixture(scope="session")
def pod(tmp_path_factory: pytest.TempPathFactory, make_checkout: Callable) -> Place:
    """The whole project after a round trip: bundled on a laptop, extracted as README_RUNPOD.md says."""
    laptop = make_checkout(tmp_path_factory.mktemp("laptop") / "my checkout", ["."])
    bundled = laptop.call("bundle.sh")
    assert bundled.returncode == 0, bundled.stderr
    root = tmp_path_factory.mktemp("pod") / "a pöd" / "dltb"
    extract(laptop, root)
    return Place(root)


def extract(laptop: Place, root: Path) -> None:
    """``tar --strip-components=1`` of the one bundle there is."""
    [archive] = (laptop.root / "bundle").glob("*.tar.gz")
    root.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive, "-C", root, "--strip-components=1", "--no-same-owner"], check=True)


def members(laptop: Place) -> dict[str, tarfile.TarInfo]:
    """The bundle's files by name, without the folder that holds them all."""
    [archive] = (laptop.root / "bundle").glob("*.tar.gz")
    with tarfile.open(archive) as bundle:
        return {name: member for member in bundle if (name := member.name.partition("/")[2])}
