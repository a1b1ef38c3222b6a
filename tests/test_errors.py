"""Counts in words, and the messages that have them."""

import pytest
import torch

from nmt.config import RunConfig, config_of
from nmt.device import describe_device
from nmt.errors import counted, most_similar
from nmt.training.progress import Progress, end_reason


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (1.0, "minute", "1 minute"),
        (0.5, "minute", "0.5 minutes"),
        (12345, "line", "12,345 lines"),
    ],
)
def test_one_is_singular(number: float, noun: str, words: str) -> None:
    assert counted(number, noun) == words


@pytest.mark.parametrize(
    ("name", "near"), [("tow", "two"), ("virdis", "viridis"), ("nope", None), ("x", None)]
)
def test_only_a_near_name_is_suggested(name: str, near: str | None) -> None:
    assert most_similar(name, ["copper", "two", "viridis", "cb", "ui"]) == near


def _config(train: dict[str, object], valid: dict[str, object] | None = None) -> RunConfig:
    said = {"name": "x", "data": {"corpus": "starter"}, "train": train, "valid": valid or {}}
    return config_of(said)


@pytest.mark.parametrize("n", [1, 2])
def test_the_reason_of_an_end_agrees_with_its_number(n: int) -> None:
    done = Progress(step=n, epoch=n, seconds=60.0 * n, bad_validations=n)
    ending = "" if n == 1 else "s"
    for key in ("step", "epoch"):
        assert end_reason(_config({f"{key}s": n}), done) == f"{n} {key}{ending} done"
    are = "is" if n == 1 else "are"
    assert end_reason(_config({"max_minutes": n}), done) == f"{n} minute{ending} {are} over"
    patient = _config({"epochs": 99}, {"patience": n})
    assert end_reason(patient, done) == f"no better BLEU in {n} validation{ending}"


def test_one_thread_is_a_thread() -> None:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert describe_device(torch.device("cpu")) == "cpu (1 thread)"
    finally:
        torch.set_num_threads(n_threads)
