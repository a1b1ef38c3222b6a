"""What the experiment on equivariance says is so."""

import numpy as np
import pytest

from nmt.errors import ConfigError
from nmt.lab.equivariance import (
    ATTENTION,
    BARE,
    BARE_SCORES,
    FULL,
    ONE_MATRIX,
    POSITIONS,
    TWO_MATRICES,
    EquivarianceOptions,
    run,
)
from nmt.lab.perform import perform


@pytest.mark.parametrize("options", [{}, {"seed": 2, "size": 38, "heads": 19}, {"heads": 1}])
def test_only_attention_without_positions_is_equivariant(options: dict[str, int]) -> None:
    result = run(EquivarianceOptions(permutations=30, **options))
    assert result.greatest[BARE] < 5e-6
    assert result.greatest[ATTENTION] < 5e-6
    assert result.greatest[POSITIONS] > 0.3
    assert result.greatest[FULL] > 1


def test_shuffled_words_give_shuffled_weights_and_places_keep_theirs() -> None:
    result = run(EquivarianceOptions(permutations=3))
    order = np.array(result.order)
    assert sorted(order) != order.tolist()
    own, full = result.shown[ATTENTION], result.shown[FULL]
    np.testing.assert_allclose(own.shuffled_weights, own.weights[np.ix_(order, order)], atol=1e-6)
    np.testing.assert_allclose(own.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(full.shuffled_weights, full.weights)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_are_symmetric_unless_queries_and_keys_have_matrices_of_their_own(seed: int) -> None:
    result = run(EquivarianceOptions(seed=seed, permutations=1))
    assert result.scores[BARE_SCORES].asymmetry < 1e-6  # 0 where x x^T is computed symmetrically
    assert result.scores[ONE_MATRIX].asymmetry < 1e-6
    assert result.scores[TWO_MATRICES].asymmetry > 0.1
    own = result.scores[BARE_SCORES].own
    np.testing.assert_allclose(own, result.shown[BARE].weights.diagonal(), atol=1e-6)
    assert own.mean() > 0.8
    assert result.scores[TWO_MATRICES].own.mean() < own.mean()


def test_scores_with_one_head_are_those_of_its_weights() -> None:
    result = run(EquivarianceOptions(heads=1, permutations=1))
    scores = np.exp(result.scores[TWO_MATRICES].scores)
    weights = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.shown[ATTENTION].weights, weights, atol=1e-5)


def test_only_the_full_layer_hangs_on_the_length() -> None:
    shorter = run(EquivarianceOptions(permutations=1)).shorter
    assert [name for name, answer in shorter.items() if answer == "works"] == [
        BARE,
        ATTENTION,
        POSITIONS,
    ]
    assert "80" in shorter[FULL]  # five words of 16 numbers
    assert "96" in shorter[FULL]


def test_the_full_layer_grows_with_the_length_and_attention_does_not() -> None:
    short = run(EquivarianceOptions(sentence="one two", permutations=1)).parameters
    long = run(EquivarianceOptions(sentence="one two three four", permutations=1)).parameters
    assert short[ATTENTION] == long[ATTENTION] == short[POSITIONS]
    assert (short[FULL], long[FULL]) == (32 * 33, 64 * 65)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("heads=3", "heads: got 3, allowed: a divisor of size (16)"),
        ("sentence=one", "sentence: got 'one', allowed: 2 to 24 words, no word twice"),
        ("sentence=a rose is a rose", "allowed: 2 to 24 words, no word twice"),
        ("size=0", "size: got 0, allowed: >= 2"),
    ],
)
def test_wrong_options_are_a_line(override: str, message: str, tmp_path) -> None:
    with pytest.raises(ConfigError) as error:
        perform("equivariance", [override], tmp_path / "new")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "new").exists()
