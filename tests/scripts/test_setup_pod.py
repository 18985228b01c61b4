"""setup-pod.sh: what it would do, and for real on a project without dependencies."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts.conftest import ROOT, Place

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="pods run Linux")
NEEDED = [
    "basename", "bash", "cat", "chmod", "cp", "curl", "cut", "dirname", "head", "install", "mkdir", "mktemp", "python3",
    "rm", "sed", "sha256sum", "tar", "tee", "tr", "uname",
]  # fmt: skip
PROJECT = '[project]\nname = "nothing"\nversion = "0"\nrequires-python = ">=3.11"\n[tool.uv]\npackage = false\n'


def without_uv(folder: Path) -> str:
    """A PATH on which no uv is found."""
    folder.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


@LINUX
def test_dry_run(tmp_path: Path) -> None:
    """Catches a download that is run without its checksum, or through a shell, and an unfrozen sync."""
    place = Place(ROOT)
    out = place.dry("setup-pod.sh", PATH=without_uv(tmp_path / "path"), UV_BIN_DIR=str(tmp_path / "bin")).stdout
    lines = [line for line in out.splitlines() if not line.startswith("#")]
    assert [line.split()[0] for line in lines] == [
        "curl",
        "curl",
        "sha256sum",
        "tar",
        "mkdir",
        "install",
        "rm",
        f"{tmp_path}/bin/uv",
    ]
    assert lines[-1].endswith(" sync --frozen")
    assert "| sh" not in out
    assert not (tmp_path / "bin").exists()


@LINUX
@pytest.mark.slow
def test_installs_the_pinned_uv_and_what_the_lock_says(tmp_path: Path) -> None:
    """Catches a uv of another version, an installation that needs root, and a second run that downloads again."""
    root = tmp_path / "a pod"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "pyproject.toml").write_text(PROJECT)
    subprocess.run(["uv", "lock", "--quiet"], cwd=root, check=True)
    settings = {
        "PATH": without_uv(tmp_path / "path"), "UV_BIN_DIR": str(tmp_path / "bin"), "UV_PROJECT_ENVIRONMENT": ".venv",
        "UV_PYTHON": sys.executable,
    }  # fmt: skip
    done = Place(root).call("setup-pod.sh", **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    version = subprocess.run([tmp_path / "bin" / "uv", "--version"], capture_output=True, text=True, check=True).stdout
    assert f"uv {version.split()[1]}: {tmp_path}/bin/uv" in done.stdout
    assert "is not in PATH" in done.stdout
    assert (root / ".venv" / "bin" / "python").exists()
    installed = (tmp_path / "bin" / "uv").stat().st_mtime_ns
    assert Place(root).call("setup-pod.sh", **settings).returncode == 0
    assert (tmp_path / "bin" / "uv").stat().st_mtime_ns == installed
