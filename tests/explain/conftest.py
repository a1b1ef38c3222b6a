"""The browser that all tests of pages share."""

from collections.abc import Iterator
from typing import Any

import browser
import pytest


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser; a test that asks for it is skipped where there is none."""
    if missing := browser.missing():
        pytest.skip(missing)
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as chrome:
        yield chrome


@pytest.fixture
def driver(chromium: Any) -> Iterator[Any]:
    """The browser; the pages that a test opens must give it nothing to complain of."""
    yield chromium
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
