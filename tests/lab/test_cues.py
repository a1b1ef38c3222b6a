"""Attention takes what the query asks for; without a query, salience decides."""

import numpy as np
import pytest
import torch

from nmt.lab.cues import KINDS, LAYERS, SALIENT, CuesOptions, draw_scenes, run, train


@pytest.mark.slow
def test_a_query_decides_and_without_one_salience_does() -> None:
    result = run(CuesOptions(updates=400, tests=1500))
    assert 0.4 < result.ceiling_without_the_task < 0.55
    for name in LAYERS:
        assert (
            0.25 < result.without_the_task[name].accuracy < result.ceiling_without_the_task + 0.04
        )  # 3 standard errors
    told, untold = result.with_the_task["attention"], result.without_the_task["attention"]
    assert told.accuracy > 0.99
    assert told.parameters == untold.parameters - len(KINDS)
    np.testing.assert_allclose(told.influence, np.eye(5), atol=0.05)
    assert untold.influence.shape == (1, 5)
    assert untold.influence[0].argmax() == SALIENT
    assert untold.influence[0, SALIENT] > 3 * np.delete(untold.influence[0], SALIENT).max()
    assert result.scores_for_the_constant_query.argmax() == 0
    kinds = result.scores_for_each_query[:, 1 : 1 + len(KINDS)]
    np.testing.assert_array_equal(kinds.argmax(axis=1), np.arange(len(KINDS)))


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_that_depend_on_the_task_and_on_positions(layer: str) -> None:
    options = CuesOptions()
    scenes = draw_scenes(7, options, torch.Generator().manual_seed(3))
    without_task, with_task = (train(layer, flag, scenes, options) for flag in (False, True))
    other_task = (scenes.task + 1) % len(KINDS)
    answer = with_task(scenes.items, scenes.task)
    assert torch.equal(
        without_task(scenes.items, scenes.task), without_task(scenes.items, other_task)
    )
    assert not torch.equal(answer, with_task(scenes.items, other_task))
    turned = with_task(scenes.items.roll(1, dims=1), scenes.task)
    is_invariant = layer not in ("convolution", "fully connected")
    assert torch.allclose(answer, turned, atol=1e-5) == is_invariant


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_task_is_an_item_of_the_scene_salient_by_its_share(share: float) -> None:
    scenes = draw_scenes(3000, CuesOptions(salient=share), torch.Generator().manual_seed(2))
    brightness, kinds, digits = scenes.items.split([1, len(KINDS), 8], dim=2)
    torch.testing.assert_close(kinds.sum(dim=2), torch.ones(3000, 5))
    assert int(kinds.sum(dim=1).max()) == 1  # no kind twice
    is_task = kinds.gather(2, scenes.task.view(-1, 1, 1).expand(-1, 5, 1)).bool().squeeze(2)
    assert torch.all(is_task.sum(dim=1) == 1)
    assert torch.equal(digits[is_task].argmax(dim=1), scenes.digit)
    assert torch.all((brightness == 1).sum(dim=1) == 1)
    salient = float((brightness.squeeze(2)[is_task] == 1).float().mean())
    assert abs(salient - share) < 0.03
    assert float(scenes.ceiling.min()) >= max(share, (1 - share) / 4)
    assert float(scenes.ceiling.max()) <= 1 + 1e-6
