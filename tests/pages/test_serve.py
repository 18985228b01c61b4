"""The server of dltb-view, as a browser, another site, or an attacker would ask it."""

import json

import pytest
from starlette.testclient import TestClient

from dltb.pages.serve import build_app


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(build_app(runs.root, runs.clip), base_url="http://127.0.0.1:8765") as client:
        yield client


def name(runs, run):
    return run.relative_to(runs.root).as_posix()


def test_pages_and_data(client, runs):
    """Catches an address that answers nothing, and a page that its own policy does not let run."""
    still = name(runs, runs.still)
    for address in ("/", f"/run/{still}", f"/report/{still}"):
        answer = client.get(address)
        assert answer.status_code == 200, address
        policy = answer.headers["content-security-policy"]
        nonce = policy.split("script-src 'nonce-")[1].split("'")[0]
        assert answer.text.count(f'nonce="{nonce}"') == answer.text.count("<script") + answer.text.count("<style")
        assert "unsafe" not in policy
    assert {run["name"] for run in client.get("/api/runs").json()} == {
        name(runs, run) for run in (runs.masked, runs.sparse, runs.anchored, runs.still, runs.feedback)
    }
    assert len(client.get(f"/api/run/{still}").json()["steps"]) == 3
    assert client.get(f"/thumbnail/{still}/frames/frame_0001.png").headers["content-type"] == "image/webp"


def test_two_runs_side_by_side(client, runs):
    """Catches a comparison of one run, of a run outside the root, and links from it that lead nowhere."""
    names = [name(runs, run) for run in (runs.masked, runs.anchored)]
    answer = client.get("/compare", params={"run": names})
    assert answer.status_code == 200
    for address in (f"/report/{names[1]}", f"/files/{names[0]}/frames/frame_0024.png"):
        assert address in answer.text
        assert client.get(address).status_code == 200
    assert client.get("/compare", params={"run": [names[0], names[0]]}).status_code == 400
    assert client.get("/compare", params={"run": [names[0], "../x"]}).status_code == 404


def test_reports_link_to_files_that_are_served(client, runs):
    """Catches a report in the view whose frames and videos do not load; a space in a name is one of the traps."""
    import re

    text = client.get(f"/report/{name(runs, runs.masked)}").text
    links = set(re.findall(r'/files/[^"\\]+\.(?:png|mp4)', text))
    assert any("freeze%20frame_0001.png" in link for link in links)
    for link in sorted(links)[:3] + [link for link in links if "%20" in link or "mp4" in link]:
        assert client.get(link).status_code == 200, link
    part = client.get(f"/files/{name(runs, runs.masked)}/processed_stateful.mp4", headers={"Range": "bytes=0-99"})
    assert (part.status_code, len(part.content)) == (206, 100)


def test_a_report_of_what_is_linked_from_outside(runs, tmp_path):
    """Catches a report that fails, or links to what is not served, where frames or a video are links out of the root."""
    run = runs.copy(runs.anchored, tmp_path / "root")
    for name in ("frames", "tail_free.mp4"):
        (run / name).symlink_to((run / name).rename(tmp_path / name))
    with TestClient(build_app(tmp_path / "root", runs.clip), base_url="http://127.0.0.1") as client:
        assert client.get("/api/runs").status_code == 200
        answer = client.get(f"/report/{run.name}")
    assert answer.status_code == 200
    assert "frame_0024.png" not in answer.text
    assert "it lies outside the root" in answer.text
    assert f"/files/{run.name}/tail_black.mp4" in answer.text


def test_a_report_says_that_its_run_was_killed(runs, tmp_path):
    """Catches a kept report that says running forever: a killed process changes no file."""
    import subprocess
    import sys

    run = runs.copy(runs.still, tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    told = json.loads((run / "run.json").read_text()) | {"status": "running"}
    told["sessions"][-1] |= {"pid": process.pid, "ended": None}
    (run / "run.json").write_text(json.dumps(told))
    with TestClient(build_app(tmp_path), base_url="http://127.0.0.1") as client:
        assert "its process is gone" not in client.get(f"/report/{run.name}").text
        process.kill()
        process.wait()
        assert "its process is gone" in client.get(f"/report/{run.name}").text
    process.stdin.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8765"},
        {"Host": "127.0.0.1.evil.example:8765"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_other_sites_get_nothing(client, runs, headers):
    """Catches DNS rebinding, and a page of another site that reads or embeds runs."""
    for address in ("/", "/api/runs", f"/files/{name(runs, runs.still)}/frames/frame_0001.png"):
        answer = client.get(address, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        assert len(answer.content) < 100


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "[::1]:8765", "LOCALHOST"])
def test_this_machine_gets_in(client, host):
    """Catches a forwarded port that is refused, and a link from another page that cannot be followed."""
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert client.get("/api/runs", headers=own).status_code == 200
    visit = {"Host": host, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=visit).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_start_no_report(client, runs, site):
    """Catches a link or a window of another site that keeps every core busy; one's own bookmark works."""
    visit = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    address = f"/report/{name(runs, runs.still)}"
    for asked in (address, "/%72eport/x", f"/compare?run={name(runs, runs.still)}&run={name(runs, runs.feedback)}"):
        assert client.get(asked, headers=visit | {"Sec-Fetch-Site": site}).status_code == 403
    assert client.get(address, headers=visit | {"Sec-Fetch-Site": "none"}).status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        "/files/..%2F..%2Fetc%2Fpasswd",
        "/files//etc/passwd",
        "/files/%2e%2e/%2e%2e/etc/passwd",
        "/files/a/..%5C..%5Cx.png",
        "/files/%00.png",
        "/thumbnail/..%2Fsecret.png",
        "/run/%2e%2e%2f",
        "/report/..%2F..",
        "/api/run/..%2F",
        "/api/run/nowhere",
        "/static/common.js",
    ],
)
def test_nothing_outside_the_root(client, address):
    """Catches traversal through any of the addresses."""
    assert client.get(address).status_code == 404


def test_it_only_reads(client, runs):
    """Catches a method that changes something, and answers that a browser may keep, frame or guess the type of."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/api/runs").status_code == 405
    before = {path: path.stat().st_mtime_ns for path in runs.masked.rglob("*")}
    client.get(f"/report/{name(runs, runs.masked)}")
    assert {path: path.stat().st_mtime_ns for path in runs.masked.rglob("*")} == before
    headers = client.get("/api/runs").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_polls_cost_little(client):
    """Catches a list that is sent again although nothing has changed."""
    first = client.get("/api/runs")
    again = client.get("/api/runs", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
