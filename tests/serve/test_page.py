"""The page in a browser: type, see, force a prefix, change a row of attention, compare."""

import threading
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import browser
import pytest
import uvicorn
from evaluation.test_confidence import CALIBRATION
from explain.test_page import texts
from serve.conftest import Slow
from translation.small import turned

import nmt
from nmt.serve.app import make_app
from nmt.serve.run import listen, url_of
from nmt.translation.translator import Translator

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
TEXT = "The cats see"
PARAGRAPHS = "He is tired.  Where are the cats?\n\n \n* * *\nThe <b>cats</b> see"


@pytest.fixture(scope="module")
def slowly(translator: Translator) -> Slow:
    return Slow(translator)


@pytest.fixture(scope="module")
def chromium(
    translator: Translator, slowly: Slow, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, str]]:
    """A browser, and the address of a server of four models."""
    if missing := browser.missing():
        pytest.skip(missing)
    same = (("one", translator), ("two", translator))
    named = (*same, ("slow", slowly), ("rtl", turned(translator)))
    with listen("127.0.0.1", 0) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.serve.service.find_calibration", lambda *_: CALIBRATION)
        server = uvicorn.Server(uvicorn.Config(make_app(named), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        with browser.chromium(tmp_path_factory.mktemp("downloads")) as driver:
            yield driver, url_of(listener)
        slowly.go.set()
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(chromium: tuple[Any, str]) -> Iterator[Any]:
    """The page with a sentence typed; at the end the browser must have nothing to complain of."""
    driver, address = chromium
    driver.get(address)
    until(driver, "document.querySelector('.prefix')")
    driver.find_element("id", "text").send_keys(TEXT)
    until(driver, "document.querySelector('.hypotheses button')")
    yield driver
    assert [line["message"] for line in driver.get_log("browser")] == []
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def put(driver: Any, element: str, value: str, event: str = "") -> None:
    """Set the value of an element, without an event unless one is named."""
    driver.execute_script(
        "const [id, value, event] = arguments; const element = document.getElementById(id);"
        "element.value = value; if (event) element.dispatchEvent(new Event(event))",
        *(element, value, event),
    )


def until(driver: Any, condition: str | Callable[[Any], bool], message: str = "") -> None:
    """Wait until a JavaScript expression, or a function of the driver, is true."""
    script = f"return {condition}"
    is_so = condition if callable(condition) else lambda _: driver.execute_script(script)
    WebDriverWait(driver, 60).until(is_so, message)


def wait_for(driver: Any, selector: str, expected: list[str]) -> None:
    until(driver, lambda _: texts(driver, selector) == expected, f"{selector}: {expected}")


def wait_for_hypotheses(driver: Any, translator: Translator, text: str = TEXT, **how: Any) -> None:
    """Wait until the first model shows what the translator gives."""
    [translation] = translator.translate([text], n_best=4, **how)
    expected = [h.text or "(nothing)" for h in translation.hypotheses]
    script = (
        "return [...document.querySelectorAll('section:first-child .hypotheses button')]"
        ".map((e) => e.firstChild.textContent)"
    )
    until(driver, lambda _: driver.execute_script(script) == expected, f"{expected}")


def test_what_is_typed_is_translated_and_mapped(page, translator) -> None:
    wait_for_hypotheses(page, translator)
    assert len(texts(page, ".map svg.nmt-map")) == 1
    [translation] = translator.translate([TEXT], n_best=4)
    percents = [round(100 * value) for value in CALIBRATION.confidence(translation)]
    shown = texts(page, ".hypotheses button small:last-child")
    assert shown == [f"confidence {percent} %" for percent in percents]
    first, second = (output.target.pieces for output in translation.hypotheses[:2])
    assert texts(page, ".pieces button") == [piece.replace("▁", "_") for piece in first]
    page.find_elements("css selector", ".hypotheses button")[1].send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("aria-pressed") == "true"
    assert len(texts(page, ".pieces button")) == len(second)


def test_a_prefix_is_forced_by_text_and_by_a_piece(page, translator) -> None:
    page.find_element("css selector", ".prefix").send_keys("Il est")
    wait_for_hypotheses(page, translator, prefixes=["Il est"])
    page.execute_script("document.querySelectorAll('.pieces button')[2].click()")
    [translation] = translator.translate([TEXT], prefixes=["Il est"])
    wait_for(page, ".changes span", ["2 pieces given"])
    ids = translation.hypotheses[0].hypothesis.ids[:2]
    wait_for_hypotheses(page, translator, prefixes=[ids])
    page.switch_to.active_element.click()
    wait_for_hypotheses(page, translator)
    page.switch_to.active_element.send_keys("日本")
    wait_for(page, ".hypotheses button", [])
    assert "日本" in texts(page, ".message.wrong")[0]
    assert len(page.get_log("browser")) == 1  # the answer 400


def test_a_row_of_attention_is_changed(page, translator) -> None:
    wait_for_hypotheses(page, translator)
    page.find_element("css selector", ".level").send_keys("pieces")
    svg = page.find_element("css selector", ".map svg.nmt-map")
    svg.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
    page.switch_to.active_element.send_keys(Keys.ENTER)  # sliders: Enter does not decode
    assert page.find_element("css selector", ".row").is_displayed()
    page.find_element("css selector", ".only").click()
    page.find_element("css selector", ".decode").click()
    wait_for(page, ".changes span", ["1 piece given; attention changed at piece 2"])
    [translation] = translator.translate([TEXT], n_best=4)
    weights = [0.0, 1.0, *[0.0] * (len(translation.source.pieces) - 1)]
    ids = translation.hypotheses[0].hypothesis.ids[:1]
    wait_for_hypotheses(page, translator, prefixes=[ids], attention=[{1: weights}])
    assert page.switch_to.active_element.text == "Undo"


def test_two_runs_stand_side_by_side(page) -> None:
    assert texts(page, "h2") == ["English", "French"]
    assert texts(page, "#model-0 option")[0] == "one: English to French"
    languages = "return [...document.querySelectorAll('textarea, .translation')].map((e) => e.lang)"
    assert page.execute_script(languages) == ["en", "fr"]
    put(page, "model-1", "two", "change")
    until(page, "document.querySelectorAll('svg.nmt-map').length === 2")
    assert texts(page, "h2") == ["English", "French, one", "French, two"]
    first, second = (texts(page, f"section:nth-child({i}) .hypotheses") for i in (1, 2))
    assert first == second
    put(page, "text", PARAGRAPHS, "input")
    until(page, "document.querySelectorAll('.translation a').length === 6")
    page.find_element("css selector", "section:last-child .translation a:last-child").click()
    headings = "[...document.querySelectorAll('h3:first-child')]"
    until(page, f"{headings}.every((each) => each.textContent.startsWith('Sentence 3'))")


def test_paragraphs_are_translated_sentence_by_sentence(page, translator) -> None:
    put(page, "text", PARAGRAPHS, "input")
    wait_for(page, ".translation", [nmt.translate_text(translator, PARAGRAPHS)])
    assert len(texts(page, ".translation a")) == 3
    wait_for(page, ".source", ["He is tired."])
    page.find_element("id", "text").send_keys(Keys.TAB, Keys.TAB)  # the button, a sentence
    page.switch_to.active_element.send_keys(Keys.TAB)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(page, ".source", ["Where are the cats?"])
    wait_for_hypotheses(page, translator, "Where are the cats?")
    assert len(texts(page, ".translation a[aria-current=true]")) == 1


def test_the_button_keys_and_a_new_key_translate(page, translator) -> None:
    keys = Keys.CONTROL, Keys.ENTER
    for text, act in {
        "He is": lambda: page.find_element("id", "translate").click(),
        "The cats": lambda: page.find_element("id", "text").send_keys(*keys),
        "Where": lambda: put(page, "key", "of no use here", "change"),
    }.items():
        put(page, "text", text)
        act()
        wait_for(page, ".translation", [nmt.translate_text(translator, text)])


def test_a_text_without_a_translation_shows_none_of_another(page) -> None:
    for text in ("", " \n", "* * *", "x" * 6000):
        put(page, "text", TEXT, "input")
        until(page, "document.querySelector('.hypotheses button')")
        put(page, "text", text, "input")
        is_long = len(text) > 5000
        wait_for(page, ".translation", ["" if is_long else text.strip()])
        assert ("5,000" in texts(page, ".message")[0]) is is_long
        assert not page.find_element("css selector", ".detail").is_displayed()
    assert len(page.get_log("browser")) == 1  # the answer 400


def test_the_page_says_that_it_waits_and_what_is_not_steered(page, slowly) -> None:
    put(page, "model-0", "slow", "change")
    assert slowly.started.wait(60)
    busy = "return document.querySelector('section').ariaBusy"
    assert page.execute_script(busy) == "true"
    assert texts(page, "[role=status].message") != [""]
    slowly.go.set()
    until(page, "document.querySelector('.hypotheses button')")
    assert page.execute_script(busy) == "false"
    put(page, "model-0", "rtl", "change")  # it cannot be steered
    until(page, "document.querySelector('svg.nmt-map')")
    assert not any(e.is_displayed() for e in page.find_elements("css selector", ".steering"))
    page.find_element("css selector", ".map svg.nmt-map").click()
    assert not page.find_element("css selector", ".row").is_displayed()


@pytest.mark.parametrize(("width", "scheme", "other"), [(1400, "light", "two"), (400, "dark", "")])
def test_axe_finds_nothing(page, width, scheme, other) -> None:
    axe = files(pytest.importorskip("axe_core_python")) / "axe.min.js"
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    put(page, "model-1", other, "change")
    put(page, "text", PARAGRAPHS, "input")
    until(page, "document.querySelectorAll('section:last-child .translation a').length === 3")
    until(page, "[...document.querySelectorAll('section')].every((e) => e.ariaBusy === 'false')")
    page.find_element("css selector", ".map svg.nmt-map").click()
    sizes = page.execute_script("return [document.body.scrollWidth, innerWidth]")
    assert sizes[0] <= sizes[1]
    page.execute_script(axe.read_text(encoding="utf-8"))
    results = page.execute_async_script("axe.run().then(arguments[0])")
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in results["violations"]] == []
    assert len(results["passes"]) > 20
