"""Masked places have no weight and no influence, and the others keep their proportions."""

import pytest
import torch

from nmt.lab.masks import BEFORE, CAUSAL, EACH, PADDING, TOGETHER, WINDOW, MasksOptions, keeps, run

OPTIONS = [
    MasksOptions(),
    MasksOptions(sentence="one two three", padding=0, reach=0, seed=2),
    MasksOptions(sentence="a b c d e f g", padding=4, reach=2, size=3, seed=3),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_masks_decide_what_is_seen(options: MasksOptions) -> None:
    result = run(options)
    before = result.masks[BEFORE].weights
    for mask in result.masks.values():
        assert torch.equal(mask.change == 0, ~mask.keep)
        assert torch.all(mask.weights[mask.keep] > 0)
        seen = before * mask.keep
        proportions = seen / seen.sum(dim=1, keepdim=True).clamp(min=1e-30)
        torch.testing.assert_close(mask.weights, proportions)
        torch.testing.assert_close(mask.weights.sum(dim=1), mask.keep.any(dim=1).float())
    blind = {name: mask.blind for name, mask in result.masks.items() if mask.blind}
    blind_together = max(0, options.padding - options.reach)
    assert blind == {EACH: 1, **({TOGETHER: blind_together} if blind_together else {})}


def test_each_mask_keeps_what_its_name_says() -> None:
    keep = keeps(MasksOptions(sentence="a b c", padding=1, reach=1), torch.Generator())
    rows = {
        name: ["".join(map(str, row)) for row in mask.int().tolist()] for name, mask in keep.items()
    }
    assert rows[PADDING] == ["1110"] * 4
    assert rows[CAUSAL] == ["1000", "1100", "1110", "1111"]
    assert rows[WINDOW] == ["1100", "1110", "0111", "0011"]
    assert rows[TOGETHER] == ["1000", "1100", "0110", "0010"]
    assert sorted(keep[EACH].sum(dim=1).tolist()) == [0, 1, 2, 3]


def test_a_query_without_a_place_gets_zeros_here_alone() -> None:
    assert list(run(MasksOptions()).nowhere.values()) == ["nan", "0.125", "0"]
