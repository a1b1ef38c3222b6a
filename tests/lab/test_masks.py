"""Masked positions have no weight and no influence, and the others keep their proportions."""

import pytest
import torch

from nmt.lab.masks import (
    CAUSAL,
    COMBINED,
    NO_MASK,
    PADDING,
    QUERY_LENGTHS,
    WINDOW,
    MasksOptions,
    make_masks,
    run,
)

OPTIONS = [
    MasksOptions(),
    MasksOptions(sentence="one two three", padding=0, reach=0, seed=2),
    MasksOptions(sentence="a b c d e f g", padding=4, reach=2, size=3, seed=3),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_masks_decide_what_is_seen(options: MasksOptions) -> None:
    result = run(options)
    before = result.masks[NO_MASK].weights
    for mask in result.masks.values():
        assert torch.equal(mask.change == 0, ~mask.keep)
        assert torch.all(mask.weights[mask.keep] > 0)
        seen = before * mask.keep
        proportions = seen / seen.sum(dim=1, keepdim=True).clamp(min=1e-30)
        torch.testing.assert_close(mask.weights, proportions)
        torch.testing.assert_close(mask.weights.sum(dim=1), mask.keep.any(dim=1).float())
    n_masked = {
        name: mask.n_fully_masked for name, mask in result.masks.items() if mask.n_fully_masked
    }
    n_combined = max(0, options.padding - options.reach)
    assert n_masked == {QUERY_LENGTHS: 1, **({COMBINED: n_combined} if n_combined else {})}


def test_each_mask_keeps_what_its_name_says() -> None:
    keep = make_masks(MasksOptions(sentence="a b c", padding=1, reach=1), torch.Generator())
    rows = {
        name: ["".join(map(str, row)) for row in mask.int().tolist()] for name, mask in keep.items()
    }
    assert rows[PADDING] == ["1110"] * 4
    assert rows[CAUSAL] == ["1000", "1100", "1110", "1111"]
    assert rows[WINDOW] == ["1100", "1110", "0111", "0011"]
    assert rows[COMBINED] == ["1000", "1100", "0110", "0010"]
    assert sorted(keep[QUERY_LENGTHS].sum(dim=1).tolist()) == [0, 1, 2, 3]


def test_a_fully_masked_query_gets_zeros_here_alone() -> None:
    assert list(run(MasksOptions()).fully_masked.values()) == ["nan", "0.125", "0"]
