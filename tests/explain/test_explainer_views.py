"""The views of the page with a model: steps, branches and cards as a reader uses them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from explain.explainer_page import lines, open_page

MISSING = browser.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("downloads")) as chrome:
        yield chrome


def test_a_forced_piece_and_a_branch_begin_the_translation(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "multi-head-mean")
    text = lines("en", 1)[0]
    opened.driver.execute_script(
        "document.querySelectorAll('#pieces button')[2].click();"
        "document.querySelectorAll('#candidates button')[3].click();"
    )
    prefix = opened.run("return page.translation.prefix")
    assert len(prefix) == 3
    [ours] = opened.translator.translate([text], prefixes=[prefix])
    assert tuple(opened.run("return page.best.ids")) == ours.hypotheses[0].hypothesis.ids
    opened.run("document.getElementById('tree-view').open = true; page.showTree();")
    branch = opened.run(
        "const nodes = [...document.querySelectorAll('.node.extended')]; nodes.at(-1).click();"
        "return page.translation.prefix"
    )
    assert opened.run("return page.best.ids")[: len(branch)] == branch
    opened.driver.find_element("id", "free").click()
    [ours] = opened.translator.translate([text])
    assert tuple(opened.run("return page.best.ids")) == ours.hypotheses[0].hypothesis.ids


MIDDLE = """
const part = document.getElementById(arguments[0]);
part.scrollIntoView();
const word = nmtAttention.shown(page.best.side.words[1]);
const label = [...part.querySelectorAll("text")].findLast((each) => each.textContent === word);
const {x, y, width, height} = label.getBoundingClientRect();
return {x: x + width / 2, y: y + height / 2};
"""


def test_a_tap_enter_and_a_forced_piece_lead_to_a_result(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    opened = open_page(driver, tmp_path, "bahdanau")
    second_word = opened.run("return page.best.side.ends[0]")
    for part in ("heat", "lines"):
        opened.run("page.openStep(0)")
        for kind, points in (("touchStart", [opened.run(MIDDLE, part)]), ("touchEnd", [])):
            touch = {"type": kind, "touchPoints": points}
            driver.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
        WebDriverWait(driver, 10).until(lambda _: opened.run("return page.place") == second_word)
        opened.run("page.openStep(0)")
        keys = (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER)
        driver.find_element("css selector", f"#{part} svg").send_keys(*keys)
        assert opened.run("return page.place") == second_word
        assert opened.run("return document.activeElement.parentElement.id") == "step-view"
        assert opened.run("return document.getElementById('step-view').open")
    driver.find_elements("css selector", "#candidates button")[3].click()
    assert len(opened.run("return page.translation.prefix")) == second_word + 1
    assert opened.run("return document.activeElement.id") == "free"


def test_a_moved_score_moves_all_that_follows(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "bahdanau")
    opened.run(
        "const score = document.getElementById('score'); score.value = score.max;"
        "score.dispatchEvent(new Event('input'));"
    )
    shown = opened.run(
        "const cells = [...document.querySelectorAll('#scores td:last-child .number')];"
        "return cells.map((cell) => +cell.textContent)"
    )
    place = int(opened.run("return document.getElementById('place').value"))
    assert max(shown) == shown[place]
    assert sum(shown) == pytest.approx(1, abs=0.01)
    assert shown[place] > opened.run("return page.stepView.unchanged.heads[0][arguments[0]]", place)
    opened.driver.find_element("id", "reset").click()
    assert opened.run("return document.getElementById('reset').disabled")


def test_every_card_points_at_a_part_in_both_languages(driver: Any, tmp_path: Path) -> None:
    opened = open_page(driver, tmp_path, "multi-head-additive-luong")
    for language in ("fr", "en"):
        opened.run(
            "const list = document.getElementById('language'); list.value = arguments[0];"
            "list.dispatchEvent(new Event('change'));",
            language,
        )
        labels = opened.run(
            "return [...document.querySelectorAll('[data-say]')].map((e) => e.textContent)"
        )
        assert all(labels)
        assert "undefined" not in opened.run("return document.body.innerText")
        marked = opened.run(
            "return [...document.querySelectorAll('.card button')].map((button) => {"
            " button.click(); return document.querySelectorAll('.pointed').length })"
        )
        assert marked == [1] * 12
