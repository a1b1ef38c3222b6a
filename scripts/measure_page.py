"""Measure `nmt attention --format html` in headless Chromium: bytes, opening, switching sentences.

    nmt attention --run RUN --split train --first 1000 --out maps.html
    python scripts/measure_page.py maps.html

Prints a line of JSON per page, seconds as medians. Opening is from the request to the frame that
shows the first map; switching is from a key to the frame that shows the next one. Needs selenium
and Debian's chromium and chromium-driver.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import browser

_FRAME = "requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)))"
_OPENED = """
const done = arguments[0];
const paint = performance.getEntriesByType("paint").find((e) => e.name == "first-contentful-paint");
const load = performance.getEntriesByType("navigation")[0].loadEventEnd;
done([load, paint ? paint.startTime : load]);
"""
_SWITCH = f"""
const done = arguments[0], started = performance.now();
document.body.dispatchEvent(new KeyboardEvent("keydown", {{ key: "j", bubbles: true }}));
{_FRAME};
"""
_SEARCH = f"""
const [text, done] = arguments, search = document.getElementById("search");
search.value = text;
const started = performance.now();
search.dispatchEvent(new Event("input"));
{_FRAME};
"""


def measured(driver: Any, page: Path, repeats: int) -> dict[str, object]:
    """Bytes, seconds and megabytes of one page."""
    opened = []
    for _ in range(repeats):
        driver.get(page.resolve().as_uri())
        opened.append(max(driver.execute_async_script(_OPENED)))
    switches = [driver.execute_async_script(_SWITCH) for _ in range(10 * repeats)]
    searches = [driver.execute_async_script(_SEARCH, text) for text in ("a", "ab", "a e", "")]
    sentences = driver.execute_script("return document.querySelectorAll('#list li').length")
    heap = driver.execute_script("return performance.memory?.usedJSHeapSize ?? 0")
    return {
        "page": page.name,
        "bytes": page.stat().st_size,
        "sentences": sentences,
        "open_s": round(statistics.median(opened) / 1000, 3),
        "switch_s": round(statistics.median(switches) / 1000, 4),
        "switch_slowest_s": round(max(switches) / 1000, 4),
        "search_slowest_s": round(max(searches) / 1000, 4),
        "heap_mb": round(heap / 1e6, 1),
    }


def main() -> None:
    """Measure the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if missing := browser.missing():
        sys.exit(missing)
    with tempfile.TemporaryDirectory() as folder, browser.chromium(Path(folder)) as driver:
        for page in arguments.pages:
            print(json.dumps(measured(driver, page, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
