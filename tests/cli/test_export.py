"""`nmt export --format page`: the page of a run, and what goes with it."""

from pathlib import Path

from cli.helpers import nmt, refusal

PAGE = ("export", "runs/tiny", "--format", "page", "--out", "page.html")


def test_a_page_is_one_new_file_in_int8_or_fp16(home: Path) -> None:
    assert nmt(*PAGE).stdout == "page.html\n"
    small = Path("page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in small
    assert str(home) not in small
    assert "page.html" in refusal(*PAGE)
    assert Path("page.html").read_text(encoding="utf-8") == small
    assert nmt(*PAGE[:-1], "-").stdout == small
    nmt(*PAGE[:-1], "half.html", "--fp16")
    assert len(Path("half.html").read_text(encoding="utf-8")) > len(small)


def test_options_of_another_format_are_refused(home: Path) -> None:
    assert refusal(*PAGE, "--int8").startswith("--int8 requires --format onnx")
    assert refusal("export", "runs/tiny", "--out", "folder", "--fp16").startswith("--fp16 requires")
