"""Whole runs of seconds: they learn, resume as if unbroken, stop when told, refuse nonsense."""

import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import last_checkpoint, toy_config, write_reversal

from nmt.attention_maps.dump import read_jsonl, read_npz, write_jsonl, write_npz
from nmt.attention_maps.heatmap import write_heatmap
from nmt.attention_maps.record import records
from nmt.cli.app import app
from nmt.config import dump_config, load_config
from nmt.data.readers.tsv import read_tsv
from nmt.device import process_bytes
from nmt.errors import ConfigError, DataError, NMTError
from nmt.inference.translator import Translator
from nmt.optim import losses
from nmt.runs.directory import RunDirectory
from nmt.training import report
from nmt.training.loop import Outcome, train

SMOOTHED = {"kind": "cross_entropy", "smoothing": 0.3}
COMMAND = ["nmt", "train"]
LSTM = {"encoder": {"cell": "lstm"}, "decoder": {"kind": "luong", "cell": "lstm"}}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned to reverse; the corpus lies beside it."""
    folder = tmp_path_factory.mktemp("reversal")
    write_reversal(folder)
    outcome = train(toy_config(folder, train={"epochs": 4}), folder / "run", COMMAND, quiet=True)
    assert outcome.reason == "4 epochs done"
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals."""
    write_reversal(tmp_path, n_train=200, n_test=20)
    return tmp_path


def _train(
    folder: Path, run: str = "run", stop_after: int | None = None, **sections: Any
) -> Outcome:
    sections = {"train": {"epochs": 2}, **sections}
    asked = itertools.count(1)
    interrupted = (lambda: next(asked) > stop_after) if stop_after else (lambda: False)
    return train(toy_config(folder, **sections), folder / run, COMMAND, interrupted, quiet=True)


def _records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["type"] == kind]


def test_reversal_is_learned_to_the_last_unseen_sentence(learned: Path) -> None:
    translator = Translator.load(learned / "run")
    pairs = read_tsv(learned / "test.tsv")
    translations = translator.translate([pair.src_text for pair in pairs])
    assert [t.text for t in translations] == [pair.tgt_text for pair in pairs]


def test_attention_over_a_reversal_is_anti_diagonal(learned: Path) -> None:
    translator = Translator.load(learned / "run")
    for translation in translator.translate(["a b c d e f", "h g f", "c a"]):
        n = len(translation.source.ids)
        weights = translation.hypotheses[0].hypothesis.attention
        assert weights.shape == (n + 1, n + 1)
        assert weights[:n].argmax(axis=1).tolist() == list(range(n - 1, -1, -1))
        assert np.mean([weights[t, n - 1 - t] for t in range(n)]) > 0.8


def test_a_run_leaves_all_that_it_promises(learned: Path) -> None:
    run = learned / "run"
    for name in ("config.yaml", "run.json", "metrics.jsonl", "train.log", "tokenizer"):
        assert (run / name).exists(), name
    card = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert card["command"] == COMMAND
    assert len(card["data"]) == 2
    labels = json.loads((run / "checkpoints" / "labels.json").read_text(encoding="utf-8"))
    assert labels.keys() == {"best", "last"}
    assert not any(path.is_symlink() for path in run.rglob("*"))
    valid = _records(run, "valid")
    assert [record["epoch"] for record in valid] == [1, 2, 3, 4]
    assert valid[-1]["bleu"] == 100.0
    log = (run / "train.log").read_text(encoding="utf-8")
    assert "2,000 for training" in log
    assert "an epoch" in log


def test_the_copied_run_translates_elsewhere(learned: Path, tmp_path: Path) -> None:
    (learned / "run").rename(tmp_path / "moved")
    try:
        assert Translator.load(tmp_path / "moved").translate(["a b c"])[0].text == "c b a"
    finally:
        (tmp_path / "moved").rename(learned / "run")


@pytest.mark.parametrize(("stop_after", "cell"), [(3, "gru"), (7, "gru"), (10, "gru"), (7, "lstm")])
def test_resume_equals_the_unbroken_run(corpus: Path, stop_after: int, cell: str) -> None:
    options: dict[str, Any] = {
        "model": {
            "dropout": 0.3,
            "encoder": {"cell": cell},
            "decoder": {"kind": "bahdanau", "cell": cell},
        },
        "train": {
            "epochs": 2,
            "log_every": 2,
            "schedule": {"kind": "inverse_sqrt", "warmup": 5},
        },
    }
    unbroken = _train(corpus, "whole", **options)
    first = _train(corpus, "parts", stop_after=stop_after, **options)
    assert first.reason is None
    assert 0 < first.step < unbroken.step
    second = _train(corpus, "parts", **options)
    assert (second.step, second.reason) == (unbroken.step, unbroken.reason)
    one, two = (last_checkpoint(corpus / name) for name in ("whole", "parts"))
    for name, tensor in one.model_tensors.items():
        assert torch.equal(tensor, two.model_tensors[name]), name
    assert one.state_tensors.keys() == two.state_tensors.keys()
    for name, tensor in one.state_tensors.items():
        # The type checks of the tests draw from Python's generator; scripts/kill_test.py
        # compares it too.
        if name != "rng.python":
            assert torch.equal(tensor, two.state_tensors[name]), name
    for kind in ("train", "valid"):
        records = [
            [(r["step"], r["epoch"], r["lr"], r["loss"]) for r in _records(corpus / name, kind)]
            for name in ("whole", "parts")
        ]
        assert records[0] == records[1]


def test_a_finished_run_says_so_and_goes_on_with_more_epochs(corpus: Path) -> None:
    done = _train(corpus)
    again = _train(corpus)
    assert (again.step, again.reason) == (done.step, done.reason)
    more = _train(corpus, train={"epochs": 3})
    assert more.step == done.step * 3 // 2
    assert RunDirectory(corpus / "run").load_config().train.epochs == 3


def test_another_configuration_is_refused_on_a_begun_run(corpus: Path) -> None:
    _train(corpus)
    with pytest.raises(ConfigError, match=r"model\.hidden: 32 -> 33.*another `run`"):
        _train(corpus, model={"hidden": 33})


def test_the_same_seed_gives_the_same_weights(corpus: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        _train(corpus, name, train={"steps": 3}, model={"dropout": 0.3}, seed=seed)
    a, b, c = (last_checkpoint(corpus / name).model_tensors for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def test_accumulation_is_exact_in_tokens(corpus: Path) -> None:
    """Two micro-batches of 16 give the gradient of the 32 sentences, whatever their lengths."""
    whole = _train(corpus, "whole", train={"epochs": 1, "batch_size": 200})
    parts = _train(corpus, "parts", train={"epochs": 1, "batch_size": 23, "accumulate": 9})
    assert whole.step == parts.step == 1
    one, two = (last_checkpoint(corpus / name).state_tensors for name in ("whole", "parts"))
    for name, tensor in one.items():
        if name.endswith("exp_avg"):
            torch.testing.assert_close(tensor, two[name], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"epochs": None, "steps": 5}, "5 steps done"),
        ({"epochs": None, "max_minutes": 0.02}, "0.02 minutes are over"),
        ({"epochs": 1, "steps": 500}, "1 epoch done"),
    ],
)
def test_the_first_limit_ends_the_run(corpus: Path, limits: dict[str, Any], words: str) -> None:
    assert _train(corpus, train=limits).reason == words


def test_patience_ends_the_run(corpus: Path) -> None:
    outcome = _train(corpus, train={"epochs": 50, "lr": 1e-9}, valid={"patience": 2, "every": 3})
    assert outcome.reason == "no better BLEU in 2 validations"
    assert outcome.best is not None
    assert outcome.step == outcome.best.step + 2 * 3


def test_best_and_last_are_kept_and_no_more_than_asked(corpus: Path) -> None:
    outcome = _train(corpus, train={"epochs": 6, "keep_last": 1}, valid={"every": 5})
    run = RunDirectory(corpus / "run")
    steps = run.checkpoint_folder.steps()
    assert outcome.best is not None
    assert set(steps) == {outcome.step, outcome.best.step}
    best = max(_records(run.path, "valid"), key=lambda r: (r["bleu"], -r["loss"]))
    assert outcome.best.step == best["step"]


def test_a_loss_that_is_no_number_ends_the_run_with_the_last_checkpoint_intact(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _train(corpus, train={"epochs": 1})
    before = last_checkpoint(corpus / "run")
    real = losses.cross_entropy

    def poisoned(*args: Any) -> Any:
        loss = real(*args)
        return loss._replace(
            loss_sum=loss.loss_sum * float("nan"), nll_sum=loss.nll_sum * torch.nan
        )

    monkeypatch.setattr(losses, "cross_entropy", poisoned)
    with pytest.raises(NMTError, match=r"loss is nan at step 8; earlier checkpoints are intact"):
        _train(corpus, train={"epochs": 2})
    after = last_checkpoint(corpus / "run")
    assert after.step == before.step
    assert all(torch.equal(t, after.model_tensors[n]) for n, t in before.model_tensors.items())


def test_pairs_that_do_not_fit_are_counted_and_said(corpus: Path) -> None:
    path = corpus / "train.tsv"
    path.write_text(path.read_text(encoding="utf-8") + "\ta\n" + "a b\t \n", encoding="utf-8")
    _train(corpus, data={"max_pieces": 5})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert "1 empty source" in log
    assert "1 empty target" in log
    assert "longer than 5 pieces" in log


def test_a_corpus_without_a_fit_pair_is_an_error(corpus: Path) -> None:
    with pytest.raises(DataError, match="none of 200 pairs is fit for training: 200 longer than 1"):
        _train(corpus, data={"max_pieces": 1})


@pytest.mark.parametrize(
    "options",
    [
        {"train": {"epochs": 1, "batch_by": "tokens", "batch_size": 300}},
        {
            "train": {
                "epochs": 1,
                "precision": "bf16",
                "loss": SMOOTHED,
            }
        },
        {"train": {"epochs": 1, "precision": "bf16"}, "model": LSTM},
        {"train": {"epochs": 1, "optimizer": {"kind": "adadelta"}, "lr": 1.0}},
        {"train": {"epochs": 1, "schedule": {"kind": "plateau"}}, "valid": {"every": 2}},
        {"train": {"epochs": 1, "schedule": {"kind": "cosine"}, "clip_norm": None}},
        {"tokenizer": {"kind": "sentencepiece", "vocab_size": 20}},
        {"data": {"valid": None}},
    ],
)
def test_options_train(corpus: Path, options: dict[str, Any]) -> None:
    options = {"train": {"epochs": 1}, **options}
    outcome = _train(corpus, **options)
    assert outcome.reason == "1 epoch done"
    losses = [float(r["loss"]) for r in _records(corpus / "run", "valid")]
    assert all(np.isfinite(losses))
    assert Translator.load(corpus / "run").translate(["a b c"])[0].src_text == "a b c"


def test_an_extra_that_bleu_lacks_is_named_before_a_run_is_made(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    data = toy_config(corpus).data.model_dump(mode="json") | {"tgt_lang": "ja"}
    with pytest.raises(ConfigError, match=r"^valid.bleu_tokenize: .* 'sacrebleu\[ja\]'"):
        _train(corpus, data=data)
    assert not (corpus / "run").exists()
    outcome = _train(corpus, data=data, valid={"bleu_tokenize": "char"})
    assert outcome.best is not None


def test_a_vocabulary_smaller_than_usual_or_without_many_words_is_told(corpus: Path) -> None:
    _train(corpus, tokenizer={"kind": "sentencepiece"}, train={"steps": 1})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert " pieces are all that the en text allows (tokenizer.vocab_size: 8,000 by def" in log
    _train(corpus, "other", tokenizer={"kind": "word", "max_size": 6}, train={"steps": 1})
    log = (corpus / "other" / "train.log").read_text(encoding="utf-8")
    assert "% of the de training text is unknown to it; lower tokenizer.min_freq, or take" in log
    assert "pieces are all" not in log


def test_a_folder_whose_name_is_not_utf8_is_one_like_any_other(corpus: Path) -> None:
    folder = corpus / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    for lang in ("en", "de"):
        (folder / f"x.{lang}").write_text("a b\nb c\n", encoding="utf-8")
    config = toy_config(corpus, train={"steps": 1})
    run = folder / "run"
    train(config, run, ["nmt", str(folder)], quiet=True)
    outcome = train(toy_config(corpus, train={"steps": 2}), run, ["nmt", str(folder)], quiet=True)
    assert outcome.step == 2
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))
    files = ["--src", str(folder / "x.en"), "--ref", str(folder / "x.de")]
    result = CliRunner().invoke(app, ["eval", "--run", str(run), *files])
    assert result.exit_code == 0, result.output
    report = json.loads((run / "eval" / "x.en.json").read_text(encoding="utf-8"))
    assert report["refs"] == [str(folder / "x.de")]


def test_references_that_bleu_alters_are_told(corpus: Path) -> None:
    (corpus / "nfd.tsv").write_text("a b\tb a\na c\te\u0301 a\n", encoding="utf-8")
    data = toy_config(corpus).data.model_dump(mode="json")
    data["valid"] = {"file": str(corpus / "nfd.tsv")}
    _train(corpus, data=data)
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert "references    1 of 2 references are not in Unicode's NFC; both sides are" in log


def test_tensorboard_shows_each_step_once_after_a_resume(corpus: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = {"train": {"epochs": 2, "tensorboard": True, "log_every": 1}}
    _train(corpus, stop_after=4, **options)
    outcome = _train(corpus, **options)
    events = EventAccumulator(str(corpus / "run" / "tensorboard"))
    events.Reload()
    steps = [event.step for event in events.Scalars("train/loss")]
    assert steps == list(range(1, outcome.step + 1))


def test_an_empty_side_in_validation_is_said(corpus: Path) -> None:
    path = corpus / "valid.tsv"
    path.write_text(path.read_text(encoding="utf-8") + "a b\t\n", encoding="utf-8")
    _train(corpus, train={"steps": 1})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert "21 sentences for validation (1 pairs with an empty side" in log


def test_paths_may_be_text_and_the_command_untold(corpus: Path) -> None:
    """From Python, a run is made, loaded and drawn with str paths throughout."""
    (corpus / "toy.yaml").write_text(dump_config(toy_config(corpus, train={"steps": 1})))
    run = str(corpus / "run")
    train(load_config(str(corpus / "toy.yaml")), run, quiet=True)
    assert RunDirectory(Path(run)).read_json("run.json")["command"] == []  # type: ignore[index]
    translator = Translator.load(run, device="cpu", checkpoint="last")
    assert repr(translator) == (
        f"<Translator en-de from {run}, checkpoint last (step 1), on cpu, beam 5>"
    )
    [found] = translator.translate(["a b c"])
    write_heatmap(found, str(corpus / "map.png"))
    write_npz(records(found, 0), str(corpus / "map.npz"))
    write_jsonl(records(found, 0), str(corpus / "map.jsonl"))
    assert (corpus / "map.png").is_file()
    for path, read in (("map.npz", read_npz), ("map.jsonl", read_jsonl)):
        assert [record.sentence for record in read(str(corpus / path))] == [0]


@pytest.mark.skipif(process_bytes("VmHWM") is None, reason="needs Linux' /proc")
def test_time_and_memory_are_said_after_the_first_updates(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_RELEASE_EVERY", 25)
    _train(corpus, train={"steps": 51, "batch_size": 10, "epochs": 10})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    words = (
        r" about [0-9,]+ s an epoch, ([0-9.]+) GiB of memory so far$",
        r" about ([0-9.]+) GiB of memory with the largest batch$",
    )
    (so_far,), (expected,) = (re.findall(pattern, log, re.MULTILINE) for pattern in words)
    assert 0.1 < float(so_far) <= float(expected) < 100
