"""Attention as a table: pieces merged into words, and the choice of heads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError
from nmt.translation.heads import MEAN, Head, choose_heads
from nmt.translation.words import attention_table, merge_words

word_lengths = st.lists(st.integers(1, 4), min_size=1, max_size=7)


@given(word_lengths, word_lengths)
def test_merge_is_the_mean_over_target_of_the_sum_over_source(target, source) -> None:
    weights = np.random.default_rng(1).random((sum(target), sum(source)), dtype=np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    shares = [np.repeat(np.eye(len(n), dtype=np.float32), n, axis=1) for n in (target, source)]
    merged = merge_words(weights, *shares)
    assert merged.dtype == np.float32
    rows, columns = (
        [*itertools.pairwise([0, *itertools.accumulate(lengths)])] for lengths in (target, source)
    )
    expected = [[weights[a:b, c:d].sum(axis=1).mean() for c, d in columns] for a, b in rows]
    np.testing.assert_allclose(merged, expected, atol=1e-6)
    np.testing.assert_allclose(merged.sum(axis=1), 1, atol=1e-6)


def test_a_shared_piece_counts_by_its_share() -> None:
    """A word without pieces has no weight, and takes none."""
    shares = np.array([[1, 0.25, 0], [0, 0.75, 0], [0, 0, 0]], np.float32)
    columns = np.array([[1, 0.5], [0, 0.5]], np.float32)
    weights = np.array([[0.2, 0.8], [1, 0], [0.3, 0.7]], np.float32)
    merged = merge_words(weights, shares, columns)
    first = (np.array([0.6, 0.4]) + 0.25 * np.array([1, 0])) / 1.25
    np.testing.assert_allclose(merged, [first, [1, 0], [0, 0]], atol=1e-6)


def test_table_by_words_keeps_eos_apart(make_translation) -> None:
    rows = [0.5, 0.2, 0.2, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.6, 0.2], [0, 0, 0.1, 0.9]
    translation = make_translation("the cat|s", ["les chat|s"], np.array(rows, np.float32))
    table = attention_table(translation, level="word")
    assert table.columns == ("the", "cats", "</s>")
    assert table.rows == ("les", "chats", "</s>")
    expected = [[0.5, 0.4, 0.1], [0.1, 0.75, 0.15], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(table.weights, expected, atol=1e-7)
    for level, mark in (("piece", "▁"), ("word", "")):  # no row of eos where the bound cut the text
        cut = attention_table(make_translation("the cat", ["les"], finished=False), level=level)
        assert (cut.rows, cut.columns) == ((f"{mark}les",), (f"{mark}the", f"{mark}cat", "</s>"))
        empty = attention_table(make_translation("hi", [""]), level=level)
        assert (empty.rows, empty.weights.shape) == (("</s>",), (1, 2))


NAMES = tuple(f"layer {layer} head {head}" for layer in (1, 2, 10) for head in (1, 2, 3, 4))
WHOLE = {
    "encoder": tuple(f"encoder {name}" for name in NAMES[:8]),
    "decoder": tuple(f"decoder {name}" for name in NAMES),
    "cross": NAMES,
}
RECURRENT = {"cross": ("attention",)}


@pytest.mark.parametrize(
    ("wanted", "attention", "expected"),
    [
        ("1", "cross", [0]),
        ("3,12", "cross", [2, 11]),
        ("Layer  2 HEAD 3", "cross", [6]),
        ("layer 1", "cross", range(4)),  # and not layer 10
        ("layer 10", "cross", range(8, 12)),
        ("head 2", "cross", [1, 5, 9]),
        ("layer 1 head 2 , 1, 2", "cross", [1, 0]),
        ("cross", "cross", range(12)),
        ("Encoder.2", "encoder", range(4, 8)),
        ("encoder layer 2", "encoder", range(4, 8)),
        ("encoder.1.2, encoder.1.1", "encoder", [1, 0]),
        ("decoder 10.3", "decoder", [10]),
    ],
)
def test_a_part_selects_heads_of_one_attention(wanted: str, attention: str, expected) -> None:
    heads = choose_heads(wanted, WHOLE)
    names = WHOLE[attention]
    assert list(heads) == [Head(names[index], index, attention) for index in expected]


def test_all_is_every_head_and_the_mean_is_named() -> None:
    heads = choose_heads("all,mean", WHOLE)
    expected = [name for names in WHOLE.values() for name in names]
    assert [head.name for head in heads] == [*expected, "mean"]
    assert choose_heads("mean,cross,mean", RECURRENT) == (MEAN, Head("attention", 0))
    # A whole name is not taken for a part of longer ones.
    names = {"cross": ("a b", "a", "b a")}
    assert [head.index for head in choose_heads("a", names)] == [1]
    assert [head.index for head in choose_heads("b", names)] == [0, 2]


@pytest.mark.parametrize("wanted", ["0", "13", "lay", "1,,2", "head 2 layer", "encoder.1.1.1"])
def test_a_part_that_means_nothing_is_refused(wanted: str) -> None:
    wrong = "" if wanted == "1,,2" else wanted
    with pytest.raises(ConfigError, match=f"^`heads`: got '{wrong}', allowed: .*1 to 12"):
        choose_heads(wanted, WHOLE)
    with pytest.raises(ConfigError, match=f"got '{wrong}', .*'attention'"):
        choose_heads(wanted, RECURRENT)
