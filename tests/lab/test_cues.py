"""The statements of docs/lab/cues.md, as laws on small settings."""

import numpy as np
import pytest
import torch

from nmt.errors import ConfigError
from nmt.lab.cues import (
    KINDS,
    LAYERS,
    SALIENT,
    AttentionReader,
    CuesOptions,
    CuesResult,
    draw_scenes,
    learn,
    run,
)
from nmt.lab.perform import perform


@pytest.fixture(scope="module")
def result() -> CuesResult:
    return run(CuesOptions(updates=400, tests=1500))


def test_without_the_task_no_layer_is_above_the_ceiling(result: CuesResult) -> None:
    assert 0.4 < result.ceiling < 0.55
    for name in LAYERS:
        assert 0.25 < result.untold[name].accuracy < result.ceiling + 0.04  # 3 standard errors


def test_attention_solves_the_task_by_its_query_alone(result: CuesResult) -> None:
    assert result.told["attention"].accuracy > 0.99
    assert result.told["attention"].parameters == result.untold["attention"].parameters - len(KINDS)


def test_a_constant_query_picks_by_salience_and_a_query_by_the_task(result: CuesResult) -> None:
    untold = result.untold["attention"].influence
    assert untold.shape == (1, 5)
    assert untold[0].argmax() == SALIENT
    assert untold[0, SALIENT] > 3 * np.delete(untold[0], SALIENT).max()
    told = result.told["attention"].influence
    np.testing.assert_allclose(told, np.eye(5), atol=0.05)


def test_brightness_counts_for_the_constant_query_and_the_kind_for_a_query(
    result: CuesResult,
) -> None:
    assert result.constant_query.argmax() == 0
    kinds = result.queries[:, 1 : 1 + len(KINDS)]
    np.testing.assert_array_equal(kinds.argmax(axis=1), np.arange(len(KINDS)))


@pytest.mark.parametrize("layer", LAYERS)
def test_an_untold_layer_does_not_see_the_task_and_a_told_one_does(layer: str) -> None:
    options = CuesOptions()
    scenes = draw_scenes(7, options, torch.Generator().manual_seed(3))
    other = (scenes.task + 1) % len(KINDS)
    untold, told = (learn(layer, told, scenes, options) for told in (False, True))
    assert torch.equal(untold(scenes.items, scenes.task), untold(scenes.items, other))
    assert not torch.equal(told(scenes.items, scenes.task), told(scenes.items, other))


def test_attention_and_pooling_do_not_know_places() -> None:
    options = CuesOptions()
    scenes = draw_scenes(7, options, torch.Generator().manual_seed(3))
    turned = scenes.items.roll(1, dims=1)
    for layer in LAYERS:
        network = learn(layer, True, scenes, options)
        same = torch.allclose(
            network(scenes.items, scenes.task), network(turned, scenes.task), atol=1e-5
        )
        assert same == (layer not in ("convolution", "fully connected"))
        assert isinstance(network, AttentionReader) == (layer == "attention")


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_asked_item_is_in_the_scene_and_salient_as_often_as_said(share: float) -> None:
    scenes = draw_scenes(3000, CuesOptions(salient=share), torch.Generator().manual_seed(2))
    brightness, kinds, digits = scenes.items.split([1, len(KINDS), 8], dim=2)
    torch.testing.assert_close(kinds.sum(dim=2), torch.ones(3000, 5))
    assert int(kinds.sum(dim=1).max()) == 1  # no kind twice
    asked = kinds.gather(2, scenes.task.view(-1, 1, 1).expand(-1, 5, 1)).bool().squeeze(2)
    assert torch.all(asked.sum(dim=1) == 1)
    assert torch.equal(digits[asked].argmax(dim=1), scenes.digit)
    assert torch.all((brightness == 1).sum(dim=1) == 1)
    salient = float((brightness.squeeze(2)[asked] == 1).float().mean())
    assert abs(salient - share) < 0.03
    assert float(scenes.ceiling.min()) >= max(share, (1 - share) / 4)
    assert float(scenes.ceiling.max()) <= 1 + 1e-6


def test_more_items_than_kinds_are_a_line(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"items: got 9, allowed: <= 8"):
        perform("cues", ["items=9"], tmp_path)
