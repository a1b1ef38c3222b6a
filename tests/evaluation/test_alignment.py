"""Hard alignments from weights, in words or pieces, as Pharaoh writes them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.attention_maps.heads import Head
from nmt.attention_maps.words import AttentionTable
from nmt.evaluation.alignment import hard_alignment, pharaoh


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(7)))
def test_a_permutation_is_aligned_as_it_is(order: list[int]) -> None:
    """Target j looks at source order[j]; eos, the last of both, at eos."""
    weights = np.full((8, 8), 0.01, dtype=np.float32)
    weights[range(7), order] = 0.9
    weights[7, 7] = 0.9
    names = (*tuple("abcdefg"), "</s>")
    assert hard_alignment(AttentionTable(names, names, weights), finished=True) == [
        (source, target) for target, source in enumerate(order)
    ]


def test_pharaoh_counts_words_and_puts_the_source_first(make_translation) -> None:
    weights = np.array(
        [
            [0.7, 0.1, 0.1, 0.1],  # les -> the
            [0.4, 0.3, 0.3, 0.0],  # chat\
            [0.4, 0.3, 0.3, 0.0],  # s   / -> cats, though `the` is the best piece
            [0.0, 0.1, 0.1, 0.8],  # donc -> </s>: no link
            [0.0, 0.0, 0.0, 1.0],
        ],
        dtype=np.float32,
    )
    translation = make_translation("the cat|s", ["les chat|s donc"], weights)
    assert pharaoh(translation) == "0-0 1-1"
    assert pharaoh(translation, level="piece") == "0-0 0-1 0-2"
    assert pharaoh(make_translation("", [])) == ""


@pytest.mark.parametrize("finished", [True, False])
def test_only_the_row_of_eos_is_left_out(finished: bool, make_translation) -> None:
    shape = (3, 3) if finished else (2, 3)
    weights = np.zeros(shape, dtype=np.float32)
    weights[:, 1] = 1
    translation = make_translation("the cat", ["le chat"], weights, finished)
    assert pharaoh(translation) == "1-0 1-1"


def test_a_head_has_its_own_links(make_translation) -> None:
    heads = np.zeros((2, 3, 3), dtype=np.float32)
    heads[0, :, 0] = heads[1, :, 1] = 1
    translation = make_translation("the cat", ["le chat"], n_heads=2)
    translation.hypotheses[0].hypothesis.heads[:] = heads
    assert pharaoh(translation, head=Head("first", 0)) == "0-0 0-1"
    assert pharaoh(translation, head=Head("second", 1)) == "1-0 1-1"
