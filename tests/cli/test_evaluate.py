"""`nmt eval` as typed, on a tiny run that has learnt nothing and on files."""

import gzip
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from click.testing import Result
from evaluation.test_comet import package  # noqa: F401 - a fixture
from sacrebleu.metrics.bleu import BLEU
from typer.testing import CliRunner

from nmt.cli.command import Command
from nmt.cli.evaluate import evaluate
from nmt.config import load_config
from nmt.data.sources import read_aligned
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.models.catalog import build_model
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import train_tokenizers

ENGLISH = [
    "the man sleeps",
    "the cat is here !",
    "he is late",
    "it's summer",
    "she's in the garden",
]
FRENCH = [
    "l'homme dort",
    "le chat est ici !",
    "il est en retard",
    "c'est l'été",
    "elle est dans le jardin",
]

Eval = Callable[..., Result]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory) -> Path:
    """A run directory runs/tiny beside its data, with checkpoints 3 (best) and 5 (last)."""
    root = tmp_path_factory.mktemp("eval")
    (root / "en").write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    (root / "fr").write_text("".join(f"{line}\n" for line in FRENCH), encoding="utf-8")
    (root / "tiny.yaml").write_text(
        f"""
name: tiny
data:
  train: {{src: {root / "en"}, tgt: {root / "fr"}}}
  test: {{src: {root / "en"}, tgt: {root / "fr"}}}
tokenizer: {{kind: word, min_freq: 1}}
model: {{embedding: 5, hidden: 7}}
train: {{epochs: 1}}
search: {{beam: 2, n_best: 2}}
""",
        encoding="utf-8",
    )
    config = load_config(root / "tiny.yaml")
    run = RunDirectory.create(root / "runs" / "tiny", config)
    pairs = read_aligned(root / "en", root / "fr")
    tokenizers = train_tokenizers(config.tokenizer, pairs, "en", "fr", seed=1)
    tokenizers.save(run.tokenizer_path)
    for step, label in ((3, "best"), (5, "last")):
        torch.manual_seed(step)
        model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
        run.checkpoint_folder.save(step, model.state_dict(), {}, {})
        run.checkpoint_folder.point({label: step})
    return run.path


@pytest.fixture
def nmt_eval(tiny_run, monkeypatch) -> Eval:
    """Runs `nmt eval ARGS` where the tiny run's folder `runs` is; errors come out as raised."""
    monkeypatch.chdir(tiny_run.parent.parent)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("eval", cls=Command)(evaluate)

    def call(*args: object, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if isinstance(result.exception, NMTError):
            raise result.exception
        assert result.exit_code == exit_code, result.output
        return result

    return call


def test_the_newest_run_is_named_on_stderr_and_its_score_goes_to_stdout(nmt_eval, tiny_run):
    result = nmt_eval("--bleu")
    assert "run: runs/tiny (" in result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("BLEU ")
    assert "(95 % bootstrap, n=1000)  nrefs:1|bs:1000|seed:12345|case:mixed" in lines[0]


def test_scores_and_translations_are_kept_in_the_run(nmt_eval, tiny_run):
    result = nmt_eval("--bleu", "--ter", "--run", tiny_run, "--no-bootstrap")
    kept = json.loads((tiny_run / "eval" / "test.json").read_text(encoding="utf-8"))
    hyps = (tiny_run / "eval" / "test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(hyps) == len(ENGLISH)
    bleu = kept["scores"]["bleu"]
    assert bleu["score"] == pytest.approx(BLEU().corpus_score(hyps, [FRENCH]).score, abs=1e-9)
    assert list(kept["scores"]) == ["bleu", "ter"]
    assert result.stdout.startswith(f"BLEU {bleu['score']:.2f}  {bleu['signature']}\nTER ")
    assert (kept["checkpoint"], kept["step"], kept["sentences"]) == ("best", 3, 5)
    assert (kept["search"]["beam"], kept["search"]["n_best"]) == (2, 1)
    assert kept["data"]["src"].endswith("/en")
    assert kept["seconds"] > 0
    assert kept["typography"] == "plain"


def test_another_way_to_search_or_another_checkpoint_is_kept_apart(nmt_eval, tiny_run):
    nmt_eval("--checkpoint", "last", "--beam", 1, "--length-penalty", 0.5, "--no-bootstrap")
    kept = json.loads((tiny_run / "eval" / "test-last-beam1-alpha0.5.json").read_text("utf-8"))
    assert (kept["checkpoint"], kept["step"]) == ("last", 5)
    assert (kept["search"]["beam"], kept["search"]["length_penalty"]) == (1, 0.5)


def test_set_reaches_the_search_and_is_kept_apart(nmt_eval, tiny_run):
    setting = ("--set", "search.max_length=3 # a/b", "--set", "search.beam=3")
    nmt_eval(*setting, "--beam", 1, "--batch-size", 2, "--no-bootstrap")
    kept = json.loads((tiny_run / "eval" / "test-max_length3-beam1.json").read_text("utf-8"))
    assert (kept["search"]["max_length"], kept["search"]["beam"]) == (3, 1)
    with pytest.raises(ConfigError, match=r"^--set model.hidden=3: got another key, allowed here"):
        nmt_eval("--set", "model.hidden=3")
    with pytest.raises(ConfigError, match=r"so --set does not apply"):
        nmt_eval("--set", "search.beam=3", "--hyp", tiny_run / "en")
    with pytest.raises(ConfigError, match=r"^--length-penalty 11.0: search.length_penalty: got 11"):
        nmt_eval("--length-penalty", 11)


def test_minimum_bayes_risk_is_kept_apart(nmt_eval, tiny_run):
    nmt_eval("--mbr", 3, "--no-bootstrap")
    kept = json.loads((tiny_run / "eval" / "test-mbr3.json").read_text("utf-8"))
    assert kept["search"]["mbr"]["samples"] == 3
    nmt_eval("--set", "search.mbr={samples: null, utility: bleu}", "--no-bootstrap")
    assert (tiny_run / "eval" / "test-mbrNone-0.02-bleu-1.json").is_file()
    with pytest.raises(ConfigError, match="so --mbr does not apply"):
        nmt_eval("--mbr", 3, "--hyp", tiny_run / "en")
    with pytest.raises(ConfigError, match=r"^--mbr 10001: search.mbr.samples: got 10001"):
        nmt_eval("--mbr", 10_001)


def test_int8_is_kept_apart(nmt_eval, tiny_run):
    nmt_eval("--int8", "--no-bootstrap")
    assert json.loads((tiny_run / "eval" / "test-int8.json").read_text("utf-8"))["int8"] is True
    with pytest.raises(ConfigError, match="so --int8 does not apply"):
        nmt_eval("--int8", "--hyp", tiny_run / "eval" / "test-int8.txt")


def test_a_baseline_may_be_an_evaluated_run(nmt_eval, tiny_run, tmp_path):
    run = tmp_path / "old"
    (run / "eval").mkdir(parents=True)
    with pytest.raises(DataError, match=r"eval/test.txt: no such file; evaluate that run"):
        nmt_eval("--baseline", run)
    (run / "eval" / "test.txt").write_text("".join(f"{x}\n" for x in FRENCH), encoding="utf-8")
    nmt_eval("--baseline", run)
    assert "bleu" in kept_of(tiny_run)["against_baseline"]


def test_json_on_stdout_is_what_the_run_keeps(nmt_eval, tiny_run):
    (tiny_run / "eval" / "test.json").unlink(missing_ok=True)
    result = nmt_eval("--json", "--chrf", "--no-bootstrap")
    assert json.loads(result.stdout) == json.loads((tiny_run / "eval/test.json").read_text("utf-8"))
    assert list(json.loads(result.stdout)["scores"]) == ["chrf"]


def kept_of(tiny_run: Path) -> dict:
    return json.loads((tiny_run / "eval" / "test.json").read_text("utf-8"))


def test_other_scores_of_the_same_translations_stay(nmt_eval, tiny_run, tmp_path):
    (tmp_path / "old").write_text("".join(f"{line}\n" for line in FRENCH), encoding="utf-8")
    nmt_eval("--bleu", "--ter", "--baseline", tmp_path / "old")
    first = kept_of(tiny_run)
    result = nmt_eval("--bleu", "--chrf", "--no-bootstrap")
    second = kept_of(tiny_run)
    assert set(second["scores"]) == {"bleu", "chrf", "ter"}
    assert second["scores"]["ter"] == first["scores"]["ter"]
    assert second["scores"]["bleu"]["low"] is None
    assert second["against_baseline"] == first["against_baseline"]
    assert second["baseline"] == str(tmp_path / "old")
    assert "dropped" not in result.stderr
    nmt_eval("--bleu", "--baseline", tmp_path / "old")
    assert set(kept_of(tiny_run)["against_baseline"]) == {"bleu", "ter"}
    (tmp_path / "old").write_text("x\n" * len(FRENCH), encoding="utf-8")
    nmt_eval("--bleu", "--baseline", tmp_path / "old")
    assert set(kept_of(tiny_run)["against_baseline"]) == {"bleu"}


def test_scores_of_other_translations_are_dropped_and_named(nmt_eval, tiny_run):
    (tiny_run / "eval" / "test.json").unlink(missing_ok=True)
    nmt_eval("--bleu", "--chrf", "--no-bootstrap")
    run = RunDirectory(tiny_run)
    try:
        run.checkpoint_folder.point({"best": 5})
        result = nmt_eval("--bleu", "--no-bootstrap")
    finally:
        run.checkpoint_folder.point({"best": 3})
    assert list(kept_of(tiny_run)["scores"]) == ["bleu"]
    assert "dropped there: chrf, of translations that have changed since" in result.stderr
    (tiny_run / "eval" / "test.json").write_text("{")
    nmt_eval("--chrf", "--no-bootstrap")
    assert list(kept_of(tiny_run)["scores"]) == ["chrf"]


def test_what_is_read_is_never_written(nmt_eval, tiny_run, tmp_path):
    for name in ("ref", "src"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in FRENCH), encoding="utf-8")
    (tmp_path / "link").hardlink_to(tmp_path / "ref")
    for out, read in (("src", "src"), ("link", "ref")):
        files = ["--src", tmp_path / "src", "--ref", tmp_path / "ref", "--out", tmp_path / out]
        with pytest.raises(
            ConfigError, match=rf"^--out: .*{out} is read as well \(--{read}: .*/{read}\)"
        ):
            nmt_eval(*files)
        assert (tmp_path / read).read_text("utf-8").splitlines() == FRENCH
    with pytest.raises(ConfigError, match=r"--out: fr is read as well \(--split: .*/fr\)"):
        nmt_eval("--out", "fr", "--force")
    with pytest.raises(ConfigError, match=r"--out: .*/config.yaml belongs to the run "):
        nmt_eval("--out", tiny_run / "config.yaml", "--force")
    nmt_eval("--no-bootstrap")
    own = tiny_run / "eval" / "test.txt"
    with pytest.raises(
        ConfigError, match=r"the run's own evaluation: .*/test.txt is read as well \(--baseline: "
    ):
        nmt_eval("--baseline", own)


def test_files_with_two_references_are_translated_and_written(nmt_eval, tmp_path, tiny_run):
    (tmp_path / "other").write_text("".join(f"{line} .\n" for line in FRENCH), encoding="utf-8")
    files = ["--src", "en", "--ref", "fr", "--ref", tmp_path / "other"]
    result = nmt_eval(*files, "--out", tmp_path / "out.txt")
    assert "nrefs:2|" in result.stdout
    hyps = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(hyps) == len(ENGLISH)
    assert (tiny_run / "eval" / "en.json").is_file()


def test_a_translation_made_elsewhere_needs_no_run(nmt_eval, tmp_path, monkeypatch, tiny_run):
    root = tiny_run.parent.parent
    monkeypatch.chdir(tmp_path)
    result = nmt_eval("--hyp", root / "fr", "--ref", root / "fr", "--multi30k-style", "--bleu")
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["BLEU", "100.00"],
        ["BLEU-lc-norm-tok", "100.00"],
    ]
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_translation_of_the_runs_split_is_kept_there_under_its_own_name(nmt_eval, tiny_run):
    result = nmt_eval("--hyp", "fr", "--no-bootstrap")
    assert result.stdout.startswith("BLEU 100.00  ")
    kept = json.loads((tiny_run / "eval" / "test-hyp-fr.json").read_text("utf-8"))
    assert (kept["hyp"], kept["seconds"], kept["typography"]) == ("fr", None, "plain")
    assert not (tiny_run / "eval" / "test-hyp-fr.txt").exists()


def test_what_translate_prints_scores_as_the_run_does(nmt_eval, tmp_path, tiny_run):
    printed = [line.replace("'", "’").replace(" !", "\u202f!") for line in FRENCH]
    (tmp_path / "h.fr").write_text("".join(f"{line}\n" for line in printed), encoding="utf-8")
    result = nmt_eval("--hyp", tmp_path / "h.fr", "--no-bootstrap")
    assert result.stdout.startswith("BLEU 100.00  ")
    assert (
        f"{tmp_path / 'h.fr'}: 3 of 5 translations are scored in the typography of the references "
        "(' and common spaces); --as-is leaves both sides as they are\n" in result.stderr
    )
    as_is = nmt_eval("--hyp", tmp_path / "h.fr", "--no-bootstrap", "--as-is")
    expected = BLEU().corpus_score(printed, [FRENCH]).score
    assert as_is.stdout.startswith(f"BLEU {expected:.2f}  ")
    assert expected < 99
    assert "typography" not in as_is.stderr


def test_a_baseline_is_put_into_the_same_form(nmt_eval, tmp_path):
    printed = [unicodedata.normalize("NFD", line.replace("'", "’")) for line in FRENCH]
    (tmp_path / "b").write_text("".join(f"{line}\n" for line in printed), encoding="utf-8")
    result = nmt_eval("--hyp", "fr", "--ref", "fr", "--baseline", tmp_path / "b")
    assert "BLEU +0.00 against 100.00 of" in result.stdout
    assert f"{tmp_path / 'b'}: 2 of 5 translations are scored in the typography" in result.stderr


@pytest.mark.parametrize("name", ["r.zh", "r.zh.gz"])
def test_the_language_is_that_of_the_references_name(nmt_eval, tmp_path, name):
    text = "我喜欢吃苹果和香蕉。\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (tmp_path / "hyp").write_bytes("我喜欢吃苹果和梨子。\n".encode())
    files = ["--hyp", tmp_path / "hyp", "--ref", tmp_path / name, "--no-bootstrap"]
    assert "|tok:zh|" in nmt_eval(*files).stdout
    assert "|tok:13a|" in nmt_eval(*files, "--lang", "fr").stdout
    assert "|tok:char|" in nmt_eval(*files, "--tokenize", "char").stdout


def test_an_extra_that_bleu_lacks_is_named_before_anything_is_translated(nmt_eval, monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(ConfigError) as caught:
        nmt_eval("--lang", "ja")
    assert str(caught.value) == (
        "--tokenize: BLEU's tokenisation ja-mecab needs an extra of sacreBLEU; get it with: "
        "pip install 'sacrebleu[ja]', or choose another: 13a, intl, char, none, zh, ja-mecab, "
        "ko-mecab"
    )
    assert nmt_eval("--lang", "ja", "--chrf", "--no-bootstrap").stdout.startswith("chrF2 ")


def test_an_empty_line_of_a_translation_stays_a_line(nmt_eval, tmp_path):
    (tmp_path / "hyp").write_text("\n" + "".join(f"{line}\n" for line in FRENCH[1:]))
    result = nmt_eval("--hyp", tmp_path / "hyp", "--ref", "fr", "--no-bootstrap")
    expected = BLEU().corpus_score(["", *FRENCH[1:]], [FRENCH]).score
    assert result.stdout.startswith(f"BLEU {expected:.2f}  ")
    assert expected < 90


def test_a_baseline_is_compared_with(nmt_eval, tmp_path):
    worse = [line.replace("est", "a") for line in FRENCH]
    (tmp_path / "worse").write_text("".join(f"{line}\n" for line in worse), encoding="utf-8")
    result = nmt_eval("--hyp", "fr", "--ref", "fr", "--baseline", tmp_path / "worse")
    theirs = BLEU().corpus_score(worse, [FRENCH]).score
    line = f"BLEU +{100 - theirs:.2f} against {theirs:.2f} of {tmp_path / 'worse'}, p = 0.0"
    assert result.stdout.splitlines()[1].startswith(line)


def test_a_dash_puts_the_translations_on_stdout_and_the_scores_on_stderr(nmt_eval) -> None:
    nmt_eval("--run", "runs/tiny", "--out", "hyp", "--no-bootstrap")
    both = nmt_eval("--run", "runs/tiny", "--out", "-", "--no-bootstrap", "--quiet")
    assert both.stdout == Path("hyp").read_text(encoding="utf-8")
    assert both.stderr.startswith("BLEU ")
    assert both.stderr.count("\n") == 1


def test_fail_under_exits_with_one_when_bleu_is_lower_and_only_then(nmt_eval, tmp_path):
    assert (
        "--fail-under 100" not in nmt_eval("--hyp", "fr", "--ref", "fr", "--fail-under", 100).stderr
    )
    (tmp_path / "hyp").write_text("".join(f"{line} !\n" for line in FRENCH), encoding="utf-8")
    result = nmt_eval("--hyp", tmp_path / "hyp", "--ref", "fr", "--fail-under", 99, exit_code=1)
    assert result.stdout.startswith("BLEU ")
    assert " is under --fail-under 99" in result.stderr


def test_scores_that_cannot_be_kept_are_given_all_the_same(nmt_eval, tiny_run, monkeypatch):
    def full(aside: Path, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = nmt_eval("--hyp", "fr", "--no-bootstrap")
    assert result.stdout.startswith("BLEU 100.00")
    assert (
        "scores are not kept in the run: cannot write runs/tiny/eval/test-hyp-fr.json: "
        "No space left on device" in result.stderr
    )


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (
            ["--src", "en"],
            ConfigError,
            "--src: its translation is scored against --ref, which is missing",
        ),
        (
            ["--ref", "fr"],
            ConfigError,
            "--ref: give --src to translate, or --hyp to score, with it",
        ),
        (
            ["--src", "en", "--ref", "fr", "--split", "valid"],
            ConfigError,
            "--split: the texts come from --ref, so --split does not apply",
        ),
        (
            ["--hyp", "fr", "--beam", "3"],
            ConfigError,
            "--hyp: the translation is given, so --beam does not apply",
        ),
        (
            ["--hyp", "fr", "--ref", "fr", "--run", "runs/tiny"],
            ConfigError,
            "--hyp: the translation and its reference are given, so --run does not apply",
        ),
        (
            ["--baseline", "fr", "--no-bootstrap"],
            ConfigError,
            "--baseline: it is compared by bootstrap; leave out --no-bootstrap",
        ),
        (
            ["--chrf", "--fail-under", "20"],
            ConfigError,
            "--fail-under: it is about BLEU, so give --bleu with it",
        ),
        (
            ["--tokenize", "13"],
            ConfigError,
            "--tokenize: got '13', allowed: 13a, intl, char, none, zh, ja-mecab, ko-mecab",
        ),
        (
            ["--hyp", "three", "--ref", "three", "--multi30k-style"],
            ConfigError,
            "--multi30k-style: the target language is not known; give --lang",
        ),
        (["--out", "nowhere/x"], ConfigError, "--out: no such folder: nowhere"),
        (
            ["--out", "-", "--json"],
            ConfigError,
            "--out: got -, allowed with --json: a file; stdout is for the scores",
        ),
        (["--hyp", "fr", "--out", "x"], ConfigError, "--out: no translation is made with --hyp"),
        (
            ["--split", "valid"],
            ConfigError,
            "--split: the run's config has no valid set; set data.valid there, "
            "or give --src and --ref",
        ),
        (
            ["--split", "test_2017_flickr"],
            ConfigError,
            "--split: got 'test_2017_flickr', allowed: train, valid, test "
            "(the run reads no named corpus, which might have others)",
        ),
        (
            ["--hyp", "three", "--ref", "fr"],
            DataError,
            "three has 3 lines, but fr has 5; "
            "there must be one translation a line, in the same order",
        ),
        (
            ["--hyp", "empty", "--ref", "fr"],
            DataError,
            "empty: no lines, there must be a translation a line",
        ),
        (
            ["--src", "empty", "--ref", "empty"],
            DataError,
            "empty: no lines, there must be at least one",
        ),
        (
            ["--src", "en", "--ref", "fr", "--ref", "three"],
            DataError,
            "three:4: no such line, but en has 5 lines; "
            "aligned files need the same number of lines",
        ),
        (
            ["--length-penalty", "11"],
            ConfigError,
            "--length-penalty 11.0: search.length_penalty: got 11.0, allowed: <= 10",
        ),
        (
            ["--run", "runs/tinny"],
            CheckpointError,
            "runs/tinny: no such run; did you mean 'runs/tiny'?",
        ),
    ],
)
def test_wrong_input_is_one_line(nmt_eval, tiny_run, args, error, message):
    root = tiny_run.parent.parent
    (root / "three").write_text("a\nb\nc\n", encoding="utf-8")
    (root / "empty").write_text("", encoding="utf-8")
    with pytest.raises(error) as caught:
        nmt_eval(*args)
    assert str(caught.value) == message


def test_swapped_files_are_noted(nmt_eval, tiny_run):
    data = tiny_run.parent.parent
    flags = ("--device", "cpu", "--no-bootstrap")
    assert "swapped" in nmt_eval("--src", data / "fr", "--ref", data / "en", *flags).stderr
    assert "swapped" not in nmt_eval("--src", data / "en", "--ref", data / "fr", *flags).stderr


@pytest.mark.usefixtures("package")
def test_comet_scores_the_runs_translations_beside_the_others(nmt_eval, tiny_run, tmp_path):
    path = tmp_path / "wmt" / "checkpoints" / "model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a checkpoint")
    alone = nmt_eval("--comet", path, "--device", "cpu", "--no-bootstrap").stdout
    assert alone.startswith("COMET 0.00  model:wmt/model.ckpt|times:100|")
    assert alone.count("\n") == 1
    nmt_eval("--comet", path, "--device", "cpu", "--no-bootstrap", "--bleu")
    kept = json.loads((tiny_run / "eval" / "test.json").read_text(encoding="utf-8"))
    assert {"bleu", "comet"} <= kept["scores"].keys()
    given = ("--hyp", "fr", "--src", "en", "--ref", "fr")
    assert nmt_eval("--comet", path, *given).stdout.startswith("COMET 100.00 [100.00, 100.00]")
    with pytest.raises(ConfigError, match=r"--comet: it reads the source .*: give --src"):
        nmt_eval("--comet", path, "--hyp", "fr", "--ref", "fr")
    with pytest.raises(ConfigError, match="absent: no such file"):
        nmt_eval("--comet", "absent")
    with pytest.raises(ConfigError, match="--aer: --comet does not apply"):
        nmt_eval("--comet", path, "--aer", "en")
