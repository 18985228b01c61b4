"""dltb-report: pages that stand on their own."""

import json
import re
import subprocess
import sys

import pytest

from dltb.pages.write import page_names
from dltb.report import main


def data_of(page):
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_one_run(runs, tmp_path, capsys):
    """Catches a page that asks the network for something, links that lead nowhere, and a part of the run left out."""
    run = runs.copy(runs.masked, tmp_path)
    assert main([str(run), "--source", str(runs.clip)]) == 0
    page = run / "report.html"
    assert f"report: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(https?:)?//', text)
    links = set(re.findall(r'(?:src|href)="([^"#]+)"', text)) - {"data:,"}
    assert links == {"processed_stateful.mp4", "tail_freeze.mp4", "tail_free.mp4", "tail_black.mp4"}
    stretches = data_of(page)["stretches"]
    assert [s["name"] for s in stretches] == ["main", "freeze", "free", "black"]
    assert stretches[1]["full"][0] == "frames/freeze%20frame_0001.png"
    assert "input sha256" in text


def test_the_report_is_replaced_and_nothing_else_is(runs, tmp_path, capsys):
    """Catches a second report that fails on the first, and a file of the user's that is gone."""
    run = runs.copy(runs.still, tmp_path)
    assert main([str(run)]) == main([str(run / "frames")]) == 0
    assert [path.name for path in tmp_path.rglob("*.html")] == ["report.html"]
    (run / "report.html").write_text("mine")
    assert main([str(run)]) == 2
    assert "was not written by dltb-report" in capsys.readouterr().err
    assert (run / "report.html").read_text() == "mine"


def test_settings_cannot_break_the_page(runs, tmp_path):
    """Catches a prompt that ends a script or becomes an element of the page."""
    run = runs.copy(runs.still, tmp_path)
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    told = json.loads((run / "run.json").read_text())
    told["settings"]["prompt"] = told["notes"] = [evil]
    (run / "run.json").write_text(json.dumps(told))
    (run / "drift_metrics.csv").write_text(f"frame,{evil}\nframe_0001,1\n")
    assert main([str(run)]) == 0
    text = (run / "report.html").read_text()
    assert evil not in text
    assert "<img src=x" not in text
    assert any(
        one["name"] == evil
        for chart in data_of(run / "report.html")["stretches"][0]["charts"]
        for one in chart["series"]
    )


def test_an_unfinished_run(runs, tmp_path):
    """Catches a report that needs the run to be over: a killed one has segments, a checkpoint, and half a log line."""
    from fractions import Fraction

    from dltb.output.recorder import Phase, RunPlan, RunRecorder
    from dltb.output.run_directory import Decision
    from tests.output.test_recorder import frame

    phase = Phase("main", 40, "processed_stateful.mp4")
    settings = {
        "mode": "stateful",
        "width": 48,
        "height": 32,
        "save_every": 5,
        "input": "gone.mp4",
        "input sha256": "0" * 64,
    }
    settings |= {"conditioning": "blend", "anchor_blend": 0.3, "reproject": True, "reproject_mask": False}
    run = tmp_path / "run"
    recorder = RunRecorder(RunPlan("dltb-continuous", run, Decision.NEW, settings, {}, [phase], 5, Fraction(24)))
    recorder.__enter__()
    recorder.start(phase)
    for index in range(1, 24):
        recorder.record(phase, index, frame(index), frame(index), {"seconds": 0.1})
    recorder._writer.close()  # and nothing more: as a kill leaves it
    with (run / "steps.jsonl").open("ab") as log:
        log.write(b'{"phase": "main", "pa')
    assert main([str(run)]) == 0
    (main_loop,) = data_of(run / "report.html")["stretches"]
    assert main_loop["passes"] == 23
    assert main_loop["numbers"] == list(range(1, 24))
    shown = [n for n, cell in zip(main_loop["numbers"], main_loop["cells"]["output"], strict=True) if cell >= 0]
    assert shown == list(range(1, 21)), "two closed segments, and the PNGs of passes 5 to 20"
    assert "1 of 24 lines are damaged" in (run / "report.html").read_text()
    recorder._stack.close()


def test_several_runs(runs, tmp_path, capsys):
    """Catches an index without one of its runs, links that lead nowhere, and runs that are compared over wrong frames."""
    out = tmp_path / "out"
    argv = [str(runs.masked), str(runs.anchored), str(runs.still), "--source", str(runs.clip), "--out", str(out)]
    assert main(argv) == 0
    assert "(3 runs)" in capsys.readouterr().out
    index = out / "report.html"
    told = data_of(index)["runs"]
    names = [f"a/{runs.masked.name}", f"a/{runs.anchored.name}", f"b/{runs.still.name}"]
    assert [run["label"] for run in told] == names
    text = index.read_text()
    pages = [f"{name.replace('/', '_')}.html" for name in names]
    assert all(f'href="{page}"' in text and (out / page).exists() for page in pages)
    assert 'href="report.html"' in (out / pages[0]).read_text()
    assert (out / told[0]["full"][0]).is_file()
    assert "No statistics of dltb-compare: it takes runs of a clip" in text


def test_no_page_replaces_another(runs, tmp_path):
    """Catches runs whose names become the same file name, and a run called report whose page is the index's."""
    root, out = tmp_path / "runs", tmp_path / "out"
    for name in ("a/b", "a_b", "report"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        runs.copy(runs.still, root / "made").rename(root / name)
    assert main([str(root), "--out", str(out)]) == 0
    told = data_of(out / "report.html")["runs"]
    assert sorted(run["label"] for run in told) == ["a/b", "a_b", "report"]
    pages = sorted(path.name for path in out.iterdir())
    assert len(pages) == 4
    assert all(f'href="{page}"' in (out / "report.html").read_text() for page in pages if page != "report.html")
    assert "report-2.html" in pages
    assert page_names(["a_b", "A_B", "a_b-2"]) == ["a_b.html", "A_B-2.html", "a_b-2-2.html"]


def test_runs_of_a_clip_are_compared(runs, tmp_path):
    """Catches the statistics of dltb-compare without a run, or other numbers than the tool's."""
    from dltb.compare import main as compare

    both = [str(runs.masked), str(runs.anchored), "--source", str(runs.clip)]
    assert main([*both, "--out", str(tmp_path / "report")]) == 0
    assert compare([*both, "--out", str(tmp_path / "compare")]) == 0
    text = (tmp_path / "report" / "report.html").read_text()
    rows = [line.split(",") for line in (tmp_path / "compare" / "compare.csv").read_text().splitlines()[1:]]
    means = {(run, zone, metric): float(mean) for run, zone, metric, mean, *_ in rows if zone == "frame"}
    checked = [
        means[label, "frame", metric]
        for label in (runs.masked.name, runs.anchored.name)
        for metric in ("mad", "detail")
    ]
    assert all(f"{value:.2f} [" in text for value in checked)


def test_a_folder_of_runs_and_its_summary(runs, tmp_path):
    """Catches a sweep whose own table is not shown, and a folder whose pages lie somewhere else."""
    root = tmp_path / "sweep"
    for name in ("stable", "unstable"):
        runs.copy(runs.still, root / name)
    (root / "stability_sweep.csv").write_text("anchor-blend,v_prev\n0.3,<b>\n")
    assert main([str(root)]) == 0
    text = (root / "report.html").read_text()
    assert "stability_sweep.csv" in text
    assert "&lt;b&gt;" in text
    assert (root / "stable" / runs.still.name / "report.html").is_file()
    assert main([str(root), "--out", str(tmp_path / "out")]) == 0
    assert "sweep/stability_sweep.csv" in (tmp_path / "out" / "report.html").read_text()


def test_a_grid_and_what_its_legs_differ_in(runs, tmp_path):
    """Catches a sweep's table that is not shown, or that hides what differs behind what all legs share."""
    root = tmp_path / "sweep"
    for name in ("one", "two"):
        runs.copy(runs.still, root / name)
    (root / "sweep.csv").write_text("leg,run,status,prompt,seed\none,one/x,complete,,1\ntwo,two/x,complete,fog,1\n")
    assert main([str(root)]) == 0
    text = (root / "report.html").read_text()
    shown = text[text.index("sweep/sweep.csv") :].split("</table>")[0]
    assert re.findall(r'scope="col">(\w+)', shown) == ["leg", "prompt"]
    assert "fog" in shown


def test_embedded(runs, tmp_path):
    """Catches a page to be sent that still needs its files."""
    run = runs.copy(runs.still, tmp_path)
    assert main([str(run), "--embed", "--out", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "report.html"
    assert not re.search(r'(?:src|href)="(?!data:|#)', page.read_text())
    assert all(full.startswith("data:image/png;base64,") for full in data_of(page)["stretches"][0]["full"])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "no run given"),
        ([""], "no run given"),
        (["nowhere"], "nowhere does not exist"),
        (["pyproject.toml"], "is a file"),
        (["doc"], "there is none below it"),
    ],
)
def test_wrong_requests(argv, says, capsys):
    """Catches a traceback, or an empty page, where one line would do."""
    assert main(argv) == 2
    assert says in capsys.readouterr().err


def test_no_torch(runs, tmp_path):
    """Catches an import of torch: reports are made in the light install too."""
    program = "import sys; sys.modules['torch'] = None; from dltb.report import main; sys.exit(main(sys.argv[1:]))"
    argv = [str(runs.masked), str(runs.still), "--out", str(tmp_path), "--source", str(runs.clip)]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_out_that_is_a_file_is_refused(runs, tmp_path, capsys):
    """Catches "File exists" without the flag that is wrong, after all the work."""
    (tmp_path / "README.md").write_text("kept")
    for place in (tmp_path / "README.md", tmp_path / "README.md" / "below"):
        assert main([str(runs.still), "--out", str(place)]) == 2
        assert "--out" in (said := capsys.readouterr().err)
        assert "is a file, not a folder" in said
    assert (tmp_path / "README.md").read_text() == "kept"
