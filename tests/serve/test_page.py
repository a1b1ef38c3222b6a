"""The page in a browser: type, see, force a prefix, change a row of attention, compare."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import browser
import pytest
import uvicorn
from evaluation.test_confidence import CALIBRATION
from explain.test_page_in_browser import MISSING, texts

from nmt.serve.app import make_app
from nmt.serve.run import listen, url_of
from nmt.translation.translator import Translator

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

TEXT = "The cats see"


@pytest.fixture(scope="module")
def address(translator: Translator) -> Iterator[str]:
    with listen("127.0.0.1", 0) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.serve.service.find_calibration", lambda *_: CALIBRATION)
        app = make_app([("one", translator), ("two", translator)])
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield url_of(listener)
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as driver:
        yield driver


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    """The page with a sentence typed; at the end the browser must have nothing to complain of."""
    chromium.get(address)
    until(chromium, "document.querySelector('.prefix')")
    chromium.find_element("id", "text").send_keys(TEXT)
    until(chromium, "document.querySelector('.hypotheses button')")
    yield chromium
    assert [line["message"] for line in chromium.get_log("browser")] == []


def until(driver: Any, condition: str | Callable[[Any], bool], message: str = "") -> None:
    """Wait until a JavaScript expression, or a function of the driver, is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    script = f"return {condition}"
    is_so = condition if callable(condition) else lambda _: driver.execute_script(script)
    WebDriverWait(driver, 60).until(is_so, message)


def hypotheses(driver: Any) -> list[str]:
    return driver.execute_script(
        "return [...document.querySelectorAll('section:first-child .hypotheses button')]"
        ".map((e) => e.firstChild.textContent)"
    )


def shown(translator: Translator, prefix: Any = "", attention: Any = None) -> list[str]:
    rows = [attention or {}]
    [translation] = translator.translate([TEXT], n_best=4, prefixes=[prefix], attention=rows)
    return [h.text or "(nothing)" for h in translation.hypotheses]


def wait_for(driver: Any, expected: list[str], of: Callable[[Any], list[str]] = hypotheses) -> None:
    until(driver, lambda _: of(driver) == expected, f"{expected}")


def test_what_is_typed_is_translated_and_mapped(page: Any, translator: Translator) -> None:
    wait_for(page, shown(translator))
    assert len(texts(page, ".map svg.nmt-map")) == 1
    [translation] = translator.translate([TEXT], n_best=4)
    percents = [round(100 * value) for value in CALIBRATION.confidence(translation)]
    shown_percents = texts(page, ".hypotheses button small:last-child")
    assert shown_percents == [f"confidence {percent} %" for percent in percents]
    pieces = translation.hypotheses[0].target.pieces
    assert [piece.replace("▁", "_") for piece in pieces] == texts(page, ".pieces button")
    page.execute_script("document.querySelectorAll('.hypotheses button')[1].click()")
    assert len(texts(page, ".pieces button")) == len(translation.hypotheses[1].target.pieces)


def test_a_prefix_is_forced_by_text_and_by_a_piece(page: Any, translator: Translator) -> None:
    page.find_element("css selector", ".prefix").send_keys("Il est")
    wait_for(page, shown(translator, prefix="Il est"))
    page.execute_script("document.querySelectorAll('.pieces button')[2].click()")
    [translation] = translator.translate([TEXT], prefixes=["Il est"])
    ids = translation.hypotheses[0].hypothesis.ids[:2]
    wait_for(page, ["2 pieces given"], lambda _: texts(page, ".changes span"))
    wait_for(page, shown(translator, prefix=ids))
    page.find_element("css selector", ".changes button").click()
    wait_for(page, shown(translator))


def test_a_row_of_attention_is_changed(page: Any, translator: Translator) -> None:
    from selenium.webdriver.common.keys import Keys

    wait_for(page, shown(translator))
    page.execute_script(
        "const level = document.getElementById('level'); level.value = 'piece';"
        "level.dispatchEvent(new Event('change'))"
    )
    svg = page.find_element("css selector", ".map svg.nmt-map")
    svg.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
    page.switch_to.active_element.send_keys(Keys.ENTER)  # sliders: Enter does not decode
    assert page.find_element("css selector", ".row").is_displayed()
    page.find_element("css selector", ".only").click()
    page.find_element("css selector", ".decode").click()
    wait_for(
        page,
        ["1 piece given; attention changed at piece 2"],
        lambda _: texts(page, ".changes span"),
    )
    [translation] = translator.translate([TEXT], n_best=4)
    weights = [0.0, 1.0, *[0.0] * (len(translation.source.pieces) - 1)]
    ids = translation.hypotheses[0].hypothesis.ids[:1]
    wait_for(page, shown(translator, prefix=ids, attention={1: weights}))
    assert page.switch_to.active_element.text == "take it back"


def test_two_runs_stand_side_by_side(page: Any) -> None:
    page.execute_script(
        "const other = document.getElementById('model-1'); other.value = 'two';"
        "other.dispatchEvent(new Event('change'))"
    )
    until(page, "document.querySelectorAll('svg.nmt-map').length === 2")
    assert texts(page, "h2") == ["one: en to fr", "two: en to fr"]
    first, second = (texts(page, f"section:nth-child({i}) .hypotheses") for i in (1, 2))
    assert first == second


def test_a_narrow_page_does_not_scroll_sideways(page: Any) -> None:
    size = page.get_window_size()
    try:
        page.set_window_size(500, 800)  # the narrowest of Chromium
        width = page.execute_script("return [document.body.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
    finally:
        page.set_window_size(size["width"], size["height"])
