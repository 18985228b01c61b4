"""dltb-view as a command; its pages are tested in tests/pages."""

import signal
import socket
import subprocess
import sys

import pytest

from dltb.view import main


@pytest.mark.parametrize("root", ["nowhere", "", "pyproject.toml"])
def test_a_root_that_is_no_folder(root, capsys):
    """Catches a server over nothing."""
    assert main([root]) == 2
    assert "is no folder; give one that has runs below it" in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path, capsys):
    """Catches a traceback of the server's library."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main([str(tmp_path), "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give another --port" in capsys.readouterr().err


def test_without_the_extra(tmp_path, monkeypatch, capsys):
    """Catches a traceback in the light install, which has no server."""
    monkeypatch.delitem(sys.modules, "dltb.pages.serve", raising=False)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main([str(tmp_path)]) == 2
    assert "pip install 'dltb[view]'" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_on_a_signal(tmp_path, number, code):
    """Catches a server that stays, and a traceback for Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dltb.view", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in said


def test_help_says_the_default_once(capsys):
    """Catches a default that is written by hand beside the one that the parser adds."""
    from dltb.view import build_parser

    assert build_parser().format_help().count("(default: untracked)") == 1
