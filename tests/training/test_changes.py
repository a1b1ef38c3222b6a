"""What may change in a run that goes on; every key of the configuration has its verdict."""

from pathlib import Path
from typing import Any

import pytest
from training.toy import toy_config

from nmt.training.changes import Verdict, config_changes


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"train": {"device": "cuda"}}, {"train.device": Verdict.SAFE}),
        ({"train": {"epochs": 13}}, {"train.epochs": Verdict.SAFE}),
        ({"train": {"save_every": 3, "log_every": 7}}, dict.fromkeys(("log", "save"), "")),
        ({"search": {"beam": 7}}, {"search.beam": Verdict.SAFE}),
        ({"search": {"min_length": 7}}, {"search.min_length": Verdict.ASK}),
        ({"data": {"train": {"file": "moved.tsv"}}}, {"data.train.file": Verdict.SAFE}),
        ({"data": {"test": None}}, {"data.test": Verdict.SAFE}),
        ({"train": {"lr": 1.0}}, {"train.lr": Verdict.ASK}),
        ({"train": {"batch_size": 3}}, {"train.batch_size": Verdict.ASK}),
        ({"model": {"dropout": 0.5}}, {"model.dropout": Verdict.ASK}),
        ({"model": {"src_word_dropout": 0.1}}, {"model.src_word_dropout": Verdict.ASK}),
        ({"model": {"variational_dropout": True}}, {"model.variational_dropout": Verdict.ASK}),
        ({"model": {"layer_norm": True}}, {"model.layer_norm": Verdict.NEVER}),
        ({"valid": {"every": 5}}, {"valid.every": Verdict.ASK}),
        ({"model": {"hidden": 33}}, {"model.hidden": Verdict.NEVER}),
        ({"seed": 2}, {"seed": Verdict.NEVER}),
        ({"data": {"max_pieces": 7}}, {"data.max_pieces": Verdict.NEVER}),
        ({"data": {"valid": None}}, {"data.valid": Verdict.NEVER}),
        ({"tokenizer": {"min_freq": 2}}, {"tokenizer.min_freq": Verdict.NEVER}),
    ],
)
def test_the_verdict_on_a_key(
    tmp_path: Path, sections: dict[str, Any], expected: dict[str, Verdict]
) -> None:
    found = config_changes(toy_config(tmp_path), toy_config(tmp_path, **sections))
    if "log" in expected:
        assert [change.verdict for change in found] == [Verdict.SAFE, Verdict.SAFE]
        assert [str(change) for change in found] == [
            "train.log_every: 50 -> 7",
            "train.save_every: None -> 3",
        ]
    elif "data.valid" in expected:
        assert {change.verdict for change in found} == {Verdict.NEVER}
    else:
        assert {change.key: change.verdict for change in found} == expected


def test_the_pairs_taken_from_a_file_cannot_change(tmp_path: Path) -> None:
    train = {"file": str(tmp_path / "train.tsv"), "first": 7}
    (change,) = config_changes(toy_config(tmp_path), toy_config(tmp_path, data={"train": train}))
    assert (change.key, change.verdict) == ("data.train.first", Verdict.NEVER)


def test_a_cosine_to_another_end_must_be_asked_for(tmp_path: Path) -> None:
    cosine = {"schedule": {"kind": "cosine"}}
    old = toy_config(tmp_path, train={"epochs": 2, **cosine})
    (change,) = config_changes(old, toy_config(tmp_path, train={"epochs": 3, **cosine}))
    assert (change.key, change.verdict) == ("train.epochs", Verdict.ASK)


def test_another_rule_of_updating_cannot_take_over(tmp_path: Path) -> None:
    new = toy_config(tmp_path, train={"optimizer": {"kind": "sgd"}})
    verdicts = {change.key: change.verdict for change in config_changes(toy_config(tmp_path), new)}
    assert verdicts["train.optimizer.kind"] is Verdict.NEVER


def test_nothing_changed(tmp_path: Path) -> None:
    assert config_changes(toy_config(tmp_path), toy_config(tmp_path)) == []
