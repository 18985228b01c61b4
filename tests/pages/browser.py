"""The Chromium of the system, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMES = (
    *("chromium", "chromium-browser", "google-chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def executable() -> str:
    """Where Chromium is. Without one a test is skipped, except in CI, where it fails: there it is to be installed."""
    found = os.environ.get("DLTB_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        told = "no Chromium found; install it (apt-get install chromium) or name it in DLTB_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return found


@contextmanager
def chromium() -> Iterator:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        yield browser
        browser.close()
