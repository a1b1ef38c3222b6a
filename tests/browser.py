"""A headless Chromium, the system's, that tests and measurements drive through WebDriver."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ARGUMENTS = (
    *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"),
    "--no-sandbox",  # a container's root cannot have one; only pages of the tests are opened
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no page may need the network
)


def missing() -> str | None:
    """Return the missing part of a browser test, or None."""
    if find_spec("selenium") is None:
        return "no selenium; make install-dev has it"
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return "no chromium with chromedriver; Debian: apt-get install chromium chromium-driver"
    return None


@contextmanager
def chromium(downloads: Path, *arguments: str) -> Iterator[Any]:
    """A WebDriver; what a page saves goes to the folder `downloads`."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (*ARGUMENTS, *arguments):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()
