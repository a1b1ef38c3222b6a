"""A look-up by weights is exact when cold and average pooling when hot."""

import numpy as np
import pytest
import torch

from nmt.lab.retrieval import SCORES, SHOP, RetrievalOptions, Score, compare, look_up, run, vectors

PRICES = torch.tensor(list(SHOP.values()), dtype=torch.float64)


def test_a_cold_look_up_by_cosine_is_the_exact_one() -> None:
    for name in SHOP:
        result = run(RetrievalOptions(query=name))
        assert result.exact == SHOP[name]
        assert result.best("cosine") == name
        assert result.prices["cosine"][0].item() == pytest.approx(SHOP[name], abs=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_weights_are_a_softmax_and_even_when_hot(score: Score) -> None:
    query, keys = vectors("thin red winter jacket")
    temperatures = [0.01, 0.1, 0.5, 1.0, 5.0, 1e9]
    weights = torch.stack([look_up(query, keys, score, t) for t in temperatures])
    scores = torch.stack([compare(query, keys, score) / t for t in temperatures])
    torch.testing.assert_close(weights, scores.softmax(dim=1))
    assert torch.all(torch.special.entr(weights).sum(dim=1).diff() > 0)
    torch.testing.assert_close(weights[-1] @ PRICES, PRICES.mean())
    nothing = look_up(*vectors("garden gnome"), score, 0.01)  # no word of it is in the shop
    torch.testing.assert_close(nothing @ PRICES, PRICES.mean())


def test_a_dot_product_is_both_lengths_times_the_cosine() -> None:
    result = run(RetrievalOptions())
    assert result.identity_error < 1e-14
    assert result.exact is None
    assert result.best("dot") == list(SHOP)[int(result.lengths.argmax())]
    assert result.best("cosine") == "red winter jacket"
    np.testing.assert_allclose(result.weights["dot"][-1], 1 / len(SHOP), atol=0.01)
