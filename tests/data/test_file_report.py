"""file_report.py: each odd line of a file, by its number."""

import unicodedata
from pathlib import Path

from nmt.data.file_report import Lines, file_lines, file_report


def test_every_odd_line_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.fr"
    nfd = unicodedata.normalize("NFD", "été")
    lines = ["un\r", "", nfd, "deux mots", f"{nfd}\r", "  "]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\n" for line in lines).encode())
    report = file_report(path)
    assert (report.lines, report.has_byte_order_mark) == (6, True)
    assert (report.longest, report.longest_chars) == (4, 9)
    assert list(file_lines(report)) == [
        f"{path}: begins with a byte order mark, which is left out when it is read",
        f"{path}: 2 of 6 lines have an empty side: 2, 6",
        f"{path}: 2 of 6 lines are not in Unicode's NFC (models read them in NFC): 3, 5",
        f"{path}: 2 of 6 lines end in CRLF, and the others do not: the CR stays in them: 1, 5",
        f"{path}: longest line: 4 (9 characters)",
    ]


def test_of_many_lines_the_first_are_named_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a\r\n" + "\r\n" * 1000, newline="")
    report = file_report(path)
    assert report.empty == Lines(1000, (2, 3, 4, 5, 6))
    assert list(file_lines(report))[:2] == [
        f"{path}: every line ends in CRLF, which is read as a line's end",
        f"{path}: 1,000 of 1,001 lines have an empty side: 2, 3, 4, 5, 6, ...",
    ]


def test_a_side_of_a_tsv_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n\tb\na\t \na\tb\t\n")
    assert file_report(path, is_tsv=True).empty == Lines(2, (2, 3))


def test_an_empty_file_has_no_odd_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    report = file_report(tmp_path / "a")
    assert (report.lines, report.longest_chars, report.empty) == (0, 0, Lines())
