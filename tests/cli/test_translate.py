"""`nmt translate` over an untrained run: what goes where and in which form, and its processes."""

import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, started, write_lines
from click.testing import Result

from nmt.explain.terminal import render_terminal
from nmt.runs.directory import RunDirectory
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import record_words
from nmt.translation.translator import Translator
from nmt.types import Translation

pytestmark = pytest.mark.usefixtures("home")

SENTENCES = [
    "The cat is here.",
    "",
    "he sleeps!",
    "The man is a cat",
    " \t",
    "a shrimp\u2028sleeps",
]
CAT = "the cat is here"
SEARCH = SearchConfig(beam=3, max_length=9)


@pytest.fixture(scope="module")
def expected(untrained: Path) -> list[Translation]:
    """Return the library's translations of SENTENCES."""
    translator = Translator.load(untrained / "runs" / "tiny", device="cpu", search=SEARCH)
    return translator.translate(SENTENCES, n_best=3)


def translate(*arguments: object, stdin: bytes = b"") -> Result:
    return nmt("translate", *arguments, stdin=stdin)


def lines_of(result: Result) -> list[str]:
    """stdout by lines that end at `\\n` only, each ended."""
    *lines, rest = result.stdout.split("\n")
    assert rest == ""
    return lines


def answer(translation: Translation) -> str:
    """The output for a line of one sentence; white space alone stays as it is."""
    return translation.text if translation.src_text.strip() else translation.src_text


def test_each_line_of_input_gives_a_line(expected: list[Translation]) -> None:
    unsplit = [translation.text for translation in expected]
    assert len(set(unsplit)) > 1
    assert lines_of(translate(*SENTENCES, "--lines")) == unsplit
    texts = [answer(translation) for translation in expected]
    result = translate(*SENTENCES)
    assert lines_of(result) == texts
    assert result.stderr.startswith("run: runs/tiny\n")
    content = "\n".join(SENTENCES).encode()
    Path("x.en").write_bytes(b"\xef\xbb\xbf" + content + b"\n")
    Path("x.en.GZ").write_bytes(gzip.compress(content))
    assert lines_of(translate("--file", "-", "--out", "-", stdin=content + b"\n")) == texts
    assert not Path("-").exists()
    assert lines_of(translate("--file", "x.en.GZ", "--batch-size", "1")) == texts
    Path("crlf.en").write_bytes((content + b"\n").replace(b"\n", b"\r\n"))
    crlf = "".join(f"{text}\r\n" for text in texts)
    assert translate("--file", "crlf.en").stdout_bytes == crlf.encode()
    assert lines_of(translate("--file", "crlf.en", "--lines")) == unsplit
    for text in (b"", b"\n\n"):
        assert translate(stdin=text).stdout_bytes == text
    assert translate("--file", "x.en", "--out", "x.fr").stdout == "x.fr\n"
    assert Path("x.fr").read_text(encoding="utf-8").split("\n")[:-1] == texts


def test_sentences_of_a_line_are_translated_one_by_one() -> None:
    one, two, three = lines_of(translate("The cat is here.", "he sleeps!", "The man"))
    text = "\tThe cat is here.  he sleeps!\n\nThe man"
    assert lines_of(translate(text)) == [f"\t{one}  {two}", "", three]
    markdown = translate("--format", "markdown", "--", "# The man", "- he sleeps!").stdout
    assert markdown == f"# {three}\n- {two}\n"
    page = "<p>The cat is here.\r\n he sleeps!</p>\r\n<pre>x</pre><b>The man</b>"
    expected = f"<p>{one}\r\n {two}</p>\r\n<pre>x</pre><b>{three}</b>"
    assert translate("--format", "html", stdin=page.encode()).stdout_bytes == expected.encode()
    Path("page.HTML").write_bytes(b"\xef\xbb\xbf" + page.encode())
    translate("--file", "page.HTML", "--out", "seite.html")
    assert Path("seite.html").read_bytes() == expected.encode()
    for option in ("--lines", "--format=text"):
        assert len(lines_of(translate("--file", "page.HTML", option, "--json"))) == 3
    result = translate("--batch-size", "1", "--set", "search.max_length=1", stdin=text.encode())
    assert "3 of 3 sentences: the translation was cut at the length bound" in result.stderr
    for option in (["--lines"], ["--json"], ["--n-best", "1", "--prefix", "le"], ["--must", "le"]):
        result = translate("he sleeps! he", *option, "--set", "search.max_length=2")
        assert len(lines_of(result)) == 1
        assert "1 line: " in result.stderr


def test_n_best_lines_json_and_maps_are_those_of_the_library(expected: list[Translation]) -> None:
    rows = [line.split("\t") for line in lines_of(translate(*SENTENCES, "--n-best", "3"))]
    assert rows == [
        [str(number), f"{output.hypothesis.score:.4f}" if output else "", output and output.text]
        for number, translation in enumerate(expected, start=1)
        for output in translation.hypotheses or ("",)
    ]
    result = translate(SENTENCES[0], "", "--show-attention")
    assert result.stdout == f"{expected[0].text}\n{render_terminal(expected[0])}\n\n\n"
    lines = lines_of(translate(*SENTENCES, "--json", "--n-best", "2"))
    for record, translation in zip(map(json.loads, lines), expected, strict=True):
        assert (record["src"], record["translation"]) == (translation.src_text, translation.text)
        hypotheses = translation.hypotheses[:2]
        for fields, target in zip(record["hypotheses"], hypotheses, strict=True):
            assert fields["text"] == target.text
            assert fields["score"] == pytest.approx(target.hypothesis.score)
            assert fields["finished"] == target.hypothesis.finished
            assert fields["log_probs"] == pytest.approx(target.hypothesis.log_probs)
            end = ["</s>"] * target.hypothesis.finished
            assert fields["pieces"] == [*target.target.pieces, *end]


def test_words_and_prefixes_and_their_typography() -> None:
    beam = ("--beam", "12", "--n-best", "12")
    word = min(re.findall(r"[a-z]{2,}", translate(CAT, *beam).stdout))
    assert word not in re.findall(r"\w+", translate(CAT, *beam, "--must-not", word).stdout)
    [text] = lines_of(translate(CAT, "--must", "chat", "--must", "dort"))
    assert {"chat", "dort"} <= set(re.findall(r"\w+", text))
    assert translate(CAT, "--prefix", "c'est ici !").stdout.startswith("c’est ici\u202f!")


def test_a_glossary_and_its_report() -> None:
    Path("terms.tsv").write_text("Cat|sleeps\tchat|dort\nhe\test\n", encoding="utf-8")
    result = translate(*SENTENCES, "--glossary", "terms.tsv", "--beam", "8")
    words = [set(re.findall(r"\w+", line.lower())) for line in lines_of(result)]
    assert all(words[i] & {"chat", "dort"} for i in (0, 2, 3, 5))
    assert "est" in words[2]
    assert "terms met: 5 of 5\n" in result.stderr
    forbidden = ("--must-not", "chat", "--must-not", "dort")
    result = translate("", "a CAT", "he", "--glossary", "terms.tsv", *forbidden)
    assert "terms met: 1 of 2; missed: CAT (line 2)\n" in result.stderr
    text = "A man. A man.\n\nThe cat. A man. A CAT."
    result = translate(text, "he", "--glossary", "terms.tsv", *forbidden)
    assert "terms met: 1 of 3; missed: cat (line 3), CAT (line 3)\n" in result.stderr
    html = translate(text, "--format", "html", "--glossary", "terms.tsv", *forbidden)
    assert "missed: cat (sentence 3), CAT (sentence 5)\n" in html.stderr


def test_words_never_seen_are_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "never seen" not in translate("rat").stderr  # the run has no record of words
    record_words(Path("runs/tiny/tokenizer"), ["the cat is"])
    assert "never seen" not in translate("THE cat is 12!", "", " %s").stderr
    text = "The Rat is <b>here</b>.\n Rat\n\u65e5\u672c (camel)"
    result = translate("--format", "html", stdin=text.encode())
    assert result.stderr.count("never seen in training: 3 (Rat, here, camel)\n") == 1
    note = translate("--lines", "caf\u00e9", "cafe\u0301").stderr
    assert note.count("never seen in training: 1 (caf\u00e9)\n") == 1
    corrects = ("--set", "search.correct_spelling=true")
    result = translate("the sleeping cta", "the CTA", *corrects)
    assert result.stdout == translate("the sleeping cat", "the CTA").stdout
    assert "never seen in training: 2 (cta (read as cat), sleeping)\n" in result.stderr
    assert json.loads(translate("cta", "--json", *corrects).stdout)["src"] == "cta"
    Path("terms.tsv").write_text("Cta\tchat\n", encoding="utf-8")
    assert "read as" not in translate("the CTA", "--glossary", "terms.tsv", *corrects).stderr
    monkeypatch.setattr("nmt.cli.commands.translate_output._CHECKED", 2)
    assert "never seen" not in translate("the", "cat", "rat").stderr
    assert "of the first 2 sentences: 1 (" + "a" * 40 in translate("a" * 9999, "the", "is").stderr


def test_a_reranker_has_a_checkpoint_of_its_own(untrained: Path) -> None:
    """`--checkpoint` is that of --run; RUN@CHECKPOINT names another one of a reranker."""
    shutil.copytree(untrained / "runs" / "back", "runs/back")
    scores = ("--run", "runs/tiny", CAT, "he", "--json", "--checkpoint", "last", "--rerank")
    best, last = (translate(*scores, f"runs/back{at}").stdout for at in ("", "@last"))
    assert best == last  # of one seed
    folder = RunDirectory(Path("runs/back")).checkpoint_folder
    weights = folder.load_weights("best")[1]
    folder.save(6, {name: 2 * tensor for name, tensor in weights.items()}, {}, {})
    folder.update_labels({"last": 6})
    again, other = (translate(*scores, f"runs/back{at}").stdout for at in ("", "@last"))
    assert again == best
    assert other != best
    assert "no checkpoint 'none'" in refusal("translate", *scores, "runs/back@none")
    error = refusal("translate", *scores, untrained / "runs" / "german")
    assert "it translates en-de; allowed to rerank" in error


def test_what_is_odd_is_noted() -> None:
    write_lines(Path("x.en"), ["This is a cat!", "the cat " * 50, ""])
    Path("old").mkdir()
    Path("old/config.yaml").touch()
    for arguments, note in (
        (["Vous avez une maison."], "looks like fr"),
        (["x.en"], "note: 'x.en' is translated as a sentence; --file x.en translates the file"),
        (["old"], "note: 'old' is translated as a sentence; --run old translates with the run"),
        # data.max_pieces is 100.
        (["he", "the cat " * 50, "the cat " * 51, "--lines"], "1 of 3 lines, the first is line 3;"),
    ):
        assert note in translate(*arguments, "--set", "search.max_length=1").stderr
    usual = translate("--file", "x.en", "--beam", "100", "--set", "search.max_length=1").stderr
    assert not [words for words in ("note:", "looks like", "longer than") if words in usual]


def test_what_comes_before_a_bad_line_is_answered(expected: list[Translation]) -> None:
    """With 64 sentences a batch all of these are read before the first is answered."""
    bad = "".join(f"{sentence}\n" for sentence in SENTENCES).encode() + b"\xff\nafter\n"
    Path("a.en").write_bytes(bad)
    result = nmt("translate", "--file", "a.en", code=2)
    assert f"error: a.en:{len(SENTENCES) + 1}: byte 0xff is not UTF-8" in result.stderr
    assert lines_of(result) == [answer(translation) for translation in expected]
    assert f"stdin:{len(SENTENCES) + 1}: byte 0xff" in refusal("translate", stdin=bad)
    refusal("translate", "--file", "a.en", "--out", "a.fr")
    assert not list(Path().glob("*a.fr*"))
    Path("film.srt").write_bytes(b"1\n\xff")
    assert refusal("translate", "--file", "film.srt").startswith("film.srt:2: byte 0xff")


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    write_lines(Path("a.en"), ["The cat sleeps."] * 9999)
    quick = ("--batch-size", "1", "--beam", "1", "--set", "search.max_length=3")
    process = started("translate", "--run", "runs/tiny", *quick, "--file", "a.en")
    assert process.stdout is not None
    assert process.stdout.readline().endswith("\n")
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    assert process.communicate()[1] == ""


_PROGRAM = """
import sys
from nmt.cli.app import app
assert 'torch' not in sys.modules
app(['translate'], standalone_mode=False)
heavy = {'sacrebleu', 'matplotlib', 'nmt.explain.terminal', 'torch._dynamo', 'sympy'}
print(sorted(heavy & set(sys.modules)))
"""


def test_on_a_terminal_it_asks_until_an_empty_line(expected: list[Translation]) -> None:
    """And imports nothing that it does not need."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], env=environment, **streams)
    os.close(theirs)

    def read_until(mark: bytes) -> str:
        shown = b""
        while mark not in shown:
            ready, _, _ = select.select([ours], [], [], 120)
            assert ready, f"nothing more after {shown!r}"
            shown += os.read(ours, 4096)
        return shown.decode()

    texts = []
    for typed in (SENTENCES[0], SENTENCES[2], ""):
        texts.append(read_until(b"en> "))
        os.write(ours, typed.encode() + b"\n")
    assert "[]" in read_until(b"]")
    assert process.wait(timeout=60) == 0
    os.close(ours)
    assert "an empty line ends" in texts[0]
    for text, translation in zip(texts[1:], (expected[0], expected[2]), strict=True):
        assert f"{translation.text}\r\n" in text
