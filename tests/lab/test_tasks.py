"""Attention takes what the query asks for, and heads find what they are trained to find."""

import math

import numpy as np
import pytest
import torch

from nmt.lab import heads
from nmt.lab.cards import CardOptions, draw_cards
from nmt.lab.cues import KINDS, LAYERS, SALIENT_KIND, CuesOptions, draw_scenes, run, train


@pytest.mark.slow
def test_a_query_decides_and_without_one_salience_does() -> None:
    result = run(CuesOptions(updates=400, tests=1500))
    ceiling = result.ceiling_without_the_task
    assert 0.4 < ceiling < 0.55
    for name in LAYERS:
        assert 0.25 < result.without_the_task[name].accuracy < ceiling + 0.04  # 3 standard errors
    told, untold = result.with_the_task["attention"], result.without_the_task["attention"]
    assert told.accuracy > 0.99
    assert told.parameters == untold.parameters - len(KINDS)
    np.testing.assert_allclose(told.influence, np.eye(5), atol=0.05)
    [influence] = untold.influence
    assert influence[SALIENT_KIND] > 3 * np.delete(influence, SALIENT_KIND).max()
    assert result.scores_for_the_constant_query.argmax() == 0
    best = result.scores_for_each_query[:, 1 : 1 + len(KINDS)].argmax(axis=1)
    np.testing.assert_array_equal(best, np.arange(len(KINDS)))


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_that_depend_on_the_task_and_on_positions(layer: str) -> None:
    options = CuesOptions(updates=3)
    scenes = draw_scenes(7, options, torch.Generator().manual_seed(3))
    other_task = (scenes.task + 1) % len(KINDS)
    for has_task in (False, True):
        model = train(layer, has_task, scenes, options)
        answer = model(scenes.items, scenes.task)
        assert torch.equal(answer, model(scenes.items, other_task)) != has_task
    turned = model(scenes.items.roll(1, dims=1), scenes.task)
    is_invariant = layer not in ("convolution", "fully connected")
    assert torch.allclose(answer, turned, atol=1e-5) == is_invariant


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_task_is_an_item_of_the_scene_salient_by_its_share(share: float) -> None:
    scenes = draw_scenes(3000, CuesOptions(salient=share), torch.Generator().manual_seed(2))
    brightness, kinds, digits = scenes.items.split([1, len(KINDS), 8], dim=2)
    torch.testing.assert_close(kinds.sum(dim=2), torch.ones(3000, 5))
    assert int(kinds.sum(dim=1).max()) == 1  # no kind twice
    is_task = kinds[torch.arange(3000), :, scenes.task].bool()
    assert torch.all(is_task.sum(dim=1) == 1)
    assert torch.equal(digits[is_task].argmax(dim=1), scenes.digit)
    assert torch.all((brightness == 1).sum(dim=1) == 1)
    salient = (brightness.squeeze(2)[is_task] == 1).float().mean()
    assert salient.item() == pytest.approx(share, abs=0.03)
    assert max(share, (1 - share) / 4) <= scenes.ceiling.min() <= scenes.ceiling.max() < 1 + 1e-6


OPTIONS = CardOptions(letters=5, digits=3, size=12, layers=2)
CARDS = draw_cards(64, OPTIONS, torch.Generator().manual_seed(3))


def test_answers_are_digits_of_the_card_before_and_of_the_twin() -> None:
    letters, digits, n = CARDS.ids // OPTIONS.digits, CARDS.ids % OPTIONS.digits, OPTIONS.letters
    for half in letters.split(n, dim=1):
        assert half.sort(dim=1).values.tolist() == [list(range(n))] * 64
    assert torch.equal(letters.gather(1, CARDS.twins), letters)
    assert ((CARDS.twins >= n) == (torch.arange(2 * n) < n)).all()
    before = torch.cat([digits[:, :1], digits[:, :-1]], dim=1)
    answers = torch.stack([before, digits.gather(1, CARDS.twins)], dim=2)
    assert torch.equal(CARDS.answers, answers)


def test_the_measures_of_heads_whose_weights_are_known() -> None:
    twins, n = CARDS.twins, CARDS.twins.shape[1]
    before = torch.eye(n)[torch.arange(n).sub(1).clamp(min=0)].expand(len(twins), n, n)
    twin = torch.nn.functional.one_hot(twins, n).float()
    weights = torch.stack([before, twin, torch.full_like(twin, 1 / n)], dim=1).double()
    measures = heads.measure(weights, twins)
    far = (twins - torch.arange(n)).abs().double().mean().item()
    distances = [(n - 1) / n, far, (n * n - 1) / (3 * n)]
    np.testing.assert_allclose(measures["distance"], distances, 1e-5)
    np.testing.assert_allclose(measures["entropy"], [0, 0, math.log(n)], rtol=1e-5)
    assert measures["weight_on_previous"][0] == measures["weight_on_twin"][1] == 1
    assert measures["weight_on_twin"][2] == pytest.approx(1 / n)


def test_a_run_sorts_its_heads() -> None:
    options = {"letters": 4, "digits": 2, "size": 8, "updates": 2, "heads": (1, 4)}
    for n, encoder in heads.run(heads.HeadsOptions.model_validate(options)).encoders.items():
        assert encoder.weights.shape == (n, 8, 8)
        np.testing.assert_allclose(encoder.weights.sum(axis=-1), 1, rtol=1e-5)
        assert np.all(np.diff(encoder.measures["distance"]) >= 0)
