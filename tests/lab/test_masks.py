"""The statements of docs/lab/masks.md, as laws on small settings."""

import pytest
import torch

from nmt.errors import ConfigError
from nmt.lab.masks import BEFORE, CAUSAL, EACH, PADDING, TOGETHER, WINDOW, MasksOptions, keeps, run
from nmt.lab.perform import perform

OPTIONS = [
    MasksOptions(),
    MasksOptions(sentence="one two three", padding=0, reach=0, seed=2),
    MasksOptions(sentence="a b c d e f g", padding=4, reach=2, size=3, seed=3),
]


def _keeps(options: MasksOptions) -> dict[str, torch.Tensor]:
    return keeps(options, torch.Generator().manual_seed(options.seed))


@pytest.mark.parametrize("options", OPTIONS)
def test_a_masked_place_changes_no_output_and_a_kept_one_does(options: MasksOptions) -> None:
    result = run(options)
    for each in result.masks.values():
        assert torch.equal(each.change == 0, ~each.keep)
        assert torch.all(each.weights[~each.keep] == 0)
        assert torch.all(each.weights[each.keep] > 0)


@pytest.mark.parametrize("options", OPTIONS)
def test_weights_sum_to_one_or_to_zero_where_nothing_is_kept(options: MasksOptions) -> None:
    result = run(options)
    for each in result.masks.values():
        torch.testing.assert_close(each.weights.sum(dim=1), each.keep.any(dim=1).float())
    assert result.masks[EACH].blind == 1  # the query of length 0
    assert result.masks[TOGETHER].blind == max(0, options.padding - options.reach)
    assert [name for name, each in result.masks.items() if each.blind] == [
        EACH,
        *([TOGETHER] if options.padding > options.reach else []),
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_masked_weights_keep_their_proportions(options: MasksOptions) -> None:
    result = run(options)
    before = result.masks[BEFORE].weights
    for each in result.masks.values():
        kept = before * each.keep
        expected = kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-30)
        torch.testing.assert_close(each.weights, expected)


def test_each_mask_keeps_what_its_name_says() -> None:
    kept = _keeps(MasksOptions(sentence="a b c", padding=1, reach=1))
    assert kept[PADDING].int().tolist() == [[1, 1, 1, 0]] * 4
    assert kept[CAUSAL].int().tolist() == torch.ones(4, 4).tril().int().tolist()
    assert kept[WINDOW].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert kept[TOGETHER].int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 0],
    ]
    assert sorted(kept[EACH].sum(dim=1).tolist()) == [0, 1, 2, 3]


def test_a_query_without_a_place_gets_zeros_here_and_even_weights_by_a_large_number() -> None:
    nowhere = run(MasksOptions()).nowhere
    assert list(nowhere.values()) == ["nan", "0.125", "0"]


def test_a_long_sentence_is_a_line(tmp_path) -> None:
    with pytest.raises(ConfigError, match="allowed: 2 to 12 words"):
        perform("masks", [f"sentence={'word ' * 13}"], tmp_path)
