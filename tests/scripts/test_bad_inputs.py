"""The page's table of bad inputs is what the commands answer."""

import bad_inputs


def test_the_page_says_what_nmt_says() -> None:
    page = bad_inputs.PAGE.read_text(encoding="utf-8")
    there = page.partition(bad_inputs.BEGIN)[2].partition(bad_inputs.END)[0]
    assert there.strip().split("\n") == bad_inputs.table().strip().split("\n")
