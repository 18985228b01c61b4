"""What uv.lock installs where: CUDA builds of torch on Linux, MPS builds on macOS arm64. Read, not installed."""

import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.tags import Tag, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

LOCK = Path(__file__).parent.parent / "uv.lock"
MACHINES = {"linux": ("linux", "Linux", "x86_64"), "macos": ("darwin", "Darwin", "arm64")}
PYTHONS = ["3.11", "3.12", "3.13"]
AS_SOURCE = {"dltb", "dreamsim"}  # pure Python; dreamsim has never published a wheel


@cache
def packages() -> list[dict]:
    return tomllib.loads(LOCK.read_text())["package"]


def environment(machine: str, python: str) -> dict[str, str]:
    platform, system, processor = MACHINES[machine]
    return {
        "sys_platform": platform, "platform_system": system, "platform_machine": processor, "os_name": "posix",
        "python_version": python, "python_full_version": f"{python}.5", "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }  # fmt: skip


def tags(machine: str, python: str) -> set[Tag]:
    version = tuple(int(part) for part in python.split("."))
    linux = [f"manylinux_2_{minor}_x86_64" for minor in range(5, 40)] + ["manylinux2014_x86_64", "manylinux1_x86_64"]
    platforms = linux if machine == "linux" else list(mac_platforms((14, 0), "arm64"))
    pure = {Tag(f"py{digits}", "none", "any") for digits in ("3", *(f"3{minor}" for minor in range(version[1] + 1)))}
    own = {Tag("py3", "none", platform) for platform in platforms} | {Tag("py2", "none", "any")}
    return set(cpython_tags(version, platforms=platforms)) | pure | own


def wanted(machine: str, python: str) -> list[dict]:
    """Every package that `uv sync` installs there, found by following the lock's markers from the project itself."""
    here, found, open_ends = environment(machine, python), {}, [("dltb", None, "")]
    while open_ends:
        name, version, extra = open_ends.pop()
        if (name, version, extra) in found:
            continue
        [package] = [p for p in packages() if p["name"] == name and version in (None, p.get("version"))]
        found[name, version, extra] = package
        links = package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
        if name == "dltb" and not extra:
            links = [*links, *(link for group in package["dev-dependencies"].values() for link in group)]
        for link in links:
            if "marker" not in link or Marker(link["marker"]).evaluate(here):
                open_ends += [(link["name"], link.get("version"), part) for part in ("", *link.get("extra", []))]
    return list(found.values())


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_everything_has_a_wheel(machine: str, python: str) -> None:
    """Catches a lock that would build from source, or fail, on a machine that is not this one."""
    fitting = tags(machine, python)
    without = {
        package["name"]
        for package in wanted(machine, python)
        if package["name"] not in AS_SOURCE
        and not any(fitting & parse_wheel_filename(wheel_name(wheel))[3] for wheel in package.get("wheels", []))
    }
    assert without == set()


def wheel_name(wheel: dict) -> str:
    return wheel["url"].rsplit("/", 1)[1].replace("%2B", "+")


@pytest.mark.parametrize("python", PYTHONS)
def test_torch_is_cuda_on_linux_and_mps_on_macos(python: str) -> None:
    """Catches a CPU build of torch on a pod, and CUDA libraries on a Mac."""
    linux, macos = ({package["name"] for package in wanted(machine, python)} for machine in MACHINES)
    assert "torch" in linux & macos
    assert {"nvidia-cudnn-cu13", "triton", "nvidia-cublas"} <= linux
    assert [name for name in macos if name.startswith(("nvidia", "cuda", "triton"))] == []
    [torch] = [package for package in packages() if package["name"] == "torch"]
    assert "+cpu" not in torch["version"]
    assert torch["source"] == {"registry": "https://pypi.org/simple"}  # its Linux wheels are the CUDA builds
