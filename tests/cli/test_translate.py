"""`nmt translate` over an untrained run: what goes where and in which form, and its processes."""

import gzip
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, write_lines
from click.testing import Result

from nmt.explain.terminal import render_terminal
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import record_words
from nmt.translation.translator import Translator
from nmt.types import Translation

pytestmark = pytest.mark.usefixtures("home")

SENTENCES = ["The cat is here.", "", "he sleeps!", "The man, the cat", " \t", "a zebra\u2028sleeps"]
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


def test_each_line_of_input_gives_a_line(expected: list[Translation]) -> None:
    unsplit = [translation.text for translation in expected]
    assert len(set(unsplit)) > 1
    assert lines_of(translate(*SENTENCES, "--lines")) == unsplit
    texts = [answer(translation) for translation in expected]
    result = translate(*SENTENCES)
    assert lines_of(result) == texts
    assert result.stderr.startswith("run: runs/tiny\n")
    assert "run:" not in translate("a", "--run", "runs/tiny", "--checkpoint", "last").stderr
    content = "\n".join(SENTENCES).encode()
    Path("x.en").write_bytes(b"\xef\xbb\xbf" + content + b"\n")
    Path("x.en.GZ").write_bytes(gzip.compress(content))
    assert lines_of(translate(stdin=content)) == texts
    assert lines_of(translate("--file", "-", "--out", "-", stdin=content + b"\n")) == texts
    assert not Path("-").exists()
    for path in ("x.en", "x.en.GZ"):
        assert lines_of(translate("--file", path, "--batch-size", "1")) == texts
    assert translate(stdin=b"").stdout == ""
    assert translate(stdin=b"\n\n").stdout == "\n\n"
    result = translate("--file", "x.en", "--out", "x.fr")
    assert result.stdout == "x.fr\n"
    assert Path("x.fr").read_text(encoding="utf-8").split("\n")[:-1] == texts
    assert translate(f"{CAT}\n\nhe").stdout == translate(CAT, "", "he").stdout


def answer(translation: Translation) -> str:
    """The output for a line of one sentence; white space alone stays as it is."""
    return translation.text if translation.src_text.strip() else translation.src_text


def test_sentences_of_a_line_are_translated_one_by_one() -> None:
    one, two, three = lines_of(translate("The cat is here.", "he sleeps!", "The man"))
    text = "\tThe cat is here.  he sleeps!\n\nThe man"
    assert lines_of(translate(text)) == [f"\t{one}  {two}", "", three]
    result = translate("--batch-size", "1", "--set", "search.max_length=1", stdin=text.encode())
    assert "3 of 3 sentences: the translation was cut at the length bound" in result.stderr
    for option in (["--lines"], ["--json"], ["--n-best", "1", "--prefix", "le"], ["--must", "le"]):
        assert len(lines_of(translate("The cat is here. he sleeps!", *option))) == 1
        assert (
            "1 line: " in translate("he sleeps! he", *option, "--set", "search.max_length=2").stderr
        )
    long = "the man sleeps; the cat is here, " * 40
    assert "longer than" not in translate(long).stderr


def test_a_document_is_written_as_it_was() -> None:
    one, two, three = lines_of(translate("The cat is here.", "he sleeps!", "The man"))
    page = "<p>The cat is here.\r\n he sleeps!</p>\r\n<pre>x</pre><b>The man</b>"
    expected = f"<p>{one}\r\n {two}</p>\r\n<pre>x</pre><b>{three}</b>"
    Path("page.HTML").write_bytes(b"\xef\xbb\xbf" + page.encode())
    assert translate("--file", "page.HTML").stdout_bytes == expected.encode()
    assert translate("--file", "page.HTML", "--out", "seite.html").stdout == "seite.html\n"
    assert Path("seite.html").read_bytes() == expected.encode()
    assert translate("--format", "html", stdin=page.encode()).stdout_bytes == expected.encode()
    assert translate("--format", "markdown", "--", "# The man", "- he sleeps!").stdout == (
        f"# {three}\n- {two}\n"
    )
    assert translate("--file", "page.HTML", "--format", "text").stdout != expected
    assert len(lines_of(translate("--file", "page.HTML", "--json"))) == 3
    Path("film.srt").write_bytes(b"1\n")
    assert refusal("translate", "--file", "film.srt").startswith("film.srt: no subtitles (SRT)")
    Path("film.srt").write_bytes(b"1\n\xff")
    assert refusal("translate", "--file", "film.srt").startswith("film.srt:2: byte 0xff")


def test_lines_of_several_translations_and_scores(expected: list[Translation]) -> None:
    rows = [line.split("\t") for line in lines_of(translate(*SENTENCES, "--n-best", "3"))]
    wanted = []
    for number, translation in enumerate(expected, start=1):  # as in nmt attention
        for hypothesis in translation.hypotheses:
            score = f"{hypothesis.hypothesis.score:.4f}"
            wanted.append([str(number), score, hypothesis.text])
        if not translation.hypotheses:
            wanted.append([str(number), "", ""])
    assert rows == wanted


def test_json_lines(expected: list[Translation]) -> None:
    lines = lines_of(translate(*SENTENCES, "--json", "--n-best", "2"))
    for record, translation in zip(map(json.loads, lines), expected, strict=True):
        assert (record["src"], record["translation"]) == (translation.src_text, translation.text)
        assert len(record["hypotheses"]) == len(translation.hypotheses[:2])
        for fields, target in zip(record["hypotheses"], translation.hypotheses, strict=False):
            assert fields["text"] == target.text
            assert fields["score"] == pytest.approx(target.hypothesis.score)
            assert fields["finished"] == target.hypothesis.finished
            assert fields["log_probs"] == pytest.approx(target.hypothesis.log_probs)
            end = ["</s>"] * target.hypothesis.finished
            assert fields["pieces"] == [*target.target.pieces, *end]


def test_the_map_is_drawn(expected: list[Translation]) -> None:
    result = translate(SENTENCES[0], "", "--show-attention")
    assert result.stdout == f"{expected[0].text}\n{render_terminal(expected[0])}\n\n\n"
    assert "below; from:" in result.stderr


def test_words_and_prefixes_and_their_typography() -> None:
    beam = ("--beam", "12", "--n-best", "12")
    words = set(re.findall(r"[a-z]{2,}", translate(CAT, *beam).stdout))
    assert words
    for word in sorted(words)[:2]:
        texts = translate(CAT, *beam, "--must-not", word).stdout
        assert word not in re.findall(r"\w+", texts)
    [having] = lines_of(translate(CAT, "--must", "chat", "--must", "dort"))
    assert {"chat", "dort"} <= set(re.findall(r"\w+", having))
    prefix = ("--prefix", "c'est ici !")
    [restored] = lines_of(translate(CAT, *prefix))
    assert restored.startswith("c’est ici\u202f!")
    for flag in ("--must", "--prefix"):
        assert "zèbre" in refusal("translate", "a", flag, "zèbre")


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
    assert "terms met" not in translate("the cat").stderr
    assert refusal("translate", "a", "--glossary", "x.tsv").startswith("x.tsv: ")
    text = "A man. A man.\n\nThe cat. A man. A CAT."
    result = translate(text, "he", "--glossary", "terms.tsv", *forbidden)
    assert "terms met: 1 of 3; missed: cat (line 3), CAT (line 3)\n" in result.stderr
    html = translate(text, "--format", "html", "--glossary", "terms.tsv", *forbidden)
    assert "missed: cat (sentence 3), CAT (sentence 5)\n" in html.stderr


def test_words_that_the_model_has_never_seen_are_noted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "never seen" not in translate("zork").stderr  # the run has no record of words
    folder = Path("runs/tiny/tokenizer")
    record_words(folder, ["the cat is"])
    assert "never seen" not in translate("THE cat is 12!", "", " %s").stderr
    text = "The Zork is <b>here</b>.\n Zork\n\u65e5\u672c caf\u00e9 cafe\u0301"
    result = translate("--format", "html", stdin=text.encode())
    assert result.stderr.count("never seen in training: 3 (Zork, here, caf\u00e9)\n") == 1
    for option in ("--lines", "--json"):
        assert "training: 1 (" + "x" * 40 + ")\n" in translate("x" * 10_000, option).stderr
    monkeypatch.setattr("nmt.cli.commands.translate._CHECKED", 2)
    assert "never seen" not in translate("the", "cat", "zork").stderr
    assert "of the first 2 sentences: 1 (zork)" in translate("the", "zork", "is").stderr


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["Vous avez une maison."], "looks like fr"),
        (["x.en"], "note: 'x.en' is translated as a sentence; --file x.en translates the file"),
        (["old"], "note: 'old' is translated as a sentence; --run old translates with the run"),
        (
            ["he", "the cat " * 50, "the cat " * 51, "--lines"],  # data.max_pieces is 100
            "sentence of the training (100 pieces): 1 of 3 lines, the first is line 3;",
        ),
    ],
)
def test_what_is_odd_is_noted(arguments: list[str], note: str) -> None:
    write_lines(Path("x.en"), ["This is a cat!", "the cat " * 50, ""])
    Path("old").mkdir()
    Path("old/config.yaml").touch()
    assert note in translate(*arguments, "--set", "search.max_length=1").stderr
    usual = translate("--file", "x.en", "--beam", "100", "--set", "search.max_length=1").stderr
    for words in ("note:", "looks like", "longer than"):
        assert words not in usual


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a --lexicon x", "--lexicon requires --replace-unk"),
        ("a --json --show-attention", "--json does not allow"),
        ("a --n-best 4", "search.n_best: got 4, allowed: 1 to beam (3)"),
        ("fine b\udcffd", "argument 2: not UTF-8: 'b\\udcffd'"),
        ("a --precision bf16 --int8", "int8"),
        ("a --format html --lines", "--format: got html, allowed with --lines"),
        ("--format po --n-best 2", "--format: got po, allowed with"),
        ("a --temperature 2 --beam 3", "--beam"),
    ],
)
def test_what_is_wrong_is_said(arguments: str, message: str) -> None:
    result = nmt("translate", *arguments.split(" "), code=2)
    assert message in result.stderr
    assert (result.stdout, result.stderr.count("error: ")) == ("", 1)


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


QUICK = ("--run", "runs/tiny", "--batch-size", "1", "--beam", "1", "--set", "search.max_length=3")


def started(*words: str, stdin: Path = Path(os.devnull)) -> "subprocess.Popen[bytes]":
    with stdin.open("rb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "nmt", "translate", *QUICK, *words],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # As at a terminal: who starts the tests in the background has Ctrl-C ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    write_lines(Path("a.en"), ["The cat sleeps."] * 9999)
    process = started("--file", "a.en")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().endswith(b"\n")
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()


_PROGRAM = (
    "import sys, typer; from nmt.cli.commands.translate import translate; "
    "from nmt.cli.shared.options import with_options; assert 'torch' not in sys.modules; "
    "app = typer.Typer(); app.command()(with_options(translate)); app(standalone_mode=False); "
    "heavy = {'sacrebleu', 'matplotlib', 'nmt.explain.terminal'} | "
    "{'torch._dynamo', 'sympy'}; "
    "print(sorted(heavy & set(sys.modules)))"
)


def test_on_a_terminal_it_asks_until_an_empty_line(expected: list[Translation]) -> None:
    """And imports nothing that it does not need."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    for typed in (SENTENCES[0], SENTENCES[2], ""):
        shown = _read_until(ours, shown, b"en> ")
        os.write(ours, typed.encode() + b"\n")
        shown += b"|"
    shown = _read_until(ours, shown, b"]")
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    assert text.count("en> ") == 3
    assert "[]" in text
    for translation in (expected[0], expected[2]):
        assert f"{translation.text}\r\n" in text
    assert "an empty line ends" in text
    os.close(ours)


def _read_until(terminal: int, shown: bytes, mark: bytes) -> bytes:
    """All that is shown until `mark` comes after the last `|`."""
    while mark not in shown.rpartition(b"|")[2]:
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, f"nothing more after {shown!r}"
        shown += os.read(terminal, 4096)
    return shown
