"""A page in headless Chromium, opened from disk, without network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
NEEDS_CHROMIUM = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both on PATH: the page is not opened")

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --window-size=1280,900")


LOADING = 60
"""Seconds that a page may take until all of it is there."""


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """A browser that keeps what it keeps in the folder `profile`, and its log of complaints."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in (*OPTIONS.split(), f"--user-data-dir={profile}"):
        options.add_argument(option)
    browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield browser
    browser.quit()


def open_page(browser: Chrome, page: Path, *, width: int = 1280, theme: str = "light", script: bool = True,
              fragment: str = "") -> Chrome:
    """Opens the page afresh at a width, in a theme, with or without script."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    browser.get("about:blank")
    browser.get(page.as_uri() + fragment)
    _wait_for_all(browser)
    return browser


def _wait_for_all(browser: Chrome) -> None:
    """The driver may come back before; it waits by script, too, which a page may be forbidden to run."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, LOADING).until(
        lambda opened: evaluate(opened, "location.protocol + document.readyState") == "file:complete")


def evaluate(browser: Chrome, expression: str) -> Any:  # noqa: ANN401  (whatever the page answers)
    """The value of an expression in the page; also works where the page itself may run no script."""
    answer = browser.execute_cdp_cmd("Runtime.evaluate", {"expression": expression, "returnByValue": True})
    return answer["result"].get("value")


def type_into(browser: Chrome, field: str, text: str) -> None:
    """Types into the field of this id, or chooses in it."""
    browser.execute_script(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', {bubbles: true}))", field, text)
