"""Attention without positions is equivariant; its scores are symmetric with one matrix."""

import numpy as np
import pytest

from nmt.lab.equivariance import (
    ATTENTION,
    BARE,
    BARE_SCORES,
    FULL,
    ONE_MATRIX,
    POSITIONS,
    RECURRENCE,
    TWO_MATRICES,
    EquivarianceOptions,
    run,
)


@pytest.mark.parametrize("options", [{}, {"seed": 2, "size": 38, "heads": 19}, {"heads": 1}])
def test_only_attention_without_positions_is_equivariant(options: dict[str, int]) -> None:
    result = run(EquivarianceOptions(permutations=30, **options))
    greatest = {name: layer.max_difference for name, layer in result.layers.items()}
    assert max(greatest[BARE], greatest[ATTENTION]) < 5e-6
    assert greatest[POSITIONS] > 0.3
    assert greatest[FULL] > 1
    assert greatest[RECURRENCE] > 0.05
    assert not np.triu(result.layers[RECURRENCE].weights, 1).any()  # nothing of later words
    order = np.array(result.order)
    assert sorted(order) != order.tolist()
    attention, full = result.layers[ATTENTION], result.layers[FULL]
    shuffled = attention.weights[np.ix_(order, order)]
    np.testing.assert_allclose(attention.shuffled_weights, shuffled, atol=1e-6)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(full.shuffled_weights, full.weights)


@pytest.mark.parametrize("seed", [1, 2])
def test_scores_are_symmetric_unless_queries_and_keys_differ(seed: int) -> None:
    result = run(EquivarianceOptions(seed=seed, permutations=1, heads=1))
    assert result.scores[BARE_SCORES].asymmetry < 1e-6  # 0 where x x^T is computed symmetrically
    assert result.scores[ONE_MATRIX].asymmetry < 1e-6
    assert result.scores[TWO_MATRICES].asymmetry > 0.1
    diagonal = result.layers[BARE].weights.diagonal()
    np.testing.assert_allclose(result.scores[BARE_SCORES].self_weights, diagonal, atol=1e-6)
    assert result.scores[TWO_MATRICES].self_weights.mean() < diagonal.mean()
    exponentials = np.exp(result.scores[TWO_MATRICES].scores)
    weights = exponentials / exponentials.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.layers[ATTENTION].weights, weights, atol=1e-5)


def test_only_the_full_layer_depends_on_the_length() -> None:
    short, long = (
        run(EquivarianceOptions(sentence=sentence, permutations=1)).layers
        for sentence in ("one two", "one two three four")
    )
    assert short[ATTENTION].parameters == long[ATTENTION].parameters == long[POSITIONS].parameters
    assert (short[FULL].parameters, long[FULL].parameters) == (32 * 33, 64 * 65)
    assert "48" in long[FULL].shorter_input  # three words of 16 numbers, where the layer takes 64
    assert {long[name].shorter_input for name in (BARE, ATTENTION, POSITIONS)} == {"works"}
