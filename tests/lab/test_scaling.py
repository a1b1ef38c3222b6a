"""Dot products of d numbers have variance d; the factor of 1/sqrt(d) keeps the gradient."""

import math

import numpy as np
import pytest
import torch

from nmt.lab.key_size import KeySizeOptions, draw_memories
from nmt.lab.scaling import MEASURES, ScalingOptions, measure, run


@pytest.mark.parametrize("seed", [1, 2])
def test_without_the_factor_the_softmax_becomes_a_choice(seed: int) -> None:
    result = run(ScalingOptions(seed=seed, sizes=(4, 32, 256, 1024), draws=5))
    dot, scaled, additive = (
        {name: result.statistics(kind, name)["mean"] for name in MEASURES}
        for kind in ("dot", "scaled_dot", "additive")
    )
    sizes = np.array(result.options.sizes)
    np.testing.assert_allclose(dot["variance"], sizes, rtol=0.25)
    np.testing.assert_allclose(dot["variance"], scaled["variance"] * sizes, rtol=1e-5)
    assert np.ptp(additive["variance"]) < 0.5
    assert np.all(np.diff(dot["entropy"]) < 0)
    assert dot["entropy"][-1] < 0.3 < 2.7 < min(scaled["entropy"].min(), additive["entropy"].min())
    assert dot["median_gradient"][-1] < 0.05 * dot["median_gradient"][0]
    assert dot["gradient"][-1] < 0.5 * dot["gradient"][0]
    for kind in (scaled, additive):
        assert 0.7 < kind["median_gradient"][-1] / kind["median_gradient"][0] < 1.5


def test_the_gradient_is_the_jacobians_norm() -> None:
    scores = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    measures = measure(scores)
    jacobian = torch.autograd.functional.jacobian
    norms = [float(jacobian(lambda x: x.softmax(dim=-1), row).norm()) for row in scores]
    assert measures["gradient"] == pytest.approx(np.mean(norms))
    assert measures["median_gradient"] == pytest.approx(np.median(norms))
    assert measures["variance"] == pytest.approx(np.var(scores.numpy(), axis=1, ddof=1).mean())
    assert measure(torch.zeros(3, 11))["entropy"] == pytest.approx(math.log(11), rel=1e-6)
    choice = measure(torch.tensor([[1000.0, 0.0, 0.0]]))
    assert (choice["entropy"], choice["gradient"]) == (0, 0)


def test_no_name_stands_twice_in_a_memory() -> None:
    options = KeySizeOptions(items=5, names=7)
    memories = draw_memories(11, options, torch.Generator().manual_seed(3))
    assert memories.names.shape == memories.answers.shape == (11, 5)
    assert all(len(set(row)) == 5 for row in memories.names.tolist())
    assert memories.names.max() < 7
    assert memories.answers.max() < 8
