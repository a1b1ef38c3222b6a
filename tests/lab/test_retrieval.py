"""The statements of docs/lab/retrieval.md, as laws on small settings."""

import numpy as np
import pytest
import torch

from nmt.errors import ConfigError
from nmt.lab.perform import perform
from nmt.lab.retrieval import SCORES, SHOP, RetrievalOptions, Score, compare, look_up, run, vectors

PRICES = torch.tensor(list(SHOP.values()), dtype=torch.float64)


@pytest.mark.parametrize("name", SHOP)
def test_a_cold_look_up_by_cosine_is_the_exact_one(name: str) -> None:
    result = run(RetrievalOptions(query=name))
    assert result.exact == SHOP[name]
    assert result.best("cosine") == name
    assert result.prices["cosine"][0].item() == pytest.approx(SHOP[name], abs=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_a_hot_look_up_is_average_pooling(score: Score) -> None:
    query, keys = vectors("thin red winter jacket")
    even = torch.full((len(SHOP),), 1 / len(SHOP), dtype=torch.float64)
    torch.testing.assert_close(look_up(query, keys, score, 1e9), even)


@pytest.mark.parametrize("temperature", [0.01, 1.0, 100.0])
def test_a_query_that_fits_nothing_gets_the_average(temperature: float) -> None:
    query, keys = vectors("garden gnome")
    for score in SCORES:
        weights = look_up(query, keys, score, temperature)
        torch.testing.assert_close(weights @ PRICES, PRICES.mean())


@pytest.mark.parametrize("score", SCORES)
def test_hotter_weights_are_more_even(score: Score) -> None:
    query, keys = vectors("thin red winter jacket")
    temperatures = [0.01, 0.1, 0.5, 1.0, 5.0, 100.0]
    weights = torch.stack([look_up(query, keys, score, each) for each in temperatures])
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6, dtype=torch.float64))
    entropies = torch.special.entr(weights).sum(dim=1)
    assert torch.all(entropies.diff() > 0)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_the_weights_are_the_softmax_of_the_scores_shown(score: Score, temperature: float) -> None:
    query, keys = vectors("blue summer dress")
    expected = (compare(query, keys, score) / temperature).softmax(dim=0)
    torch.testing.assert_close(look_up(query, keys, score, temperature), expected)


def test_a_dot_product_is_both_lengths_times_the_cosine() -> None:
    chance = torch.Generator().manual_seed(5)
    query = torch.randn(1, 7, generator=chance, dtype=torch.float64)
    keys = torch.randn(11, 7, generator=chance, dtype=torch.float64)
    product = query.norm() * keys.norm(dim=1) * compare(query, keys, "cosine")
    torch.testing.assert_close(compare(query, keys, "dot"), product)
    torch.testing.assert_close(compare(query, 3 * keys, "dot"), 3 * compare(query, keys, "dot"))
    torch.testing.assert_close(compare(query, 3 * keys, "cosine"), compare(query, keys, "cosine"))
    assert run(RetrievalOptions()).identity_error < 1e-14


def test_the_longest_key_wins_by_dot_and_not_by_cosine() -> None:
    result = run(RetrievalOptions())
    assert result.exact is None
    longest = list(SHOP)[int(result.lengths.argmax())]
    assert result.best("dot") == longest
    assert result.best("cosine") == "red winter jacket"
    assert result.weights["dot"][0].argmax() != result.weights["cosine"][0].argmax()
    np.testing.assert_allclose(result.weights["dot"][-1], 1 / len(SHOP), atol=0.01)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("query= ", "query: got "),
        ("temperatures=[]", "temperatures: got [], allowed: a list of one or more"),
        ("temperatures=[0]", "got 0, allowed: > 0"),
    ],
)
def test_wrong_options_are_a_line(override: str, message: str, tmp_path) -> None:
    with pytest.raises(ConfigError) as error:
        perform("retrieval", [override], tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
