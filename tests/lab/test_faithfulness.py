"""Erasing source pieces: what falls, how weights explain it, and attention made even."""

from pathlib import Path

import numpy as np
import pytest
import torch
from laws.family import MODELS, SRC_VOCAB, TGT_VOCAB
from pydantic import TypeAdapter
from training.toy import toy_config, write_reversal

from nmt.data.batching import pad_ids
from nmt.decoding.forced import force_decode
from nmt.errors import ConfigError, DataError
from nmt.evaluation.attention_health import health_of
from nmt.lab.erasure import Erasure, erase_each, even_log_probs, with_even_attention
from nmt.lab.faithfulness import (
    MOST,
    OTHER_STEP,
    READINGS,
    Explained,
    FaithfulnessOptions,
    FaithfulnessResult,
    draw,
    run,
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


def test_a_fall_is_that_of_the_shorter_source() -> None:
    model, source, target = built("rnn"), (5, 6, 7, 4), (4, 8, 5)
    erasure = erase_each(model, source, target)
    assert erasure.falls.shape == (3, 4)
    for s in range(4):
        rows = [[*source, EOS_ID], [*source[:s], *source[s + 1 :], EOS_ID]]
        whole, without = (
            force_decode(model, pad_ids([row]), torch.tensor([len(row)]), [[*target, EOS_ID]], 0.0)
            for row in rows
        )
        before, after = (np.array(found[0].log_probs[:3]) for found in (whole, without))
        np.testing.assert_allclose(erasure.falls[:, s], before - after, atol=1e-5)
        np.testing.assert_allclose(erasure.log_probs, before, atol=1e-5)


@pytest.mark.parametrize("name", ["rnn", "rnn-multi-head", "rnn-luong", "transformer"])
def test_even_attention_is_even_and_the_model_stays(name: str) -> None:
    model = built(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    even = with_even_attention(model)
    src_ids = pad_ids([[5, 6, 7, EOS_ID], [8, EOS_ID]])
    keep = keep_from_lengths(torch.tensor([4, 2]), 4)
    found = even(src_ids, keep, torch.tensor([[2, 4, 5]] * 2), with_weights=True)
    expected = (keep / keep.sum(dim=1, keepdim=True))[:, None, None, :].expand_as(found.heads)
    torch.testing.assert_close(found.heads, expected)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    own = erase_each(model, (5, 6, 7), (4, 5)).log_probs
    assert not np.allclose(even_log_probs(even, (5, 6, 7), (4, 5)), own)


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
    assert result.correlations()["weights"] == {"kendall": 1, "spearman": 1}
    assert result.correlations()[OTHER_STEP]["kendall"] < 1
    assert result.losses() == {"own weights": 1, "even weights": 2}
    even = FaithfulnessResult("run", (explained(falls, np.full((3, 3), 0.3)),))
    assert even.correlations()["weights"]["kendall"] == 0  # even weights rank nothing


# ---- the experiment


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faithfulness")
    write_reversal(folder, n_train=60, n_test=9)
    train(toy_config(folder, train={"steps": 2}), folder / "run", ["nmt"], quiet=True)
    (folder / "src").write_text("a b c\n")
    (folder / "tgt").write_text("c b a\n")
    (folder / "gold").write_text("2-0 1-1 0-2\n")
    return folder


def test_equal_options_give_equal_files(trained: Path, tmp_path: Path) -> None:
    options = [f"run={trained / 'run'}", "sentences=4"]
    first, second = (perform("faithfulness", options, tmp_path / name) for name in "ab")
    for one, other in zip(first.paths, second.paths, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "Kendall" in "\n".join(first.summary)


def test_gold_links_give_an_error_for_each_reading(trained: Path) -> None:
    names = {"gold": "gold", "gold_source": "src", "gold_target": "tgt"}
    files = {key: trained / name for key, name in names.items()}
    result = run(FaithfulnessOptions(run=trained / "run", sentences=2, **files))
    assert list(result.errors) == [*READINGS, "1 later", "2 later"]
    assert all(0 <= score.aer <= 1 for score in result.errors.values())
    assert "AER" in "\n".join(result.summary())
    assert len(draw(result).axes) == 3
    (trained / "src").write_text("a b c\n\n")
    with pytest.raises(DataError, match=r"gold, gold_source and gold_target differ in lines"):
        run(FaithfulnessOptions(run=trained / "run", sentences=1, **files))
    with pytest.raises(ConfigError, match="go together: give all three or none"):
        run(FaithfulnessOptions(run=trained / "run", gold=trained / "gold"))
