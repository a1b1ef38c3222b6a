"""A run that was begun goes on with what it was begun with, or is refused in a line."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training.toy import last_checkpoint, toy_config, write_reversal

from nmt.config import dump_config
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.checkpointing import Checkpointer
from nmt.training.loop import Outcome, train
from nmt.types import SentencePair

SMOOTHED = {"kind": "cross_entropy", "smoothing": 0.3}
WALL_CLOCK = {"seconds", "tokens_per_second"}
"""What of metrics.jsonl a run and its resumed twin do not share."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals."""
    write_reversal(tmp_path, n_train=100, n_test=10)
    return tmp_path


def _train(
    folder: Path, stop_after: int | None = None, allow_change: bool = False, **sections: Any
) -> Outcome:
    sections = {"train": {"epochs": 2}, **sections}
    asked = itertools.count(1)
    interrupted = (lambda: next(asked) > stop_after) if stop_after else (lambda: False)
    config = toy_config(folder, **sections)
    run = folder / "run"
    return train(config, run, ["nmt", "train"], interrupted, quiet=True, allow_change=allow_change)


def test_another_corpus_is_refused_on_a_begun_run(corpus: Path) -> None:
    """With fewer batches than were done of the epoch, it would have gone on for ever."""
    _train(corpus, stop_after=3)
    path = corpus / "train.tsv"
    path.write_text("a b\tb a\n" * 40, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{path}: changed since .*run was begun; bring the file"):
        _train(corpus)


def test_the_same_corpus_may_lie_elsewhere(corpus: Path) -> None:
    _train(corpus, stop_after=3)
    card = corpus / "run" / "run.json"
    text = card.read_text(encoding="utf-8").replace("train.tsv", "moved.tsv")
    card.write_text(text, encoding="utf-8")
    assert _train(corpus).reason == "2 epochs done"


@pytest.mark.parametrize(
    "options",
    [
        {
            "attention": {
                "kind": "additive",
                "dropout": 0.3,
                "gate": True,
                "doubly_stochastic": 0.5,
            }
        },
        {"attention": {"kind": "additive", "weights": {"kind": "hard"}}},
        {"state_dropout": 0.2, "variational_dropout": True, "src_word_dropout": 0.3},
        {"tgt_word_dropout": 0.3, "layer_norm": True, "readout_dropout": 0.4},
    ],
)
def test_what_a_model_draws_goes_on_bit_for_bit(corpus: Path, options: dict[str, Any]) -> None:
    model = {"embedding": 8, "hidden": 8, **options}
    _train(corpus, stop_after=3, model=model)
    _train(corpus, model=model)
    (corpus / "run").rename(corpus / "resumed")
    _train(corpus, model=model)
    resumed, unbroken = (
        sorted((corpus / name).rglob("model.safetensors")) for name in ("resumed", "run")
    )
    assert len(resumed) == len(unbroken) >= 2
    for one, other in zip(resumed, unbroken, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_noise_and_sampled_pieces_go_on_bit_for_bit(corpus: Path, model_type: str) -> None:
    sections: dict[str, Any] = {
        "model": {"embedding": 8, "hidden": 8},
        "tokenizer": {"kind": "sentencepiece", "model_type": model_type, "case": "markup"},
        "data": {
            "noise": {"upper": 0.3, "slip": 0.5, "punctuation": 0.5},
            "sampling": {"src": 0.5, "tgt": 0.5},
        },
    }
    _train(corpus, stop_after=5, **sections)
    _train(corpus, **sections)
    (corpus / "run").rename(corpus / "resumed")
    _train(corpus, **sections)
    resumed, unbroken = (last_checkpoint(corpus / name) for name in ("resumed", "run"))
    assert resumed.step == unbroken.step == 8
    for name, weight in unbroken.model_tensors.items():
        assert torch.equal(weight, resumed.model_tensors[name])


def test_groups_of_parameters_go_on_bit_for_bit(corpus: Path) -> None:
    """AdamW has one group that decays and one that does not."""
    optimizer = {"kind": "adamw", "weight_decay": 0.5}
    freeze = ["encoder.embedding.weight", "encoder.rnn.bias*"]
    sections: dict[str, Any] = {
        "model": {"embedding": 8, "hidden": 8},
        "train": {"epochs": 2, "optimizer": optimizer, "freeze": freeze},
    }
    _train(corpus, stop_after=3, **sections)
    _train(corpus, **sections)
    (corpus / "run").rename(corpus / "resumed")
    _train(corpus, **sections)
    resumed, unbroken = (last_checkpoint(corpus / name) for name in ("resumed", "run"))
    assert len(unbroken.state["param_groups"]) == 2  # type: ignore[arg-type]
    for one, other in (
        (resumed.model_tensors, unbroken.model_tensors),
        (resumed.state_tensors, unbroken.state_tensors),
    ):
        assert one.keys() == other.keys()
        unequal = {name for name in one if not torch.equal(one[name], other[name])}
        assert unequal <= {"rng.python"}  # the type checks of the tests draw from it


@pytest.mark.parametrize("text", ["{}", '{"data": [1]}', "[]"])
def test_a_damaged_card_is_said(corpus: Path, text: str) -> None:
    _train(corpus, stop_after=3)
    (corpus / "run" / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"run\.json: damaged: it lacks data\.sha256"):
        _train(corpus)


def test_the_corpus_of_the_config_may_move(corpus: Path) -> None:
    _train(corpus, stop_after=3)
    (corpus / "train.tsv").rename(corpus / "moved.tsv")
    assert _train(corpus, data={"train": {"file": str(corpus / "moved.tsv")}}).step == 8
    config = RunDirectory(corpus / "run").load_config()
    assert config.data.train is not None
    assert config.data.train.file == corpus / "moved.tsv"


def test_every_change_is_shown_with_what_it_means(corpus: Path) -> None:
    _train(corpus, stop_after=3)
    with pytest.raises(ConfigError) as caught:
        _train(corpus, train={"epochs": 3, "lr": 0.001}, model={"hidden": 33}, allow_change=True)
    assert str(caught.value).split("\n") == [
        f"{corpus / 'run'}: this run was begun with another configuration:",
        "  model.hidden: 32 -> 33 (cannot change: use another `run`, or the old value)",
        "  train.epochs: 2 -> 3 (may change)",
        "  train.lr: 0.005 -> 0.001 (needs `allow_change`: from here on it is neither the one run "
        "nor the other)",
    ]


CHANGES: list[dict[str, Any]] = [
    {"lr": 0.5, "optimizer": {"kind": "sgd", "momentum": 0.9}},
    {"lr": 0.5, "optimizer": {"kind": "sgd"}, "schedule": {"kind": "inverse_sqrt", "warmup": 3}},
    {"lr": 0.5, "optimizer": {"kind": "sgd"}, "schedule": {"kind": "cosine", "floor": 0.5}},
    {"lr": 0.5, "optimizer": {"kind": "sgd"}, "schedule": {"kind": "plateau", "patience": 0}},
    {
        "lr": 0.5,
        "optimizer": {"kind": "sgd"},
        "clip_norm": None,
        "loss": SMOOTHED,
    },
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_asked_for_holds_from_the_next_update(corpus: Path, change: dict[str, Any]) -> None:
    """The learning rate of each update is that of the new config, settings in the state or not."""
    schedule = {**change.get("schedule", {})}
    kind = {"schedule": {"kind": schedule["kind"]}} if schedule else {}
    old = {"epochs": 2, "log_every": 1, "lr": 0.25, "optimizer": {"kind": "sgd"}, **kind}
    _train(corpus, stop_after=3, train=old)
    outcome = _train(corpus, allow_change=True, train={**old, **change})
    assert outcome.reason == "2 epochs done"
    whole = {**old, **change}
    (corpus / "run").rename(corpus / "resumed")
    _train(corpus, train=whole)
    rates = [
        [r["lr"] for r in _records(corpus / name) if r["type"] == "train"][3:]
        for name in ("resumed", "run")
    ]
    assert rates[0] == rates[1]
    assert "changed       train.lr: 0.25 -> 0.5" in (corpus / "resumed/train.log").read_text()


def _records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_resumed_run_says_which_records_are_missing(corpus: Path) -> None:
    settings = {"epochs": 2, "log_every": 1}
    _train(corpus, stop_after=3, train=settings)
    path = corpus / "run" / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 3
    path.write_text(lines[0], encoding="utf-8")
    _train(corpus, train=settings)
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert f"{path}: 2 of 3 records are missing or damaged\n" in log
    assert log.count("missing or damaged") == 1


def test_a_run_that_failed_before_its_first_checkpoint_may_be_mended(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        _train(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 9999})
    outcome = _train(corpus, tokenizer={"kind": "sentencepiece", "vocab_size": 20})
    assert outcome.reason == "2 epochs done"
    assert RunDirectory(corpus / "run").load_config().tokenizer.vocab_size == 20


def test_a_run_without_a_checkpoint_is_logged_anew(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Checkpointer) -> None:
        raise NMTError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "save", killed)
        with pytest.raises(NMTError, match="killed"):
            _train(corpus, train={"epochs": 2, "log_every": 1})
    _train(corpus, train={"epochs": 2, "log_every": 1, "lr": 0.001})
    lines = (corpus / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_config_of_the_users_own_is_not_written_over(corpus: Path) -> None:
    config = toy_config(corpus, train={"epochs": 2})
    own = corpus / "run" / "config.yaml"
    own.parent.mkdir()
    text = f"# mine\n{dump_config(config)}"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"config\.yaml: no run wrote this config, and it differs"
    ):
        _train(corpus, train={"epochs": 2, "lr": 1.0})
    assert _train(corpus).reason == "2 epochs done"
    assert own.read_text(encoding="utf-8") == text


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"thesis.tex": "x"}, "not a run, and not empty: it holds 'thesis.tex'; name another"),
        ({"a": "x", "b": "y"}, "it holds 'a' and 1 more; name another `run`"),
        ({".tmp-draft": "x"}, "it holds '.tmp-draft'; name another `run`"),
        ({"run.json": '{"name": "an experiment"}'}, "run.json is not nmt's; name another `run`"),
        ({"run.json": "{"}, "run.json is not nmt's; name another `run`"),
        ({"run.json": "{}", "config.yaml": None}, "run.json is not nmt's; name another `run`"),
        ({"config.yaml": None, ".tmp-draft": "x"}, "it holds '.tmp-draft'; name another `run`"),
        ({"checkpoints/.tmp-mine": "x"}, "it holds 'checkpoints'; name another `run`"),
    ],
)
def test_a_folder_that_is_no_run_is_left_as_it_is(
    corpus: Path, files: dict[str, str | None], said: str
) -> None:
    config = dump_config(toy_config(corpus, train={"epochs": 2}))
    for name, text in files.items():
        path = corpus / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config if text is None else text, encoding="utf-8")
    before = _tree(corpus)
    with pytest.raises(CheckpointError) as caught:
        _train(corpus)
    assert str(caught.value).startswith(f"{corpus / 'run'}: not a run")
    assert said in str(caught.value)
    assert _tree(corpus) == before


@pytest.mark.parametrize(
    "names", [[], ["run.lock"], ["run.lock", ".tmp-run.json"], ["run.lock", ".tmp-config.yaml"]]
)
def test_what_a_killed_start_left_becomes_a_run(corpus: Path, names: list[str]) -> None:
    (corpus / "run").mkdir()
    for name in names:
        (corpus / "run" / name).write_text("{")
    assert _train(corpus).reason == "2 epochs done"
    assert not list((corpus / "run").glob(".tmp-*"))


def test_labels_that_a_killed_save_did_not_set_are_set(corpus: Path) -> None:
    outcome = _train(corpus, train={"epochs": 1})
    checkpoints = RunDirectory(corpus / "run").checkpoint_folder
    (checkpoints.path / "labels.json").unlink()
    assert _train(corpus, train={"epochs": 1}).step == outcome.step
    assert outcome.best is not None
    assert checkpoints.labels() == {"best": outcome.best.step, "last": outcome.step}
    assert checkpoints.load_weights("best")[0] == outcome.best.step


@pytest.mark.parametrize(
    ("config", "lang", "words"),
    [
        (WordConfig(min_freq=2), "de", r"another tokenizer\.min_freq \(2, .* 1\);"),
        (WordConfig(min_freq=1), "fr", r"another data\.tgt_lang \(fr, .* de\);"),
    ],
)
def test_vocabularies_of_another_config_are_refused(
    corpus: Path, config: WordConfig, lang: str, words: str
) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    train_tokenizers(config, pairs, "en", lang, 1).save(corpus / "run" / "tokenizer")
    with pytest.raises(ConfigError, match=words):
        _train(corpus)


def test_vocabularies_that_fit_are_taken(corpus: Path) -> None:
    pairs = [SentencePair("a b", "b a")] * 2
    made = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "de", 1)
    made.save(corpus / "run" / "tokenizer")
    _train(corpus, train={"steps": 1})
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert f"vocabulary    {len(made.src.vocab)} en" in log


def test_validation_takes_several_references(corpus: Path) -> None:
    for name, text in (("src", "a b\nb c\n"), ("one", "b a\nc b\n"), ("two", "b a\nc c\n")):
        (corpus / name).write_text(text, encoding="utf-8")
    valid = {"src": str(corpus / "src"), "tgt": [str(corpus / "one"), str(corpus / "two")]}
    outcome = _train(corpus, data={"valid": valid})
    assert outcome.best is not None


@pytest.mark.parametrize(
    ("sections", "what"),
    [
        ({"valid": {"patience": 2}}, r"valid\.patience"),
        ({"train": {"epochs": 1, "schedule": {"kind": "plateau"}}}, r"train\.schedule\.kind"),
    ],
)
def test_what_waits_for_validations_needs_a_set(
    corpus: Path, sections: dict[str, Any], what: str
) -> None:
    entry = "mine: {src_lang: en, tgt_lang: de, splits: {train: {file: train.tsv}}}\n"
    (corpus / "catalog.yaml").write_text(entry, encoding="utf-8")
    (corpus / "mine").mkdir()
    (corpus / "train.tsv").rename(corpus / "mine" / "train.tsv")
    data = {"corpus": "mine", "folder": str(corpus), "train": None, "valid": None, "test": None}
    with pytest.raises(ConfigError, match=rf"{what}.*corpus 'mine' has no split valid"):
        _train(corpus, data=data, **sections)


@pytest.mark.parametrize("stop_at", [1, 4, 5, 7, 9, 14, 20, 33])
def test_a_validation_that_is_stopped_is_done_again_as_if_for_the_first_time(
    corpus: Path, stop_at: int
) -> None:
    """Wherever the question comes, in a validation or between updates."""
    sections: dict[str, Any] = {
        "train": {"epochs": 2, "log_every": 1, "schedule": {"kind": "plateau", "patience": 0}},
        "valid": {"every": 3},
        "search": {"batch_size": 3},
    }
    if not (corpus / "whole").exists():
        _train(corpus, **sections)
        (corpus / "run").rename(corpus / "whole")
    outcome = _train(corpus, stop_after=stop_at, **sections)
    if outcome.reason is None:
        assert _train(corpus, stop_after=stop_at // 2 or None, **sections).step <= 8
        outcome = _train(corpus, **sections)
    assert outcome.reason == "2 epochs done"
    _assert_same(corpus / "whole", corpus / "run")


def _timeless(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in r.items() if k not in WALL_CLOCK} for r in _records(run)]


def _assert_same(whole: Path, parts: Path) -> None:
    """The log, the list of checkpoints, and all that is in each."""
    assert _timeless(whole) == _timeless(parts)
    folders = [RunDirectory(run).checkpoint_folder for run in (whole, parts)]
    assert folders[0].steps() == folders[1].steps()
    for label in (*folders[0].labels(), *map(str, folders[0].steps())):
        a, b = (folder.load(label) for folder in folders)
        assert a.step == b.step
        for kind in ("model_tensors", "state_tensors"):
            tensors, others = getattr(a, kind), getattr(b, kind)
            assert tensors.keys() == others.keys()
            names = tensors.keys() - {"rng.python"}  # the tests' type checks draw from it
            assert all(torch.equal(tensors[name], others[name]) for name in names)
        for state in (a.state, b.state):
            assert isinstance(state["progress"], dict)
            state["progress"].pop("seconds")
            assert isinstance(state["rng"], dict)
            state["rng"].pop("python_gauss")
        assert a.state == b.state


@pytest.mark.parametrize("valid", [{}, {"every": 4}])
def test_a_finished_run_that_goes_on_is_the_longer_run(corpus: Path, valid: dict[str, int]) -> None:
    """Where its end was a validation of the longer run too."""
    sections = {"valid": {**valid, "patience": 9}}
    _train(corpus, train={"epochs": 3}, **sections)
    (corpus / "run").rename(corpus / "whole")
    assert _train(corpus, train={"epochs": 1}, **sections).reason == "1 epoch done"
    _train(corpus, train={"epochs": 3}, **sections)
    _assert_same(corpus / "whole", corpus / "run")


def test_a_run_that_ended_between_two_validations_has_measured_once_more(corpus: Path) -> None:
    """The weights are those of the longer run; its log and its best step need not be."""
    sections = {"valid": {"every": 3}}
    _train(corpus, train={"steps": 7}, **sections)
    (corpus / "run").rename(corpus / "whole")
    _train(corpus, train={"steps": 4}, **sections)
    _train(corpus, train={"steps": 7}, **sections)
    whole, parts = corpus / "whole", corpus / "run"
    one, two = (last_checkpoint(run).model_tensors for run in (whole, parts))
    assert all(torch.equal(one[name], two[name]) for name in one)
    more = [r["step"] for r in _timeless(parts) if r not in _timeless(whole)]
    assert more == [4]


def test_the_newest_checkpoint_damaged_the_one_before_goes_on(corpus: Path) -> None:
    sections = {"train": {"epochs": 3, "log_every": 1, "lr": 1e-9}}
    _train(corpus, **sections)
    (corpus / "run").rename(corpus / "whole")
    _train(corpus, **{**sections, "train": {**sections["train"], "epochs": 2}})
    path = corpus / "run" / "checkpoints" / "step-000008" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    outcome = _train(corpus, **sections)
    assert outcome.step == 12
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert "step-000008/model.safetensors: damaged: not a safetensors file" in log
    assert "set aside as damaged-step-000008, going on from step 4" in log
    one, two = (RunDirectory(corpus / name).checkpoint_folder for name in ("whole", "run"))
    assert one.steps() == two.steps()
    assert all(
        torch.equal(tensor, two.load("last").model_tensors[name])
        for name, tensor in one.load("last").model_tensors.items()
    )


def test_a_best_checkpoint_that_is_gone_is_said(corpus: Path) -> None:
    sections: dict[str, Any] = {"train": {"epochs": 3, "lr": 1e-9}}
    outcome = _train(corpus, **sections)
    assert outcome.best is not None
    folder = RunDirectory(corpus / "run").checkpoint_folder
    if outcome.best.step == outcome.step:
        pytest.skip("the last one is the best")
    folder.set_aside(outcome.best.step)
    _train(corpus, **sections)
    log = (corpus / "run" / "train.log").read_text(encoding="utf-8")
    assert f"the best checkpoint, of step {outcome.best.step}, is gone" in log
    assert folder.labels() == {"last": outcome.step}


def test_the_second_process_on_a_run_is_refused(corpus: Path) -> None:
    with (
        run_lock(corpus / "run"),
        pytest.raises(CheckpointError, match=r"is training in this run; wait for it, stop it"),
    ):
        _train(corpus)
    assert _train(corpus).reason == "2 epochs done"
