"""`nmt translate` over a real, tiny, untrained run: what goes where, and in which form."""

import gzip
import json
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import typer
from click.testing import Result
from typer.testing import CliRunner

from nmt.attention_maps.terminal import render_terminal
from nmt.cli.command import Command
from nmt.cli.translate import translate
from nmt.config import RunConfig, TrainConfig
from nmt.data.sources import DataConfig, SplitConfig
from nmt.decoding.search_config import MBRConfig, SearchConfig
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.inference.translator import Translator
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import Vocabulary
from nmt.runs.directory import RunDirectory
from nmt.text.normalisation import normalise
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.text.vocabulary import EOS_ID, UNK_ID
from nmt.types import SentencePair, Translation

Run = Callable[..., Result]

SENTENCES = ["The cat sleeps.", "", "A dog!", "The dog, the cat", " \t", "a zebra\u2028sleeps"]
PAIRS = [
    SentencePair("The cat sleeps.", "Le chat dort."),
    SentencePair("A dog, the cat!", "Un chien, l’ami : le chat !"),
]
SEARCH = SearchConfig(beam=3, max_length=9)

app = typer.Typer()
app.command(cls=Command)(translate)


@pytest.fixture(scope="module")
def tiny_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs/tiny`, an untrained model of a dozen words."""
    home = tmp_path_factory.mktemp("home")
    config = RunConfig(
        name="tiny",
        data=DataConfig(train=SplitConfig(src=Path("a.en"), tgt=Path("a.fr"))),
        tokenizer=WordConfig(min_freq=1),
        model=RNNConfig(embedding=5, hidden=7),
        train=TrainConfig(steps=1),
        search=SEARCH,
    )
    run = RunDirectory.create(home / "runs" / "tiny", config)
    tokenizers = train_tokenizers(config.tokenizer, PAIRS, "en", "fr", seed=1)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(2)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    tensors = {name: 3 * tensor for name, tensor in model.state_dict().items()}
    run.checkpoint_folder.save(1, tensors, {}, {"step": 1})
    run.checkpoint_folder.point({"best": 1, "last": 1})
    return home


@pytest.fixture
def run(tiny_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in that folder; with `fails`, its error is for the test to read."""
    monkeypatch.chdir(tiny_runs)

    def invoke(*args: str, stdin: bytes = b"", fails: bool = False) -> Result:
        result = CliRunner().invoke(app, list(args), input=stdin)
        if not fails:
            assert result.exception is None, result.output
        return result

    return invoke


@pytest.fixture(scope="module")
def expected(tiny_runs: Path) -> list[Translation]:
    """What the library says of SENTENCES."""
    translator = Translator.load(tiny_runs / "runs" / "tiny", device="cpu", search=SEARCH)
    return translator.translate(SENTENCES, n_best=3)


def lines_of(result: Result) -> list[str]:
    """stdout by lines that end at `\\n` only, each ended."""
    *lines, rest = result.stdout.split("\n")
    assert rest == ""
    return lines


def error_of(result: Result, kind: type[NMTError]) -> str:
    assert type(result.exception) is kind
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_arguments_give_a_line_each(run: Run, expected: list[Translation]) -> None:
    result = run(*SENTENCES)
    assert lines_of(result) == [t.text for t in expected]
    assert len({t.text for t in expected}) > 1
    assert result.stderr.startswith("run: runs/tiny (1 update)\n")


def test_a_newest_run_that_was_stopped_is_said(run: Run, tiny_runs: Path) -> None:
    card = tiny_runs / "runs" / "tiny" / "run.json"
    training = {"started": "2026-11-24", "from_step": 0, "step": 1, "how": "stopped"}
    card.write_text(json.dumps({"trainings": [training]}), encoding="utf-8")
    try:
        assert "(1 update, unfinished)" in run("a").stderr
    finally:
        card.unlink()


def test_stdin_and_files_give_as_many_lines(
    run: Run, expected: list[Translation], tmp_path: Path
) -> None:
    wanted = [t.text for t in expected]
    content = "\n".join(SENTENCES).encode()
    for ended in (content, content + b"\n", b"\xef\xbb\xbf" + content):
        assert lines_of(run(stdin=ended)) == wanted
        assert lines_of(run("--file", "-", stdin=ended)) == wanted
        plain, packed = tmp_path / "x.en", tmp_path / "x.en.GZ"
        plain.write_bytes(ended)
        packed.write_bytes(gzip.compress(ended))
        for path in (plain, packed):
            assert lines_of(run("--file", str(path), "--batch-size", "1")) == wanted
    assert run(stdin=b"").stdout == ""
    assert run(stdin=b"\n\n").stdout == "\n\n"


def test_a_run_that_is_named_is_not_announced(run: Run) -> None:
    assert "run:" not in run("A dog!", "--run", "runs/tiny", "--checkpoint", "last").stderr


def test_n_best_lines(run: Run, expected: list[Translation]) -> None:
    rows = [line.split("\t") for line in lines_of(run(*SENTENCES, "--n-best", "3"))]
    wanted = []
    for number, translation in enumerate(expected, start=1):  # as in nmt attention
        for found in translation.hypotheses:
            wanted.append([str(number), f"{found.hypothesis.score:.4f}", found.text])
        if not translation.hypotheses:
            wanted.append([str(number), "", ""])
    assert rows == wanted


def test_scores(run: Run, expected: list[Translation]) -> None:
    rows = [line.split("\t") for line in lines_of(run(*SENTENCES, "--scores"))]
    assert [text for _, text in rows] == [t.text for t in expected]
    for (score, _), translation in zip(rows, expected, strict=True):
        best = [f"{h.hypothesis.score:.4f}" for h in translation.hypotheses[:1]]
        assert [score] == (best or [""])


def test_json_lines(run: Run, expected: list[Translation]) -> None:
    records = [json.loads(line) for line in lines_of(run(*SENTENCES, "--json", "--n-best", "2"))]
    for record, translation in zip(records, expected, strict=True):
        assert record["src"] == translation.src_text
        assert record["translation"] == translation.text
        assert len(record["hypotheses"]) == len(translation.hypotheses[:2])
        for one, found in zip(record["hypotheses"], translation.hypotheses, strict=False):
            assert one["text"] == found.text
            assert one["score"] == pytest.approx(found.hypothesis.score)
            assert one["finished"] == found.hypothesis.finished
            assert one["log_probs"] == pytest.approx(found.hypothesis.log_probs)
            pieces = [*found.target.pieces] + ["</s>"] * found.hypothesis.finished
            assert one["pieces"] == pieces


def test_the_map_is_drawn(run: Run, expected: list[Translation]) -> None:
    result = run("The cat sleeps.", "", "--show-attention")
    drawn = render_terminal(expected[0])
    assert drawn
    assert result.stdout == f"{expected[0].text}\n{drawn}\n\n\n"
    assert "below; from:" in result.stderr


def test_the_flags_reach_the_search(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    load = Translator.load

    def note(*args: object, **rest: object) -> Translator:
        translator = load(*args, **rest)  # type: ignore[arg-type]
        seen.append(translator.search)
        return translator

    monkeypatch.setattr(Translator, "load", note)
    run("a")
    flags = ["--beam", "4", "--n-best", "2", "--length-penalty", "1.5", "--batch-size", "3"]
    run("a", *flags, "--set", "search.max_length=2", "--set", "search.beam=2")
    run("a", "--mbr", "7")
    assert seen == [
        SEARCH,
        SearchConfig(
            beam=4,
            n_best=2,
            length_penalty=1.5,
            batch_size=3,
            max_length=2,
        ),
        SEARCH.model_copy(update={"mbr": MBRConfig(samples=7)}),
    ]


def test_plain_output_on_request(run: Run) -> None:
    """The French colon and apostrophe are in some of the best hypotheses of an untrained model."""
    options = ["--beam", "12", "--n-best", "12", "--set", "search.max_length=5"]
    restored = lines_of(run("A dog!", "the cat", *options))
    plain = lines_of(run("A dog!", "the cat", *options, "--no-restore"))
    assert [normalise(line, "fr") for line in restored] == [normalise(line, "fr") for line in plain]
    for mark in "\u202f\u00a0\u2019":
        assert mark in "".join(restored)
        assert mark not in "".join(plain)


def test_a_sentence_longer_than_the_training_ones_is_said(run: Run) -> None:
    """The config's data.max_pieces is 100: the model has seen nothing longer."""
    quick = ["--set", "search.max_length=2", "--beam", "1"]
    stderr = run("A dog!", "the cat " * 50, "the cat " * 51, *quick).stderr
    words = "longer than any sentence of the training (100 pieces): 1 of 3, the first in line 3; "
    assert f"\n{words}" in stderr
    assert "longer than any" not in run("A dog!", "the cat " * 50, *quick).stderr


def test_an_argument_of_several_lines_is_several_sentences(run: Run) -> None:
    assert run("A dog!\nThe cat sleeps.\n").stdout == run("A dog!", "The cat sleeps.").stdout
    assert run("A dog!\n\nA dog!").stdout == run("A dog!", "", "A dog!").stdout


@pytest.mark.parametrize(
    ("source", "is_noted"),
    [("Vous avez une maison.", True), ("This is a dog!", False), ("", False)],
)
def test_a_source_in_another_language_is_noted(run: Run, source: str, is_noted: bool) -> None:
    assert ("looks like fr" in run(source).stderr) == is_noted


@pytest.mark.parametrize(("name", "is_noted"), [("a.srt", True), ("a.PO", True), ("a.en", False)])
def test_a_file_with_markup_is_noted(run: Run, tmp_path: Path, name: str, is_noted: bool) -> None:
    (tmp_path / name).write_text("A dog!\n")
    assert ("plain text" in run("--file", str(tmp_path / name)).stderr) == is_noted


def test_the_name_of_a_file_given_as_a_sentence_is_noted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("A dog!\n")
    result = run(str(path))
    words = f"note: '{path}' is translated as a sentence; --file {path} translates the file\n"
    assert result.stderr.startswith(words)
    assert result.stdout.count("\n") == 1
    assert "note:" not in run("--file", str(path)).stderr
    assert "note:" not in run("runs", "nothing.en", "A dog!").stderr


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--beam 100000000000000000000", "--beam 100000000000000000000: search.beam: got "),
        ("--length-penalty inf", "--length-penalty inf: search.length_penalty: got Infinity, all"),
        ("--length-penalty 1e9", "--length-penalty 1000000000.0: search.length_penalty: got 10"),
    ],
)
def test_a_value_of_a_flag_is_not_blamed_on_set(run: Run, typed: str, words: str) -> None:
    assert error_of(run("a", *typed.split(), fails=True), ConfigError).startswith(words)


def test_a_wide_beam_is_said_to_take_time(run: Run) -> None:
    quick = ["--set", "search.max_length=1", "a"]
    assert "beam 101: time and memory grow with it" in run("--beam", "101", *quick).stderr
    assert "time and memory" not in run("--beam", "100", *quick).stderr


def test_what_the_bound_cuts_is_said(run: Run) -> None:
    result = run("The cat sleeps.", "", "--set", "search.max_length=1", "--set", "search.beam=1")
    assert "\n1 of 2 translations were cut at the length bound (search.max_length" in result.stderr


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        (["a", "--file", "x"], ConfigError, "got sentences and --file, allowed: one of them"),
        (["a", "--resume"], ConfigError, "--resume: allowed with --file FILE --out FILE only"),
        (["a", "--lexicon", "x"], ConfigError, "--lexicon: it goes with --replace-unk"),
        (["a", "--replace-unk", "--lexicon", "none.tsv"], DataError, "none.tsv: no such file"),
        (["a", "--out", "no/folder"], DataError, "cannot write no/folder: No such file"),
        (["a", "--json", "--show-attention"], ConfigError, "--json does not go with"),
        (["a", "--n-best", "4"], ConfigError, "--n-best: got 4, allowed: 1 to 3, the beam"),
        (["a", "--set", "model.hidden=3"], ConfigError, "allowed here: search.*"),
        (["a", "--set", "search.bean=3"], ConfigError, "did you mean 'search.beam'"),
        (["a", "--set", "search.n_best=4"], ConfigError, "n_best: got 4, allowed: 1 to beam (3)"),
        (["a", "--run", "runs/tinny"], CheckpointError, "did you mean 'runs/tiny'"),
        (["a", "--checkpoint", "step-7"], CheckpointError, "step-"),
        (["a", "--device", "gpu"], ConfigError, "got 'gpu'"),
        (["--file", "nowhere.en"], DataError, "nowhere.en"),
        (["fine", "b\udcffd"], DataError, "argument 2: not UTF-8: 'b\\udcffd'"),
    ],
)
def test_what_is_wrong_is_said(
    run: Run, args: list[str], kind: type[NMTError], message: str
) -> None:
    result = run(*args, fails=True)
    assert message in error_of(result, kind)
    assert result.stdout == ""


def test_out_is_what_stdout_would_be(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    for form in ([], ["--json"], ["--n-best", "2"]):
        expected = run("--file", str(source), *form).stdout
        result = run("--file", str(source), *form, "--out", str(out), "--force")
        assert result.stdout == f"{out}\n"
        assert out.read_text(encoding="utf-8") == expected
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.en", "a.fr"]


def test_a_stopped_file_is_continued_at_a_chunk(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_text("".join(f"{sentence}\n" for sentence in SENTENCES * 8), encoding="utf-8")
    # Two sentences a batch, so 32 a chunk, which is where a stopped file is continued.
    args = ["--file", str(source), "--out", str(out), "--batch-size", "2", "--force"]

    run(*args)
    whole = out.read_text(encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        seen: list[int] = []

        def stopping(
            self: Translator, texts: list[str], *rest: object, prefixes: None = None
        ) -> list[Translation]:
            seen.append(len(texts))
            if len(seen) == 2:
                raise KeyboardInterrupt
            return translate_texts(self, texts, *rest)  # type: ignore[arg-type]

        translate_texts = Translator.translate
        patch.setattr(Translator, "translate", stopping)
        stopped = run(*args, fails=True)
    assert f"{out}: stopped after line 32; the same command with --resume goes" in stopped.stderr
    assert out.read_text(encoding="utf-8") == whole
    part = tmp_path / "a.fr.nmt-part"
    assert whole.startswith(part.read_text(encoding="utf-8"))
    with part.open("a", encoding="utf-8") as file:
        file.write("a line that was not finis")
    resumed = run(*args, "--resume")
    assert f"{out}: going on after line 32" in resumed.stderr
    assert out.read_text(encoding="utf-8") == whole
    assert "cannot be resumed" in error_of(run(*args, "--resume", fails=True), DataError)
    several = run(*args, "--resume", "--n-best", "2", fails=True)
    assert "where each sentence has one line" in error_of(several, ConfigError)


QUICK = ("--run", "runs/tiny", "--batch-size", "1", "--beam", "1", "--set", "search.max_length=3")


def translating(
    home: Path, *args: str, stdin: Path = Path(os.devnull)
) -> "subprocess.Popen[bytes]":
    with stdin.open("rb") as given:
        return subprocess.Popen(
            [sys.executable, "-m", "nmt", "translate", *QUICK, *args],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # As at a terminal: who starts the tests in the background has Ctrl-C ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def test_ctrl_c_at_any_moment_then_resume_gives_the_same_file(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, whole, out = tmp_path / "a.en", tmp_path / "whole.fr", tmp_path / "a.fr"
    lines = [f"{' the cat!' * (i % 7)} A dog\n" for i in range(120)]
    source.write_text("".join(lines), encoding="utf-8")
    part = tmp_path / "a.fr.nmt-part"
    rng, n_done = random.Random(7), 0
    for more in ((), ("--resume",)):
        process = translating(tiny_runs, "--file", str(source), "--out", str(out), *more)
        stop_at = n_done + rng.randrange(1, 30)
        while not part.exists() or part.read_bytes().count(b"\n") < stop_at:
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert not out.exists()
        n_done = part.read_bytes().count(b"\n")
        assert process.returncode == 130
        said = f"{out}: stopped after line {n_done}; the same command with --resume goes on there"
        assert err.decode().splitlines()[-1] == said
        assert err.count(b"\n") == 1 + len(more)
        assert stop_at <= n_done < len(lines)
    process = translating(tiny_runs, "--file", str(source), "--out", str(out), "--resume")
    _, err = process.communicate()
    assert f"{out}: going on after line {n_done}\n" in err.decode()
    assert process.returncode == 0

    monkeypatch.chdir(tiny_runs)
    args = [*QUICK, "--file", str(source), "--out", str(whole)]
    assert CliRunner().invoke(app, args).exit_code == 0
    assert whole.read_bytes().count(b"\n") == len(lines)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.en", "a.fr", "whole.fr"]


def test_a_reader_that_leaves_ends_it_quietly(tiny_runs: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.en"
    source.write_text("The cat sleeps.\n" * 9999, encoding="utf-8")
    process = translating(tiny_runs, "--file", str(source))
    assert process.stdout is not None
    assert process.stderr is not None
    lines = [process.stdout.readline() for _ in range(5)]
    process.stdout.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()
    assert len(set(lines)) == 1
    assert lines[0].endswith(b"\n")


def test_what_was_begun_otherwise_is_not_continued(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_bytes(b"a\nb\n\xff\n")
    args = ["--file", str(source), "--out", str(out), "--batch-size", "1"]
    stopped = run(*args, fails=True)
    assert f"{out}: stopped after line 2; these lines are in {out}.nmt-part" in stopped.stderr
    source.write_text("a\nc\n")
    error = error_of(run(*args, "--resume", "--beam", "2", fails=True), DataError)
    assert error.endswith("it was begun with another input, search")


@pytest.mark.parametrize("content", [None, b"\xff\n", b"\x1f\x8b\n"])
def test_an_input_that_cannot_be_read_leaves_the_old_output(
    run: Run, tmp_path: Path, content: bytes | None
) -> None:
    source, out = tmp_path / "a.en", tmp_path / "a.fr"
    out.write_text("precious\n")
    if content is not None:
        source.write_bytes(content)
    for name, kind in ((source, DataError), (tmp_path, ConfigError)):  # `out` is in the folder
        error_of(run("--file", str(name), "--out", str(out), "--force", fails=True), kind)
        assert out.read_text() == "precious\n"
        assert not list(tmp_path.glob("a.fr?*"))


def test_an_input_is_no_output(run: Run, tiny_runs: Path, tmp_path: Path) -> None:
    source, link, lexicon = tmp_path / "a.en", tmp_path / "link", tmp_path / "l.tsv"
    source.write_text("a\n")
    lexicon.write_text("a\tun\n")
    link.hardlink_to(source)
    config = Path("runs/tiny/config.yaml")
    for out, flag, read in (
        (source, "--file", source),
        (link, "--file", source),
        (lexicon, "--lexicon", lexicon),
        (config, "", config),
    ):
        before = out.read_bytes()
        args = ["--file", str(source), "--replace-unk", "--lexicon", str(lexicon)]
        error = error_of(run(*args, "--out", str(out), "--force", fails=True), ConfigError)
        reason = f"is read as well ({flag}: {read})" if flag else "belongs to the run"
        assert error.startswith(f"--out: {out} {reason}")
        assert out.read_bytes() == before
    process = translating(tiny_runs, "--out", str(source), "--force", stdin=source)
    assert b"is read as well (stdin: -)" in process.communicate()[1]
    assert source.read_text() == "a\n"


def test_a_dash_is_stdout(run: Run, expected: list[Translation]) -> None:
    assert lines_of(run(*SENTENCES, "--out", "-")) == [t.text for t in expected]
    assert not Path("-").exists()
    result = run("--file", "runs/tiny/config.yaml", "--out", "-", "--resume", fails=True)
    assert "allowed with --file FILE --out FILE only" in error_of(result, ConfigError)


def test_what_comes_before_a_bad_line_is_answered_whatever_the_batch(
    run: Run, expected: list[Translation], tmp_path: Path
) -> None:
    """With 64 sentences a batch all of these are read before the first is answered."""
    source, out = tmp_path / "a.en", tmp_path / "a.fr"
    good = "".join(f"{sentence}\n" for sentence in SENTENCES)
    source.write_bytes(good.encode() + b"\xff\n" + b"after\n")
    result = run("--file", str(source), fails=True)
    assert error_of(result, DataError).startswith(f"{source}:{len(SENTENCES) + 1}: byte 0xff")
    assert lines_of(result) == [t.text for t in expected]
    run("--file", str(source), "--out", str(out), fails=True)
    assert (tmp_path / "a.fr.nmt-part").read_text("utf-8") == result.stdout
    assert not out.exists()


def test_an_unknown_word_is_copied_on_request(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The untrained model's pieces are made to be unknown; it looks at every word a little."""
    monkeypatch.setattr(SearchConfig, "length_bound", lambda *_: 2)
    (tmp_path / "words.tsv").write_text("zebra\tzèbre\n", encoding="utf-8")

    def only_unknown(
        layer: Vocabulary, features: torch.Tensor, n_numbers: int
    ) -> Iterator[torch.Tensor]:
        unknown = torch.full_like(layer(features), -torch.inf)
        unknown[:, UNK_ID], unknown[:, EOS_ID] = 0.0, -100.0
        yield unknown

    monkeypatch.setattr(Vocabulary, "in_parts", only_unknown)
    assert run("zebra", "zebra, zebra").stdout == "<unk>\n<unk>\n"
    assert run("Zebra", "--replace-unk").stdout == "Zebra\n"
    lexicon = ["--lexicon", str(tmp_path / "words.tsv")]
    assert run("Zebra", "", "zebra", "--replace-unk", *lexicon).stdout == "zèbre\n\nzèbre\n"


def test_undecodable_input_names_its_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "latin1.en"
    path.write_bytes(b"one\ntwo\ncaf\xe9\n")
    result = run("--file", str(path), "--batch-size", "1", fails=True)
    fault = ":3: byte 0xe9 is not UTF-8; save the file as UTF-8"
    assert error_of(result, DataError) == f"{path}{fault}"
    assert len(lines_of(result)) == 2
    result = run(stdin=path.read_bytes(), fails=True)
    assert error_of(result, DataError) == f"stdin{fault}"


_PROGRAM = (
    "import sys, typer; from nmt.cli.translate import translate; "
    "app = typer.Typer(); app.command()(translate); app(standalone_mode=False); "
    "heavy = {'sacrebleu', 'matplotlib', 'nmt.attention_maps.terminal'} | "
    "{'torch._dynamo', 'sympy'}; "
    "print(sorted(heavy & set(sys.modules)))"
)


def test_only_what_is_needed_is_imported(tiny_runs: Path, expected: list[Translation]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, SENTENCES[0]],
        cwd=tiny_runs,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{expected[0].text}\n[]\n"
    started = [sys.executable, "-c", "import sys, nmt.cli.translate; print('torch' in sys.modules)"]
    assert subprocess.run(started, capture_output=True, text=True, check=True).stdout == "False\n"


def test_on_a_terminal_it_asks_until_an_empty_line(
    tiny_runs: Path, expected: list[Translation]
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=tiny_runs,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
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
    for translation in (expected[0], expected[2]):
        assert f"{translation.text}\r\n" in text
    assert process.stderr is not None
    assert "an empty line ends" in process.stderr.read().decode()
    process.stderr.close()
    os.close(ours)


def _read_until(terminal: int, shown: bytes, mark: bytes) -> bytes:
    """All that is shown until `mark` comes after the last `|`."""
    while mark not in shown.rpartition(b"|")[2]:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"nothing more after {shown!r}"
        shown += os.read(terminal, 4096)
    return shown
