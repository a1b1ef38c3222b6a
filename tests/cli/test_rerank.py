"""`--rerank` and `nmt tune rerank` as typed, on tiny runs that have learnt nothing."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import load_config
from nmt.data.sources import read_aligned
from nmt.models.catalog import build_model
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import train_tokenizers

ENGLISH = ["The cat sleeps.", "A dog!", "The dog sees the cat.", "Is it a bird?"]
FRENCH = ["Le chat dort.", "Un chien !", "Le chien voit le chat.", "Est-ce un oiseau ?"]


def tiny_run(home: Path, name: str, src: str, tgt: str, seed: int) -> Path:
    """An untrained run that translates the language `src` to `tgt`; its test set is missing."""
    text = f"""
name: {name}
data:
  src_lang: {src}
  tgt_lang: {tgt}
  train: {{src: {home / src}, tgt: {home / tgt}}}
  valid: {{src: {home / src}, tgt: {home / tgt}}}
  test: {{src: /nowhere/a, tgt: /nowhere/b}}
tokenizer: {{kind: word, min_freq: 1}}
model: {{embedding: 5, hidden: 7}}
train: {{epochs: 1}}
search: {{beam: 4, max_length: 9}}
"""
    (home / f"{name}.yaml").write_text(text, encoding="utf-8")
    config = load_config(home / f"{name}.yaml")
    run = RunDirectory.create(home / "runs" / name, config)
    pairs = read_aligned(home / src, home / tgt)
    tokenizers = train_tokenizers(config.tokenizer, pairs, src, tgt, seed=1)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(seed)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    tensors = {name: 3 * tensor for name, tensor in model.state_dict().items()}
    run.checkpoint_folder.save(1, tensors, {}, {})
    run.checkpoint_folder.point({"best": 1, "last": 1})
    return run.path


@pytest.fixture(scope="module")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("rerank")
    for lang, lines in (("en", ENGLISH), ("fr", FRENCH), ("de", FRENCH)):
        (home / lang).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for seed, (name, src, tgt) in enumerate(
        [("one", "en", "fr"), ("two", "en", "fr"), ("back", "fr", "en"), ("german", "en", "de")]
    ):
        tiny_run(home, name, src, tgt, seed)
    return home


@pytest.fixture
def runs(made_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made_runs / "runs", tmp_path / "runs")
    shutil.copy(made_runs / "en", tmp_path)
    shutil.copy(made_runs / "fr", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def nmt(*arguments: str, exit_code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == exit_code, result.output
    return result.stdout, result.stderr


def test_translations_are_of_the_same_beam_in_another_order(runs: Path) -> None:
    given = ("translate", "--run", "runs/one", "--file", "en", "--n-best", "4")
    back = ("--rerank", "runs/back", "--rerank", "runs/two")
    plain, light, heavy = (
        [line.split("\t") for line in nmt(*given, *flags)[0].splitlines()]
        for flags in ((), (*back, "--rerank-weights", "0,0"), (*back, "--rerank-weights", "9,1"))
    )
    assert light == plain
    assert heavy != plain
    assert sorted((n, text) for n, _, text in heavy) == sorted((n, text) for n, _, text in plain)


def test_the_report_has_a_name_of_its_own_and_says_what_reranked(runs: Path) -> None:
    files = ("--src", "en", "--ref", "fr")
    nmt("eval", "--run", "runs/one", *files)
    nmt("eval", "--run", "runs/one", *files, "--rerank", "runs/back")
    flags = ("--rerank", "runs/back", "--rerank", "runs/two", "--rerank-weights", "1,0.25")
    nmt("eval", "--run", "runs/one", *files, *flags)
    folder = runs / "runs" / "one" / "eval"
    several = "en-rerank-back-rerank-two-rerank-weights1,0.25"
    assert sorted(path.stem for path in folder.glob("*.json")) == ["en", "en-rerank-back", several]
    content = json.loads((folder / "en-rerank-back.json").read_text(encoding="utf-8"))
    assert (content["rerank"], content["rerank_weights"]) == (["runs/back"], [0.25])
    content = json.loads((folder / f"{several}.json").read_text(encoding="utf-8"))
    assert content["rerank_weights"] == [1.0, 0.25]


def test_a_file_that_was_begun_with_other_rerankers_is_not_continued(runs: Path) -> None:
    (runs / "a.en").write_bytes(b"A dog\nThe cat\n\xff\n")
    given = (
        "translate",
        "--run",
        "runs/one",
        "--file",
        "a.en",
        "--out",
        "a.fr",
        "--batch-size",
        "1",
    )
    nmt(*given, "--rerank", "runs/back", exit_code=2)
    (runs / "a.en").write_bytes(b"A dog\nThe cat\n")
    for flags, changed in (
        (("--rerank", "runs/back", "--rerank-weights", "0.4"), "--rerank-weights, input"),
        (("--rerank", "runs/two"), "input, model"),
        ((), "--rerank-weights, input, model"),
    ):
        _, err = nmt(*given, "--resume", *flags, exit_code=2)
        assert err.splitlines()[-1].endswith(f"it was begun with another {changed}")


def test_the_best_weights_are_those_of_eval(runs: Path) -> None:
    """What the table says of a setting is what `nmt eval` then gives on the same set."""
    flags = ("--run", "runs/one", "--rerank", "runs/back", "--rerank", "runs/two")
    out, _ = nmt("tune", "rerank", *flags, "--metric", "chrf", "--try-weights", "0.5,2")
    lines = out.splitlines()
    assert lines[0].split() == ["back", "two", "BLEU", "chrF2"]
    rows = [line.split() for line in lines[1:10]]
    assert [tuple(row[:2]) for row in rows] == list(product(["0", "0.5", "2"], repeat=2))
    [best] = [row for row in rows if row[-1] == "*"]
    assert float(best[3]) == max(float(row[3]) for row in rows)
    hint = lines[-1].removeprefix("at the shell: ").split()
    assert hint[:4] == ["--beam", "4", "--length-penalty", "0.6"]
    given = ("--run", "runs/one", "--src", "en", "--ref", "fr", "--chrf", "--json")
    found, _ = nmt("eval", *hint, *given)
    score = json.loads(found)["scores"]["chrf"]["score"]
    assert score == pytest.approx(float(best[3]), abs=0.006)


def test_where_no_weight_is_better_none_is_recommended(runs: Path) -> None:
    out, _ = nmt(
        "tune", "rerank", "--run", "runs/one", "--rerank", "runs/back", "--try-weights", "0"
    )
    assert out.splitlines()[-1] == "at the shell: --beam 4 --length-penalty 0.6"


def test_a_reranker_has_a_checkpoint_of_its_own(runs: Path) -> None:
    """`--checkpoint` is that of --run; RUN@CHECKPOINT names another one of a reranker."""
    given = ("translate", "--run", "runs/one", "--file", "en", "--scores", "--checkpoint", "1")
    best, last = (nmt(*given, "--rerank", f"runs/back{at}")[0] for at in ("", "@last"))
    assert best == last
    folder = RunDirectory(runs / "runs" / "back").checkpoint_folder
    tensors = {name: 2 * each for name, each in folder.load_weights("best")[1].items()}
    folder.save(2, tensors, {}, {})
    folder.point({"last": 2})
    again, other = (nmt(*given, "--rerank", f"runs/back{at}")[0] for at in ("", "@last"))
    assert again == best
    assert other != best
    _, err = nmt(*given, "--rerank", "runs/back@none", exit_code=2)
    assert "runs/back@none: " in err


@pytest.mark.parametrize(
    ("command", "other", "out"),
    [
        (("translate", "--file", "en"), ("--run", "runs/two"), "runs/two/config.yaml"),
        (("translate", "--file", "en"), ("--rerank", "runs/back@last"), "runs/back/config.yaml"),
        (("eval", "--src", "en", "--ref", "fr"), ("--run", "runs/two"), "runs/two/config.yaml"),
        (("eval", "--src", "en", "--ref", "fr"), ("--rerank", "runs/back"), "runs/back/run.json"),
        (
            ("attention", "--file", "en", "--format", "html"),
            ("--run", "runs/two"),
            "runs/two/config.yaml",
        ),
    ],
)
def test_no_file_of_a_second_run_is_overwritten(
    runs: Path, command: tuple[str, ...], other: tuple[str, ...], out: str
) -> None:
    """Members of an ensemble and rerankers are read as the first run is."""
    (runs / out).touch()
    before = (runs / out).read_bytes()
    _, err = nmt(*command, "--run", "runs/one", *other, "--out", out, exit_code=2)
    assert out in err
    assert (runs / out).read_bytes() == before


def test_json_of_the_grid(runs: Path) -> None:
    flags = ("--run", "runs/one", "--rerank", "runs/back", "--beam", "3", "--json")
    content = json.loads(nmt("tune", "rerank", *flags)[0])
    assert (content["rerank"], content["search"]["beam"]) == (["runs/back"], 3)
    tried = [each["weights"] for each in content["settings"]]
    assert tried == [[0], [0.1], [0.2], [0.3], [0.5], [1]]
    assert content["best"] in content["settings"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("translate", "--rerank", "runs/german", "x"), "it translates en-de; allowed to rerank"),
        (("translate", "--rerank", "runs/none", "x"), "runs/none"),
        (("translate", "--rerank-weights", "1", "x"), "--rerank-weights: it goes with --rerank"),
        (
            ("eval", "--rerank", "runs/two", "--rerank-weights", "1,2"),
            "--rerank-weights: got 1,2, allowed: 1 number between commas, one for each --rerank",
        ),
        (
            ("translate", "--rerank", "runs/two", "--rerank-weights", "-1", "x"),
            "--rerank-weights: got -1, allowed: numbers of at least 0",
        ),
        (
            ("eval", "--src", "en", "--ref", "fr", "--rerank", "runs/two", "--beam", "1"),
            "search.beam: got 1, allowed with rerank",
        ),
        (
            ("eval", "--aer", "fr", "--hyp", "fr", "--rerank-weights", "1"),
            "--rerank-weights does not apply to the score of links",
        ),
        (
            ("translate", "--rerank", "runs/two", "--top-k", "3", "x"),
            "search.sampling: it does not go with reranking",
        ),
        (
            ("translate", "--rerank", "runs/two", "--mbr", "3", "x"),
            "search.mbr: it does not go with reranking",
        ),
        (("eval", "--hyp", "fr", "--rerank", "runs/two"), "--rerank does not apply"),
        (("tune", "rerank"), "--rerank: got none, allowed: at least one run"),
        (
            ("tune", "rerank", "--rerank", "runs/two", "--try-weights", "-1"),
            "--try-weights: got -1",
        ),
        (("tune", "rerank", "--rerank", "runs/two", "--try-weights", "nan"), "numbers of at least"),
        (("tune", "rerank", "--rerank", "runs/two", "--set", "search.mbr.samples=3"), "search.mbr"),
        (
            ("tune", "rerank", *("--rerank", "runs/two") * 5),
            "got 6 for each of 5 runs, allowed: at most 2,000 combinations",
        ),
    ],
)
def test_errors_are_one_line(runs: Path, flags: tuple[str, ...], words: str) -> None:
    _, err = nmt(*flags, "--run", "runs/one", exit_code=2)
    assert words in err.splitlines()[-1]
    assert "Traceback" not in err
