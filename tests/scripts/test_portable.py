"""What the scripts may not use: bash 3.2 is what macOS has, and no such bash is at hand to run them with."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.scripts.conftest import ROOT

FILES = sorted((ROOT / "scripts").glob("*.sh"))
NEWER = {
    "associative array, nameref or global": r"\b(declare|local|typeset) -[a-zA-Z]*[Ang]",
    "mapfile": r"\b(mapfile|readarray)\b",
    "change of case, or a transformation": r"\$\{\w+(\[[^]]*\])?(\^|,|@[A-Za-z]\})",
    "pipe of both streams": r"\|&|&>>",
    "test of a variable": r"\[\[? -[vR] ",
    "wait -n": r"\bwait -[npf]\b",
    "negative index": r"\[-\d+\]",
    "a later variable": r"\b(BASHPID|EPOCHSECONDS|EPOCHREALTIME|SRANDOM)\b",
    "read with an exact count": r"\bread (-\w+ )*-[Ni]\b",
    "printf of a time": r"%\(.*\)T",
    "fall-through in case": r";;?&",
    "a later shopt": r"\b(globstar|lastpipe|inherit_errexit|localvar_inherit)\b",
    "coproc": r"\bcoproc\b",
    "a step in a range": r"\{\d+\.\.\d+\.\.\d+\}",
    "GNU's readlink, date, sed or stat": r"readlink -f|date (-d|--)|sed -i|stat -c|grep -P|xargs -r|sort -V|realpath",
}
# An empty array is an unset variable to bash before 4.4.
UNGUARDED = re.compile(r'(?<!\+)"\$\{(\w+)\[[@*]\]\}"')
NEVER_EMPTY = {"clip", "budget", "tails", "same", "how", "models"}


def code(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_newer_than_bash_3_2(path: Path) -> None:
    """Catches a script that works here and fails on a Mac; a list of what newer versions brought, not a proof."""
    found = [f"{what}: {line}" for line in code(path) for what, pattern in NEWER.items() if re.search(pattern, line)]
    found += [line for line in code(path) for name in UNGUARDED.findall(line) if name not in NEVER_EMPTY]
    assert found == []


def test_the_list_finds_what_it_names() -> None:
    """Catches a pattern that matches nothing."""
    samples = [
        "declare -A legs", "local -n out=$1", "mapfile -t lines", "${model^^}", "${a[0],,}", "${x@Q}", "a |& b", "a &>> b",
        "[[ -v MODEL ]]", "wait -n", "${a[-1]}", "$BASHPID", "read -r -N 3 x", "printf '%(%F)T'", ";;&", "shopt -s lastpipe",
        "coproc x", "{1..9..2}", "readlink -f x", "date -d now",
    ]  # fmt: skip
    assert [text for text in samples if not any(re.search(pattern, text) for pattern in NEWER.values())] == []
    assert UNGUARDED.findall('"${extra[@]}" ${more[@]+"${more[@]}"}') == ["extra"]


def test_scripts_may_be_run() -> None:
    """Catches a driver that was committed without its executable bit, and a sourced file that has one."""
    sourced = {"common.sh", "inputs.sh", "klein-prompts.sh"}
    for path in FILES:
        assert bool(path.stat().st_mode & 0o100) == path.read_text().startswith("#!") == (path.name not in sourced)


def test_one_uv_makes_the_lock_the_build_and_the_pod() -> None:
    """Catches a pod whose uv is not one that pyproject.toml's build backend belongs to."""
    from packaging.requirements import Requirement

    [pin] = re.findall(r"^UV_VERSION=(\S+)", (ROOT / "scripts" / "setup-pod.sh").read_text(), re.MULTILINE)
    [backend] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert Requirement(backend).specifier.contains(pin)
