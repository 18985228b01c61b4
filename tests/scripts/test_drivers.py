"""Every driver's real run on the embedded models, on the pod: files, logs, reruns, failures and Ctrl-C."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.scripts.conftest import TINY, Place

KLEIN = TINY | {"MODEL": "tiny-klein"}
RUNS: dict[str, tuple[str, dict[str, str]]] = {
    "sweep": ("sweep.sh", TINY | {"BLENDS": "0.7"}),
    "prompt": ("sweep-prompt.sh", TINY | {"PROMPTS": "none oil", "STRENGTHS": "0.4"}),
    "klein": (
        "sweep-klein.sh",
        KLEIN | {"CONDITIONING": "dual-ref", "PROMPTS": "weathering", "STEPS": "2", "REPROJECT": "1"},
    ),
    "smoke": ("smoke.sh", TINY | {"SMOKE_KLEIN": "1", "SMOKE_DISTANCE": "flip"}),
    "local": ("smoke-local.sh", TINY | {"IMG": "input_example/seeding_512.png"}),
}
SWEPT = {
    "output_tiny_turbo/courtyard_anchored",
    "output_tiny_turbo/courtyard_stateful-a0.7_tailsfreeze-free-black1",
    "output_tiny_turbo/prompt/courtyard_stateful-a0.7_tailsfreeze1",
    "output_tiny_turbo/strength0.55/courtyard_stateful-a0.7_tailsfreeze1",
}


@pytest.fixture(scope="module")
def runs(pod: Place) -> Iterator[dict[str, Future]]:
    """All drivers, two at a time, each in a sweep of its own; a process here is mostly one thread that imports."""

    def drive(name: str) -> subprocess.CompletedProcess:
        script, settings = RUNS[name]
        return pod.call(script, **settings, OUT_PREFIX=f"of-{name}")

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(drive, name) for name in RUNS}
        pool.shutdown(cancel_futures=True)


def passed(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def settings_of(pod: Place, name: str) -> dict[str, dict]:
    """Settings of every complete run of one driver, by folder under untracked/, without the driver's own level."""
    found = {}
    for path in (pod.root / "untracked").rglob("run.json"):
        if f"of-{name}" in path.parts:
            manifest = json.loads(path.read_text())
            assert manifest["status"] == "complete"
            folder = path.parent.relative_to(pod.root / "untracked").as_posix()
            found[folder.replace(f"/of-{name}", "")] = manifest["settings"]
    return found


def test_sweep_and_again(runs: dict[str, Future], pod: Place) -> None:
    """Catches missing legs, settings that do not reach a leg, and a second run that does anything again."""
    out = passed(runs["sweep"].result())
    assert "all 4 legs done (0 were complete already)" in out
    found = settings_of(pod, "sweep")
    assert set(found) == SWEPT
    anchor, probe = (
        found[f"output_tiny_turbo/{name}/courtyard_stateful-a0.7_tailsfreeze1"] for name in ("prompt", "strength0.55")
    )
    assert anchor["prompt"] == "a sharp, natural photograph of the same scene"
    assert probe["strength"] == 0.55
    log = Path(out.splitlines()[0].removeprefix("log: "))
    assert log.parent == pod.root / "untracked" / "output"
    assert [line for line in log.read_text().splitlines() if line] == [line for line in out.splitlines() if line]

    script, settings = RUNS["sweep"]
    videos = {
        path: path.stat().st_mtime_ns
        for path in (pod.root / "untracked" / "output_tiny_turbo" / "of-sweep").rglob("*.mp4")
    }
    assert len(videos) == 1 + 4 + 2 + 2
    assert "all 4 legs done (4 were complete already)" in passed(pod.call(script, **settings, OUT_PREFIX="of-sweep"))
    assert {path: path.stat().st_mtime_ns for path in videos} == videos

    other = pod.call(script, **settings | {"MAX_FRAMES": "3"}, OUT_PREFIX="of-sweep")
    assert other.returncode == 2
    assert "max_frames: 2 there, 3 now" in other.stdout
    assert "FAILED: tiny-turbo: boil test (exit 2), leg 1" in other.stdout
    assert "OUT_PREFIX" in other.stdout
    assert {path: path.stat().st_mtime_ns for path in videos} == videos


def test_prompts(runs: dict[str, Future], pod: Place) -> None:
    """Catches a prompt that does not reach the model."""
    passed(runs["prompt"].result())
    found = settings_of(pod, "prompt")
    assert {folder: run["prompt"] for folder, run in found.items()} == {
        "output_tiny_turbo/prompt-none/strength0.4/test_512_free-running": "",
        "output_tiny_turbo/prompt-oil/strength0.4/test_512_free-running": "an oil painting",
    }
    frames = [path.read_bytes() for path in (pod.root / "untracked").rglob("of-prompt/prompt-*/**/frame_0002.png")]
    assert len(set(frames)) == 2


def test_klein(runs: dict[str, Future], pod: Place) -> None:
    """Catches a lost role prompt, and a steps probe with the default number of steps."""
    passed(runs["klein"].result())
    found = settings_of(pod, "klein")
    assert {folder: run["num_inference_steps"] for folder, run in found.items()} == {
        "output_tiny_klein/prompt-weathering/courtyard_dualref_tailsfreeze1": 4,
        "output_tiny_klein/steps2/courtyard_dualref_tailsfreeze1": 2,
    }
    assert all(run["prompt"].startswith("image 2 is the current frame; ") for run in found.values())


def test_smoke_on_the_extracted_bundle(runs: dict[str, Future], pod: Place) -> None:
    """Catches a file that the bundle lacks, and a smoke test that passes without looking."""
    out = passed(runs["smoke"].result())
    assert "all 7 legs done" in out
    assert (
        pod.root / "untracked/output_tiny_turbo/of-smoke/smoke/test_512_free-running/distance_metrics.csv"
    ).is_file()
    assert len(settings_of(pod, "smoke")) == 5


def test_smoke_local(runs: dict[str, Future]) -> None:
    """Catches a lost check for one colour, and times that are not reported."""
    out = passed(runs["local"].result())
    assert "frame_0001.png: a picture (standard deviation" in out
    assert " s wall clock" in out


def test_one_colour_is_no_picture(pod: Place, tmp_path: Path) -> None:
    """Catches a check that lets a black frame through."""
    from PIL import Image

    Image.new("RGB", (64, 64), (9, 9, 9)).save(tmp_path / "flat.png")
    python = Path(pod.environment()["UV_PROJECT_ENVIRONMENT"]) / "bin" / "python"
    check = [str(python), str(pod.root / "scripts" / "check_picture.py"), str(tmp_path / "flat.png")]
    done = subprocess.run(check, env=pod.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is one colour" in done.stderr


def test_interrupted_and_again(pod: Place) -> None:
    """Catches Ctrl-C that ends the leg only, and an unfinished leg that starts over or is taken for finished."""
    settings = KLEIN | {"MAX_FRAMES": "24", "TAIL_FRAMES": "0", "OUT_PREFIX": "stopped"}
    root = pod.root / "untracked/output_tiny_klein/stopped/mask-ab"
    plain, masked = root / "courtyard_dualref", root / "courtyard_dualref-fbmask"
    process = subprocess.Popen(
        pod.command("sweep-klein-mask.sh"), env=pod.environment(**settings), stdout=subprocess.PIPE, text=True
    )
    limit = time.monotonic() + 120
    while time.monotonic() < limit and process.poll() is None:
        if (plain / "steps.jsonl").exists() and (plain / "steps.jsonl").read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)  # to the script alone: it hands the signal on
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "stopped by SIGINT; the same command goes on from here" in out
    assert not masked.exists()
    assert json.loads((plain / "run.json").read_text())["status"] == "interrupted"

    assert "all 2 legs done (0 were complete already)" in passed(pod.call("sweep-klein-mask.sh", **settings))
    manifests = [json.loads((run / "run.json").read_text()) for run in (plain, masked)]
    assert [manifest["status"] for manifest in manifests] == ["complete"] * 2
    assert [len(manifest["sessions"]) for manifest in manifests] == [2, 1]
    assert [manifest["settings"]["reproject_mask"] for manifest in manifests] == [False, True]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"MODEL": "sdxl-trubo"}, "unknown model 'sdxl-trubo'"),
        ({"MODEL": "flux2-klein-9b"}, "flux2-klein-9b is gated"),
        (
            {"MODEL": "tiny-klein", "SKIP_GPU_CHECK": "0", "CUDA_VISIBLE_DEVICES": ""},
            "SKIP_GPU_CHECK=1 goes on without",
        ),
    ],
)
def test_refused_before_the_first_leg(settings: dict[str, str], says: str, pod: Place) -> None:
    """Catches a sweep that fails hours later for what was known at its start."""
    import torch

    if torch.backends.mps.is_available() and "SKIP_GPU_CHECK" in settings:
        pytest.skip("this machine has an accelerator that cannot be hidden")
    done = pod.call("sweep-klein.sh", **KLEIN | {"OUT_PREFIX": "refused"} | settings)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
