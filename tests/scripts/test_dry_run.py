"""DRY_RUN=1: what each driver would run, word by word, and that it touches nothing."""

import os
import shlex
from pathlib import Path

import pytest

from dltb import continuous, iterate, klein, oneshot
from dltb.output.naming import tails_tag, video_tag
from tests.scripts.conftest import Place

GOLDEN = Path(__file__).parent / "golden"
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "sweep": ("sweep.sh", {}),
    "sweep-own": (
        "sweep.sh",
        {
            "MODELS": "sd_turbo flux2-klein-4b", "BLENDS": "0.1 0.3", "BASELINE": "0.3", "MAX_FRAMES": "", "REPROJECT": "0",
            "OFFLOAD": "1", "EVICT_CACHE": "1", "STRENGTH": "0.8", "DESC": "it's a \"yard\"", "OUT_PREFIX": "two words/",
            "CLIP": "untracked/input/my clip.mp4", "EXTRA_ARGS": "--seed 7\n--no-fixed-seed",
        },
    ),
    "sweep-prompt": ("sweep-prompt.sh", {"PROMPTS": "none oil"}),
    "sweep-klein": ("sweep-klein.sh", {}),
    "sweep-klein-dual-ref": ("sweep-klein.sh", {"CONDITIONING": "dual-ref", "STEPS": ""}),
    "sweep-klein-frame-first": (
        "sweep-klein.sh",
        {"CONDITIONING": "dual-ref", "REF_ORDER": "frame-first", "REPROJECT": "1", "PROMPTS": "neutral weathering"},
    ),
    "sweep-klein-mask": ("sweep-klein-mask.sh", {}),
    "sweep-klein-mask-neutral": ("sweep-klein-mask.sh", {"PROMPT": "", "OUT_PREFIX": "neutral"}),
    "smoke": ("smoke.sh", {"SMOKE_KLEIN": "1", "SMOKE_DISTANCE": "1"}),
    "smoke-local": ("smoke-local.sh", {}),
}  # fmt: skip
TOOLS = {"dltb-oneshot": oneshot, "dltb-iterate": iterate, "dltb-continuous": continuous, "dltb-klein": klein}


def run_directory(words: list[str]) -> tuple:
    """Where a leg's run lands: its --output-dir, its input and the tag that its tool makes of the other flags."""
    args = TOOLS[Path(words[0]).name].build_parser().parse_args(words[1:])
    tag = [words[0]]
    if hasattr(args, "mode"):
        conditioning = getattr(args, "conditioning", "blend")
        names = ("mode", "anchor_blend", "reproject", "reproject_mask")
        tag = [
            video_tag(conditioning=conditioning, **{name: getattr(args, name) for name in names}),
            tails_tag(args.tail_modes, args.tail_frames),
        ]
    return (args.output_dir, args.input, *tag)


def commands(text: str) -> list[list[str]]:
    """The commands of a dry run, as a shell would split them."""
    return [shlex.split(line) for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("case", CASES)
def test_what_would_run(case: str, pod: Place, tmp_path: Path) -> None:
    """Catches a changed default, flag, subtree or order of legs; and a dry run that writes, or wants a .venv.

    After a change that is meant: DLTB_UPDATE_GOLDEN=1 pytest tests/scripts/test_dry_run.py, and read the diff.
    """
    script, settings = CASES[case]
    before = pod.files()
    done = pod.dry(script, cwd=tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert pod.files() == before
    if os.environ.get("DLTB_UPDATE_GOLDEN"):
        (GOLDEN / f"{case}.txt").write_text(done.stdout)
    assert done.stdout == (GOLDEN / f"{case}.txt").read_text()


@pytest.mark.parametrize("case", CASES)
def test_the_tools_take_what_would_run(case: str) -> None:
    """Catches a flag that a tool does not know, and two legs that would share a run directory."""
    legs = [words for words in commands((GOLDEN / f"{case}.txt").read_text()) if Path(words[0]).name in TOOLS]
    assert len({run_directory(words) for words in legs}) == len(legs) > 1


def test_paths_of_the_environment_start_at_the_caller(pod: Place, tmp_path: Path) -> None:
    """Catches CLIP=my.mp4 being looked for in the project only, and a file's own paths being looked for elsewhere."""
    (tmp_path / "my clip.mp4").touch()
    text = pod.dry("sweep-klein-mask.sh", cwd=tmp_path, CLIP="my clip.mp4").stdout
    assert f"--input '{tmp_path}/my clip.mp4'" in text
    assert "--input input_example/courtyard.mp4" in pod.dry("sweep-klein-mask.sh", cwd=tmp_path).stdout


def test_inputs_come_from_environment_then_own_file_then_examples(pod: Place) -> None:
    """Catches another order, and an own file that has to name every variable."""
    own = pod.root / "untracked" / "input" / "inputs.env"
    own.parent.mkdir(parents=True)
    own.write_text('CLIP="${CLIP:-untracked/input/mine.mp4}"\n')
    try:
        assert "--input untracked/input/mine.mp4" in pod.dry("sweep.sh").stdout
        assert "--input other.mp4" in pod.dry("sweep.sh", CLIP="other.mp4").stdout
        assert "--input input_example/test_512.png" in pod.dry("smoke-local.sh").stdout
    finally:
        own.unlink()


@pytest.mark.parametrize(
    ("script", "settings", "says"),
    [
        ("sweep.sh", {"OFFLOAD": "yes"}, "a switch is 0 or 1, got 'yes'"),
        ("sweep.sh", {"REPROJECT": "ab"}, "a switch is 0 or 1, got 'ab'"),
        ("sweep-prompt.sh", {"PROMPTS": "none oils"}, "unknown prompt 'oils'"),
        ("sweep-prompt.sh", {"MODEL": "flux2-klein-4b"}, "has no strength"),
        ("sweep-klein.sh", {"CONDITIONING": "dualref"}, "CONDITIONING is blend or dual-ref"),
        (
            "sweep-klein.sh",
            {"CONDITIONING": "dual-ref", "REF_ORDER": "last"},
            "REF_ORDER is state-first or frame-first",
        ),
        ("sweep-klein.sh", {"REPROJECT": "both"}, "REPROJECT is 1, 0 or ab"),
    ],
)
def test_a_wrong_setting_is_one_line(script: str, settings: dict[str, str], says: str, pod: Place) -> None:
    """Catches a typo that runs something else for hours."""
    done = pod.dry(script, **settings)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_help_and_arguments(pod: Place) -> None:
    """Catches a script that takes an argument for granted, and a --help that runs something."""
    for script in (
        "sweep.sh",
        "sweep-prompt.sh",
        "sweep-klein.sh",
        "sweep-klein-mask.sh",
        "smoke.sh",
        "smoke-local.sh",
    ):
        shown = pod.call(script, "--help")
        assert shown.returncode == 0
        assert shown.stdout.startswith(script)
        assert "EXTRA_ARGS" in shown.stdout
        assert "source=" not in shown.stdout
        assert pod.call(script, "sd-turbo").returncode == 2


def test_without_an_environment_nothing_starts(pod: Place) -> None:
    """Catches a driver that would set up gigabytes by itself in the middle of a sweep."""
    done = pod.call("sweep.sh", UV_PROJECT_ENVIRONMENT=".venv")
    assert done.returncode == 2
    assert "run 'uv sync' first" in done.stderr
    assert not (pod.root / ".venv").exists()
