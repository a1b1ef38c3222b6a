"""The card task, and the measures of heads whose weights are known."""

import math

import numpy as np
import pytest
import torch

from nmt.lab.cards import CardOptions, CardReader, draw_cards, losses
from nmt.lab.heads import HeadsOptions, measure, run

OPTIONS = CardOptions(letters=5, digits=3, size=12, layers=2)
CARDS = draw_cards(64, OPTIONS, torch.Generator().manual_seed(3))


def test_answers_are_digits_of_the_card_before_and_of_the_twin() -> None:
    letters, digits = CARDS.ids // OPTIONS.digits, CARDS.ids % OPTIONS.digits
    for half in letters.split(OPTIONS.letters, dim=1):
        assert half.sort(dim=1).values.tolist() == [list(range(OPTIONS.letters))] * 64
    assert torch.equal(letters.gather(1, CARDS.twins), letters)
    positions = torch.arange(2 * OPTIONS.letters)
    assert ((CARDS.twins >= OPTIONS.letters) == (positions < OPTIONS.letters)).all()
    assert torch.equal(CARDS.answers[:, 1:, 0], digits[:, :-1])
    assert torch.equal(CARDS.answers[:, 0, 0], digits[:, 0])
    assert torch.equal(CARDS.answers[..., 1], digits.gather(1, CARDS.twins))


def test_the_vector_of_every_card_is_trained() -> None:
    model = CardReader(2, OPTIONS).train()
    losses(model, CARDS).sum().backward()  # type: ignore[no-untyped-call]
    gradient = model.encoder.pieces.embedding.weight.grad
    assert gradient is not None
    assert (gradient[: OPTIONS.letters * OPTIONS.digits] != 0).any(dim=1).all()


def test_the_measures_of_heads_whose_weights_are_known() -> None:
    twins, n = CARDS.twins, CARDS.twins.shape[1]
    before = torch.eye(n)[torch.arange(n).sub(1).clamp(min=0)].expand(len(twins), n, n)
    twin = torch.nn.functional.one_hot(twins, n).float()
    weights = torch.stack([before, twin, torch.full_like(twin, 1 / n)], dim=1).double()
    measures = measure(weights, twins)
    far = (twins - torch.arange(n)).abs().double().mean().item()
    distances = [(n - 1) / n, far, (n * n - 1) / (3 * n)]
    np.testing.assert_allclose(measures["distance"], distances, 1e-5)
    np.testing.assert_allclose(measures["entropy"], [0, 0, math.log(n)], rtol=1e-5)
    assert measures["weight_on_previous"][0] == measures["weight_on_twin"][1] == 1
    assert measures["weight_on_twin"][2] == pytest.approx(1 / n)


def test_a_run_sorts_its_heads() -> None:
    options = {"letters": 4, "digits": 2, "size": 8, "updates": 2, "heads": (1, 4)}
    for n, encoder in run(HeadsOptions.model_validate(options)).encoders.items():
        assert encoder.weights.shape == (n, 8, 8)
        np.testing.assert_allclose(encoder.weights.sum(axis=-1), 1, rtol=1e-5)
        assert np.all(np.diff(encoder.measures["distance"]) >= 0)
