"""Erased source pieces: what falls, how weights explain it; even attention; rank correlations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.family import MODELS, SRC_VOCAB, TGT_VOCAB
from pydantic import TypeAdapter
from training.toy import toy_config, write_reversal

from nmt.attention_maps.health import health_of
from nmt.data.batching import pad_ids
from nmt.decoding.forced import force_decode
from nmt.lab.erasure import Erasure, erase_each, even_log_probs, with_even_attention
from nmt.lab.faithfulness import (
    MOST,
    OTHER_STEP,
    READINGS,
    Explained,
    FaithfulnessResult,
    kendall,
)
from nmt.lab.perform import perform
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import EOS_ID
from nmt.training.loop import train


def built(name: str) -> Seq2Seq:
    torch.manual_seed(2)
    config = TypeAdapter[ModelConfig](ModelConfig).validate_python(MODELS[name])
    return build_model(config, SRC_VOCAB, TGT_VOCAB).eval()


def log_probs(model: Seq2Seq, source: list[int], target: tuple[int, ...]) -> np.ndarray:
    lengths = torch.tensor([len(source)])
    [forced] = force_decode(model, pad_ids([source]), lengths, [[*target, EOS_ID]], 0.0)
    return np.array(forced.log_probs[: len(target)])


def test_a_fall_is_that_of_the_shorter_source() -> None:
    model, source, target = built("rnn"), (5, 6, 7, 4), (4, 8, 5)
    erasure = erase_each(model, source, target)
    assert erasure.falls.shape == (3, 4)
    before = log_probs(model, [*source, EOS_ID], target)
    np.testing.assert_allclose(erasure.log_probs, before, atol=1e-5)
    for s in range(4):
        after = log_probs(model, [*source[:s], *source[s + 1 :], EOS_ID], target)
        np.testing.assert_allclose(erasure.falls[:, s], before - after, atol=1e-5)


@pytest.mark.parametrize("name", ["rnn", "rnn-multi-head", "rnn-luong", "transformer"])
def test_even_attention_is_even_and_the_model_stays(name: str) -> None:
    model = built(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    even = with_even_attention(model)
    src_ids, keep = (
        pad_ids([[5, 6, 7, EOS_ID], [8, EOS_ID]]),
        keep_from_lengths(torch.tensor([4, 2]), 4),
    )
    heads = even(src_ids, keep, torch.tensor([[2, 4, 5]] * 2), with_weights=True).heads
    torch.testing.assert_close(
        heads, (keep / keep.sum(dim=1, keepdim=True))[:, None, None, :].expand_as(heads)
    )
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    uneven = erase_each(model, (5, 6, 7), (4, 5)).log_probs
    assert not np.allclose(even_log_probs(even, (5, 6, 7), (4, 5)), uneven)


def explained(falls: np.ndarray, weights: np.ndarray) -> Explained:
    with_eos = np.concatenate([weights, np.full((len(weights), 1), 0.1)], axis=1).astype(np.float32)
    readings = {**dict.fromkeys(READINGS, with_eos), OTHER_STEP: np.roll(with_eos, 1, axis=0)}
    log_probs = np.full(len(falls), -1, np.float32)
    return Explained(Erasure(log_probs, falls), health_of(with_eos), readings, 2 * log_probs)


def test_weights_that_are_the_falls_explain_all() -> None:
    falls = np.array([[3, 1, 0], [0, 2, 1], [1, 0, 5]], np.float32)
    result = FaithfulnessResult("run", (explained(falls, falls / 9),))
    assert result.falls()["the top of weights"] == result.falls()[MOST]
    assert result.falls()["any piece"] == pytest.approx(13 / 9)
    assert result.correlations()["weights"] == {"kendall": 1}
    assert result.correlations()[OTHER_STEP]["kendall"] < 1
    assert result.losses() == {"own weights": 1, "even weights": 2}
    even = FaithfulnessResult("run", (explained(falls, np.full((3, 3), 0.3)),))
    assert even.correlations()["weights"]["kendall"] == 0  # even weights rank nothing


def test_a_trained_run_gives_equal_numbers(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=60, n_test=9)
    train(toy_config(tmp_path, train={"steps": 2}), tmp_path / "run", ["nmt"], quiet=True)
    options = [f"run={tmp_path / 'run'}", "sentences=4"]
    first, second = (perform("faithfulness", options, tmp_path / name) for name in "ab")
    assert first.json == second.json


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=8)


@settings(max_examples=30, deadline=None)
@given(PAIRS)
def test_kendalls_tau_has_its_limits_and_signs(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, float).T
    tau = kendall(x, y)
    if tau is None:
        assert len(set(x)) == 1 or len(set(y)) == 1
        return
    assert -1 - 1e-9 <= tau <= 1 + 1e-9
    assert kendall(x, x) == pytest.approx(1)
    assert kendall(-x, y) == pytest.approx(-tau)
    assert kendall(np.exp(x), y) == pytest.approx(tau)  # ranks alone count
    assert kendall(y, x) == pytest.approx(tau)


def test_kendalls_tau_of_known_ranks_with_and_without_ties() -> None:
    assert kendall(np.arange(5.0), np.array([2.0, 0, 1, 4, 3])) == pytest.approx((7 - 3) / 10)
    tied = kendall(np.array([1.0, 1, 2]), np.array([1.0, 2, 3]))
    assert tied == pytest.approx(2 / np.sqrt(2 * 3))
