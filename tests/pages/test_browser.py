"""The pages in a real browser: they run without an error, everything moves together, keys and small screens work."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dltb.report import main as report
from tests.pages.browser import chromium

PANELS = ("source", "output", "input", "flow", "mask")
SMALL_RUN = ["--width", "64", "--height", "64", "--save-every", "5"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser) -> Iterator[Callable[..., Any]]:
    """``opened(address, width=..., dark=...)``: a page that is ready. No page may log an error or ask another host."""
    contexts, troubles = [], []

    def open_page(address: str, *, width: int = 1280, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda asked: troubles.append(asked.url) if not own(address, asked.url) else None)
        page.goto(address)
        page.wait_for_function("() => window.dltbReady === true")
        return page

    open_page.troubles = troubles
    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def own(address: str, asked: str) -> bool:
    return asked.startswith(
        ("data:", "file:") if address.startswith("file:") else ("data:", "/".join(address.split("/")[:3]))
    )


@pytest.fixture(scope="module")
def pages(runs, tmp_path_factory) -> dict[str, str]:
    """Addresses of a report, and of one about several runs."""
    root = tmp_path_factory.mktemp("reports")
    masked = runs.copy(runs.masked, root)
    clip = ["--source", str(runs.clip)]
    assert report([str(masked), *clip]) == 0
    assert report([str(runs.feedback), "--out", str(root / "feedback")]) == 0
    several = [str(masked), str(runs.sparse), str(runs.anchored)]
    assert report([*several, *clip, "--out", str(root / "several")]) == 0
    places = {"report": masked, "feedback": root / "feedback", "several": root / "several"}
    return {name: (place / "report.html").as_uri() for name, place in places.items()}


@pytest.fixture(scope="module")
def view(runs, tmp_path_factory) -> Iterator[str]:
    """The address of dltb-view over a folder with runs, one of which has a name that needs every kind of escape."""
    root = tmp_path_factory.mktemp("view")
    runs.copy(runs.masked, root)
    runs.copy(runs.still, root).rename(root / "<b>&\"' #?% ü")
    with serving(root) as address:
        yield address


class serving:
    """dltb-view in a process of its own; ``stop`` and ``start`` again on the same port."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, 0

    def __enter__(self) -> str:
        return self.start()

    def start(self) -> str:
        argv = [sys.executable, "-m", "dltb.view", str(self.root), "--port", str(self.port)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        address = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        self.port = int(address[1])
        return address[0]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(10) == 130

    def __exit__(self, *error: object) -> None:
        self.stop()


def shoot(page: Any, name: str, tmp_path: Path) -> None:
    """Keep a picture of the page, in DLTB_SCREENSHOTS where CI keeps it."""
    folder = Path(os.environ.get("DLTB_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True)
    assert (folder / f"{name}.png").stat().st_size > 5000


def shown(page: Any) -> dict[str, str]:
    """The pass that each panel shows, and whether its picture has loaded or a reason stands there."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".panel")].map((panel) => {
            const image = panel.querySelector(".picture img"), why = panel.querySelector(".why");
            const seen = image.hidden ? why.textContent.length > 5 : image.complete && image.naturalWidth > 0;
            return [panel.id.split("-")[1], `${panel.dataset.number} ${seen}`];
        }))"""
    )


def where(page: Any) -> str:
    return page.text_content("#where")


def test_one_scrubber_moves_everything(opened, pages, tmp_path):
    """Catches a panel or a curve that stays behind."""
    page = opened(pages["report"])
    for key, number in (
        ("End", 24),
        ("ArrowLeft", 23),
        ("PageDown", 13),
        ("Home", 1),
        ("ArrowRight", 2),
        ("PageUp", 12),
    ):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
        assert where(page) == f"pass {number} of 24"
        assert shown(page) == dict.fromkeys(PANELS, f"{number} true")
        legends = page.eval_on_selector_all(
            ".u-legend .u-series:first-child .u-value", "all => all.map((e) => e.textContent)"
        )
        assert set(legends) <= {str(number), str(max(number, 2))}, "some curves begin with the second pass"
    page.wait_for_function("() => document.querySelector('#panel-output img').src.endsWith('frames/frame_0012.png')")
    shoot(page, "report", tmp_path)


def test_the_slider_itself_takes_keys(opened, pages):
    """Catches keys that count twice when the slider has the focus, and none that it understands."""
    page = opened(pages["report"])
    page.focus("#scrub")
    for key, number in (("ArrowRight", 2), ("ArrowRight", 3), ("End", 24), ("Home", 1)):
        page.keyboard.press(key)
        assert where(page) == f"pass {number} of 24"
    assert page.get_attribute("#scrub", "aria-valuetext") == "pass 1 of 24"


def test_a_curve_is_a_scrubber_too(opened, pages):
    """Catches charts that only show."""
    page = opened(pages["report"])
    page.locator(".u-over").first.scroll_into_view_if_needed()
    box = page.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=4)
    page.mouse.up()
    assert 10 <= int(where(page).split()[1]) <= 15
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 20)
    assert where(page) == "pass 24 of 24"


def test_tails_contact_sheet_and_playing(opened, pages, tmp_path):
    """Catches a tail that shows the main loop's frames, and buttons without effect."""
    page = opened(pages["report"])
    page.click("#sheet button:nth-child(5)")
    assert where(page) == "pass 5 of 24"
    assert page.get_attribute("#sheet button:nth-child(5)", "aria-current") == "true"
    page.select_option("#stretch", label="tail: free (4)")
    page.wait_for_timeout(60)
    assert where(page) == "pass 1 of 4"
    assert "a free tail has no fresh frame" in page.text_content("#panel-source .why")
    page.click("#play")
    page.wait_for_function("() => document.getElementById('where').textContent === 'pass 4 of 4'")
    page.wait_for_function("() => document.getElementById('play').textContent === 'Play'")
    shoot(page, "tail", tmp_path)


def test_the_verdict_is_in_the_plot(opened, pages):
    """Catches a plateau that is told and not drawn."""
    page = opened(pages["feedback"])
    chart = page.locator(".chart", has_text="stable from 1 on").first
    green = chart.locator("canvas").evaluate(
        """(canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let count = 0;
            for (let i = 0; i < data.length; i += 4) count += data[i + 1] > data[i] + 60 && data[i + 1] > data[i + 2] + 15;
            return count;
        }"""
    )
    assert green > 50
    assert "stable from" in chart.locator("[role=img]").get_attribute("aria-label")


def test_a_run_without_a_pass(opened, runs, tmp_path):
    """Catches a page that fails, or stands empty without a word, because the run was killed before its first pass."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_bytes((runs.masked / "run.json").read_bytes())
    told = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(told | {"status": "failed", "passes": {}}))
    assert report([str(run)]) == 0
    page = opened((run / "report.html").as_uri())
    assert where(page) == "no pass to show"
    page.keyboard.press("End")
    assert set(page.eval_on_selector_all(".panel .why", "all => all.map((one) => one.textContent)")) == {
        "there is no pass to show"
    }
    assert "no frame to show" in page.text_content("#sheet")
    assert "dltb-assemble makes one" in page.text_content(".videos")


def test_side_by_side_and_wipe(opened, pages, tmp_path):
    """Catches a run that stays at another pass, and a wipe that cannot be moved by mouse or by key."""
    page = opened(pages["several"])
    page.keyboard.press("End")
    page.wait_for_timeout(60)
    assert shown(page) == {"0": "24 true", "1": "24 true", "2": "24 true"}
    page.select_option("#choose-b", "2")
    page.focus("#wipe-position")
    page.keyboard.press("Home")
    clip = "document.getElementById('wipe-a').style.clipPath"
    assert page.evaluate(clip) == "inset(0px 100% 0px 0px)"
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert page.evaluate(clip) == "inset(0px 70% 0px 0px)"
    assert where(page) == "pass 24", "the wipe's keys are not the scrubber's"
    page.locator("#wipe").scroll_into_view_if_needed()
    box = page.locator("#wipe").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 20)
    assert page.input_value("#wipe-position") == "60"
    before = page.get_attribute("#wipe-a", "alt")
    page.click("#swap")
    assert page.get_attribute("#wipe-b", "alt") == before.replace("A:", "B:", 1)
    page.wait_for_function("() => document.querySelector('#wipe-a').naturalWidth > 0")
    page.select_option("#series", "detail")
    assert page.text_content("#charts h3") == "detail"
    shoot(page, "several", tmp_path)


def addresses(pages: dict[str, str], view: str) -> dict[str, str]:
    name = "clip_stateful-a0.3-fbmask_control-identity_tailsfreeze-free-black4"
    odd = quote("<b>&\"' #?% ü")
    served = {"list": "/", "live": f"/run/{name}", "served report": f"/report/{name}"}
    served["compared"] = f"/compare?run={name}&run={odd}"
    return pages | {kind: view + address for kind, address in served.items()}


@pytest.mark.parametrize("dark", [False, True])
def test_accessible(opened, pages, view, dark):
    """Catches what axe-core finds serious: contrast, names, roles, landmarks, things that no key reaches."""
    from axe_playwright_python.sync_playwright import Axe

    for name, address in addresses(pages, view).items():
        page = opened(address, dark=dark)
        page.wait_for_timeout(200)
        page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        faults = Axe().run(page).response["violations"]
        grave = [(f["id"], f["nodes"][0]["html"]) for f in faults if f["impact"] in ("serious", "critical")]
        assert grave == [], name


def test_narrow_screens(opened, pages, view, tmp_path):
    """Catches a page that has to be pushed sideways on a phone."""
    for name, address in addresses(pages, view).items():
        page = opened(address, width=360)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        shoot(page, f"narrow {name}", tmp_path)


def test_the_list_and_a_report_from_it(opened, view, tmp_path):
    """Catches names that break an address or become elements, a filter without effect, and a report that does not open."""
    page = opened(f"{view}/")
    assert page.text_content("#count") == "2 of 2 runs"
    page.wait_for_function("() => [...document.querySelectorAll('.card img')].every((image) => image.naturalWidth > 0)")
    page.fill("#filter", "ü")
    assert page.text_content("#count") == "1 of 2 runs"
    shoot(page, "list", tmp_path)
    page.click(".card:not([hidden]) h3 a")
    page.wait_for_function("() => document.body.dataset.passes === '3'")
    assert page.text_content("h1") == "<b>&\"' #?% ü"
    page.wait_for_function("() => document.getElementById('latest').naturalWidth > 0")
    page.click("#report")
    page.wait_for_function("() => window.dltbReady === true && document.getElementById('scrub')")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('#panel-output img').src.includes('/files/')")
    page.wait_for_function("() => document.querySelector('#panel-output img').naturalWidth === 64")
    page.click("nav a")
    page.wait_for_function("() => document.getElementById('count')?.textContent === '2 of 2 runs'")


def test_runs_chosen_from_the_list(opened, view):
    """Catches a choice that is lost between two polls, or a comparison of other runs."""
    page = opened(f"{view}/")
    assert page.is_disabled("#compare")
    for box in page.locator(".card input").all():
        box.check()
    page.wait_for_timeout(2500)
    page.click("#compare")
    page.wait_for_function("() => window.dltbReady === true && document.getElementById('wipe')")
    page.keyboard.press("End")
    page.wait_for_timeout(300)
    assert sorted(shown(page).values()) == ["24 true", "3 true"]


def test_another_site_gets_nothing(browser, view, tmp_path):
    """Catches a page on another port of this machine that reads runs, shows their frames, or puts the view in a frame."""
    (tmp_path / "index.html").write_text("<!doctype html><title>other</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    got = page.evaluate(
        """async (view) => {
            const read = async (mode) => {
                try { return (await fetch(`${view}/api/runs`, { mode })).type; } catch { return "refused"; }
            };
            const image = (src) => new Promise((done) => {
                Object.assign(new Image(), { onload: () => done("shown"), onerror: () => done("refused"), src });
            });
            const name = "clip_stateful-a0.3-fbmask_control-identity_tailsfreeze-free-black4";
            const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), { src: view }));
            await new Promise((done) => { frame.onload = done; });
            let inside = "refused";
            try { inside = frame.contentDocument ? "read" : "refused"; } catch { inside = "refused"; }
            const picture = await image(`${view}/files/${name}/frames/frame_0001.png`);
            return [await read("cors"), await read("no-cors"), picture, inside];
        }""",
        view,
    )
    page.close()
    server.shutdown()
    assert got == ["refused"] * 4


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


def test_addresses_as_no_browser_sends_them(view):
    """Catches traversal by addresses that a client library would tidy up."""
    port = int(view.rsplit(":", 1)[1])
    for address in (
        "/files/../../../../etc/passwd",
        "/files//etc/passwd",
        "/../etc/passwd",
        "/run/../../x",
        "/files/%00",
    ):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", address)
        assert connection.getresponse().status == 404, address
        connection.close()


def passes(page: Any) -> int:
    return int(page.evaluate("document.body.dataset.passes ?? 0"))


def test_a_run_is_followed_from_start_to_end(opened, tmp_path):
    """Catches a page that has to be loaded anew: the run begins, is killed, goes on, and ends while the page is open."""
    root, run = tmp_path / "root", tmp_path / "root" / "test_512_free-running"
    root.mkdir()
    argv = [
        sys.executable,
        "-m",
        "dltb.iterate",
        "--iterations",
        "120",
        *SMALL_RUN,
        "--output-dir",
        str(root),
        "--resume",
    ]
    with serving(root) as address:
        page = opened(f"{address}/")
        assert page.text_content("#count") == "0 of 0 runs"
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page.wait_for_selector(".card .badge.running", timeout=120_000)
        page.click(".card h3 a")
        page.wait_for_function("() => Number(document.body.dataset.passes) >= 13", timeout=60_000)
        assert "left" in page.text_content("#left")
        assert 0 < page.evaluate("document.getElementById('progress').value") < 1
        shoot(page, "running", tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.wait_for_function("() => document.body.dataset.status === 'killed'", timeout=20_000)
        assert "--resume goes on" in page.text_content("#text")
        kept = passes(page)
        assert kept == (run / "steps.jsonl").read_bytes().count(b"\n")
        shoot(page, "killed", tmp_path)
        assert subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        page.wait_for_function("() => document.body.dataset.status === 'complete'", timeout=20_000)
        page.wait_for_function("() => document.body.dataset.passes === '120'", timeout=20_000)
        assert page.text_content("#caption") == "frame_0120.png"
        page.wait_for_function("() => document.getElementById('latest').naturalWidth === 64")
        shoot(page, "complete", tmp_path)
        values = page.eval_on_selector_all(".u-legend .u-value", "all => all.map((one) => one.textContent)")
        assert "120" in values, "the last pass is told without a pointer"
        assert "--" not in values
        page.close()
    assert len((run / "steps.jsonl").read_text().splitlines()) == 120


def test_the_server_comes_back(opened, runs, tmp_path):
    """Catches a page that stays dead after its server was started anew."""
    root = tmp_path / "root"
    run = runs.copy(runs.still, root)
    server = serving(root)
    page = opened(f"{server.start()}/run/{run.name}")
    server.stop()
    page.wait_for_selector("#lost:not([hidden])", timeout=20_000)
    with (run / "steps.jsonl").open("a") as log:
        log.write(json.dumps({"phase": "main", "pass": 4, "seconds": 0.1}) + "\n")
    server.start()
    page.wait_for_selector("#lost", state="hidden", timeout=20_000)
    page.wait_for_function("() => document.body.dataset.passes === '4'", timeout=20_000)
    server.stop()
    assert all("ERR_CONNECTION_REFUSED" in trouble for trouble in opened.troubles)
    opened.troubles.clear()


def test_no_browser_is_a_failure_in_ci_only(monkeypatch):
    """Catches browser tests that are skipped where they matter."""
    from tests.pages import browser as module

    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    monkeypatch.delenv("DLTB_CHROMIUM", raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Chromium found"):
        module.executable()
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        module.executable()
