import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.heads import Head
from nmt.translation.words import attention_table, merge_words

Spans = tuple[tuple[int, int], ...]

word_lengths = st.lists(st.integers(1, 4), min_size=1, max_size=7)


def spans_of(lengths: list[int]) -> Spans:
    ends = np.cumsum([0, *lengths]).tolist()
    return tuple(itertools.pairwise(ends))


def shares_of(lengths: list[int]) -> np.ndarray:
    return np.repeat(np.eye(len(lengths), dtype=np.float32), lengths, axis=1)


def random_rows(n_target: int, n_source: int) -> np.ndarray:
    weights = np.random.default_rng(n_target * 100 + n_source).random((n_target, n_source))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@given(word_lengths, word_lengths)
def test_merge_is_the_mean_over_target_of_the_sum_over_source(
    target: list[int], source: list[int]
) -> None:
    weights = random_rows(sum(target), sum(source))
    merged = merge_words(weights, shares_of(target), shares_of(source))
    assert merged.dtype == np.float32
    expected = [
        [weights[top:bottom, left:right].sum(axis=1).mean() for left, right in spans_of(source)]
        for top, bottom in spans_of(target)
    ]
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
    weights = np.array(
        [
            [0.5, 0.2, 0.2, 0.1],
            [0.1, 0.5, 0.3, 0.1],
            [0.1, 0.1, 0.6, 0.2],
            [0.0, 0.0, 0.1, 0.9],
        ],
        dtype=np.float32,
    )
    translation = make_translation("the cat|s", ["les chat|s"], weights)
    table = attention_table(translation, level="word")
    assert table.columns == ("the", "cats", "</s>")
    assert table.rows == ("les", "chats", "</s>")
    expected = [[0.5, 0.4, 0.1], [0.1, 0.75, 0.15], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(table.weights, expected, atol=1e-7)


@pytest.mark.parametrize("level", ["piece", "word"])
def test_eos_has_a_row_unless_the_bound_cut_the_text(level, make_translation) -> None:
    cut = attention_table(make_translation("the cat", ["les"], finished=False), level=level)
    assert [row.strip("▁") for row in cut.rows] == ["les"]
    assert [column.strip("▁") for column in cut.columns] == ["the", "cat", "</s>"]
    empty = attention_table(make_translation("hi", [""]), level=level)
    assert (empty.rows, empty.weights.shape) == (("</s>",), (1, 2))


@pytest.mark.parametrize("level", ["piece", "word"])
def test_the_mean_of_the_heads_tables_is_the_table(level, make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s"], n_heads=3)
    heads = [Head(f"head {i}", i) for i in range(3)]
    tables = [attention_table(translation, level=level, head=head).weights for head in heads]
    mean = attention_table(translation, level=level).weights
    np.testing.assert_allclose(np.mean(tables, axis=0), mean, atol=1e-6)
    assert not np.allclose(tables[0], tables[1])
