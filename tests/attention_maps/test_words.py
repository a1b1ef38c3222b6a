import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.attention_maps.heads import Head
from nmt.attention_maps.words import attention_table, merge_words

Spans = tuple[tuple[int, int], ...]


def spans_of(lengths: list[int]) -> Spans:
    ends = np.cumsum([0, *lengths]).tolist()
    return tuple(itertools.pairwise(ends))


word_lengths = st.lists(st.integers(1, 4), min_size=1, max_size=7)


def random_rows(n_target: int, n_source: int) -> np.ndarray:
    weights = np.random.default_rng(n_target * 100 + n_source).random((n_target, n_source))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@given(word_lengths, word_lengths)
def test_merged_rows_still_sum_to_one(target: list[int], source: list[int]) -> None:
    merged = merge_words(random_rows(sum(target), sum(source)), spans_of(target), spans_of(source))
    assert merged.shape == (len(target), len(source))
    assert merged.dtype == np.float32
    np.testing.assert_allclose(merged.sum(axis=1), 1, atol=1e-6)


@given(word_lengths, word_lengths)
def test_merge_is_the_mean_over_target_of_the_sum_over_source(
    target: list[int], source: list[int]
) -> None:
    weights = random_rows(sum(target), sum(source))
    merged = merge_words(weights, spans_of(target), spans_of(source))
    for row, (top, bottom) in enumerate(spans_of(target)):
        for column, (left, right) in enumerate(spans_of(source)):
            block = weights[top:bottom, left:right]
            assert merged[row, column] == pytest.approx(block.sum(axis=1).mean(), abs=1e-6)


@given(st.integers(1, 7), st.integers(1, 7))
def test_words_of_one_piece_change_nothing(n_target: int, n_source: int) -> None:
    weights = random_rows(n_target, n_source)
    merged = merge_words(weights, spans_of([1] * n_target), spans_of([1] * n_source))
    np.testing.assert_array_equal(merged, weights)


def test_merge_by_hand() -> None:
    weights = np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [0.0, 0.25, 0.75]], dtype=np.float32)
    merged = merge_words(weights, ((0, 2), (2, 3)), ((0, 2), (2, 3)))
    np.testing.assert_allclose(merged, [[0.45, 0.55], [0.25, 0.75]], atol=1e-7)


@pytest.mark.parametrize("spans", [((0, 2),), ((0, 1), (2, 3)), ((0, 0), (0, 3)), ((1, 3),)])
def test_spans_that_do_not_cover_the_pieces_are_refused(spans: Spans) -> None:
    weights = random_rows(3, 3)
    with pytest.raises(AssertionError):
        merge_words(weights, spans, ((0, 3),))
    with pytest.raises(AssertionError):
        merge_words(weights, ((0, 3),), spans)


def test_table_names_every_row_and_column_by_pieces(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s"])
    table = attention_table(translation)
    assert table.columns == ("▁the", "▁cat", "s", "</s>")
    assert table.rows == ("▁les", "▁chat", "s", "</s>")
    np.testing.assert_array_equal(table.weights, translation.hypotheses[0].hypothesis.attention)


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


def test_a_hypothesis_cut_at_the_bound_has_no_eos_row(make_translation) -> None:
    table = attention_table(make_translation("the cat", ["le|s"], finished=False), level="word")
    assert table.rows == ("les",)
    assert table.columns == ("the", "cat", "</s>")


def test_table_of_a_lower_hypothesis(make_translation) -> None:
    translation = make_translation("the cat", ["le chat", "un chat gris"])
    table = attention_table(translation, 1)
    assert table.rows == ("▁un", "▁chat", "▁gris", "</s>")
    assert table.weights is translation.hypotheses[1].hypothesis.attention


@pytest.mark.parametrize("level", ["piece", "word"])
def test_the_mean_of_the_heads_tables_is_the_table(level, make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s"], n_heads=3)
    tables = [
        attention_table(translation, level=level, head=Head(f"head {i}", i)) for i in range(3)
    ]
    mean = attention_table(translation, level=level)
    np.testing.assert_allclose(
        np.mean([t.weights for t in tables], axis=0), mean.weights, atol=1e-6
    )
    assert not np.allclose(tables[0].weights, tables[1].weights)
    assert all((t.rows, t.columns) == (mean.rows, mean.columns) for t in tables)


def test_an_empty_target_has_the_eos_row_alone(make_translation) -> None:
    for level in ("piece", "word"):
        table = attention_table(make_translation("hi", [""]), level=level)
        assert table.rows == ("</s>",)
        assert table.weights.shape == (1, 2)
