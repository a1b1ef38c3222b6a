"""Dropout with one mask for all steps, and of whole pieces."""

import pytest
import torch

from nmt.models.dropout import Dropout, drop_words
from nmt.models.vocabulary import PieceEmbedding
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID


@pytest.mark.parametrize("steps_dim", [0, 1])
def test_a_variational_mask_is_that_of_a_sentence(steps_dim: int) -> None:
    torch.manual_seed(0)
    y = Dropout(0.3, variational=True)(torch.ones(31, 31, 37), steps_dim)
    is_kept = y != 0
    torch.testing.assert_close(y[is_kept], torch.full_like(y[is_kept], 1 / 0.7))
    one = is_kept.select(steps_dim, 0)
    assert (is_kept == one.unsqueeze(steps_dim)).all(), "the same units at all steps"
    assert not (one[0] == one[1]).all(), "others in another sentence"
    assert is_kept.float().mean().item() == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("variational", [True, False])
def test_masks_of_steps_are_one_or_one_each(variational: bool) -> None:
    """In evaluation, and where nothing is dropped, nothing is drawn."""
    torch.manual_seed(0)
    x, dropout = torch.ones(11, 13), Dropout(0.5, variational)
    drop = dropout.over_steps(x)
    assert torch.equal(drop(x), drop(x)) == variational
    state = torch.get_rng_state()
    assert dropout.eval()(x, 1) is x
    assert Dropout(0.0, variational)(x, 1) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_without_variational_masks_it_is_torchs() -> None:
    x, results = torch.randn(3, 5, 7), []
    for dropout in (Dropout(0.5), torch.nn.Dropout(0.5)):
        torch.manual_seed(1)
        results.append(dropout(x))
    assert torch.equal(*results)


def test_a_word_is_dropped_whole_and_markers_never() -> None:
    torch.manual_seed(0)
    ids = torch.randint(UNK_ID, 29, (101, 53))
    ids[:, 0], ids[:, -1] = BOS_ID, PAD_ID
    y = drop_words(torch.ones(*ids.shape, 3), ids, 0.2)
    assert (y == y[..., :1]).all()
    fixed = (ids == BOS_ID) | (ids == PAD_ID) | (ids == EOS_ID)
    assert (y[fixed] == 1).all()
    words = y[~fixed][:, 0]
    assert set(words.tolist()) == {0.0, 1.25}
    assert (words == 0).float().mean().item() == pytest.approx(0.2, abs=0.02)


def test_a_table_drops_words_in_training_only() -> None:
    torch.manual_seed(0)
    table, ids = PieceEmbedding(29, 5, word_dropout=0.5), torch.randint(4, 29, (7, 11))
    rows = table.weight[ids]
    assert torch.equal(table.eval()(ids), rows)
    y = table.train()(ids)
    dropped = (y == 0).all(-1)
    assert dropped.any()
    torch.testing.assert_close(y[~dropped], 2 * rows[~dropped])
