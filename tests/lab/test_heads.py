"""The experiment on heads: its task is what it says, its measures are right, several heads win."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.errors import ConfigError
from nmt.lab.cards import CardOptions, CardReader, draw_cards, losses, self_attention
from nmt.lab.heads import HeadsOptions, measure, run
from nmt.lab.perform import perform

OPTIONS = CardOptions(letters=5, digits=3, size=12, layers=2)


def _cards(count: int = 7) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    cards = draw_cards(count, OPTIONS, torch.Generator().manual_seed(3))
    return cards.ids, cards.twins, cards.answers


def test_every_half_has_each_letter_once_and_answers_are_digits_of_other_cards() -> None:
    ids, twins, answers = _cards()
    letters, digits = ids // OPTIONS.digits, ids % OPTIONS.digits
    for half in letters.split(OPTIONS.letters, dim=1):
        assert half.sort(dim=1).values.tolist() == [list(range(OPTIONS.letters))] * len(ids)
    assert torch.equal(letters.gather(1, twins), letters)
    places = torch.arange(2 * OPTIONS.letters)
    assert ((twins >= OPTIONS.letters) == (places < OPTIONS.letters)).all()
    assert torch.equal(answers[:, 1:, 0], digits[:, :-1])
    assert torch.equal(answers[:, 0, 0], digits[:, 0])
    assert torch.equal(answers[..., 1], digits.gather(1, twins))


def test_the_weights_are_those_of_all_heads_of_all_layers() -> None:
    model, (ids, _, _) = CardReader(3, OPTIONS).eval(), _cards()
    weights = self_attention(model.encoder, ids)
    assert weights.shape == (len(ids), 2 * 3, 10, 10)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(len(ids), 6, 10))


def test_an_untrained_reader_guesses() -> None:
    cards = draw_cards(64, OPTIONS, torch.Generator().manual_seed(3))
    assert losses(CardReader(2, OPTIONS), cards).min() > 0.8 * math.log(OPTIONS.digits)


def test_the_measures_of_heads_whose_weights_are_known() -> None:
    _, twins, _ = _cards()
    n = twins.shape[1]
    before = torch.eye(n)[torch.arange(n).sub(1).clamp(min=0)].expand(len(twins), n, n)
    twin = torch.nn.functional.one_hot(twins, n).float()
    weights = torch.stack([before, twin, torch.full_like(twin, 1 / n)], dim=1).double()
    found = measure(weights, twins)
    far = (twins - torch.arange(n)).abs().double().mean().item()
    np.testing.assert_allclose(found["distance"], [(n - 1) / n, far, (n * n - 1) / (3 * n)], 1e-5)
    np.testing.assert_allclose(found["entropy"], [0, 0, math.log(n)], rtol=1e-5)
    assert found["weight_before"][0] == found["weight_twin"][1] == 1
    assert found["weight_twin"][2] == pytest.approx(1 / n)


def test_a_run_sorts_its_heads_and_draws(tmp_path: Path) -> None:
    options = {"letters": 4, "digits": 2, "size": 8, "updates": 2, "heads": (1, 4)}
    result = run(HeadsOptions.model_validate(options))
    assert result.equal_distance == (8 * 8 - 1) / 24
    for n, each in result.encoders.items():
        assert each.weights.shape == (n, 8, 8)
        assert np.all(np.diff(each.measures["distance"]) >= 0)
        np.testing.assert_allclose(np.diag(each.disagreement), 0)
        np.testing.assert_allclose(each.disagreement, each.disagreement.T)
    assert result.encoders[1].parameters == result.encoders[4].parameters
    assert result.encoders[1].mean_disagreement == 0 < result.encoders[4].mean_disagreement < 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("heads=[3]", "heads: got 3, allowed: divisors of size"),
        ("heads=[]", "heads: got [], allowed: a list of one or more"),
    ],
)
def test_wrong_options_are_a_line(override: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        perform("heads", [override], tmp_path)
    assert message in str(error.value)
