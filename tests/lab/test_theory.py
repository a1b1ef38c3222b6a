"""Laws of masks, sinusoids, scaled scores, look-ups, layers and kernels, which experiments show."""

import math

import numpy as np
import pytest
import torch

from nmt.lab import equivariance as lab
from nmt.lab import kernel_regression as kernels
from nmt.lab import masks, positions, retrieval, scaling
from nmt.lab.key_size import KeySizeOptions, draw_memories


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"sentence": "one two three", "padding": 0, "reach": 0, "seed": 2},
        {"sentence": "a b c d e f g", "padding": 4, "reach": 2, "size": 3, "seed": 3},
    ],
)
def test_masks_decide_what_is_seen(keys: dict[str, object]) -> None:
    options = masks.MasksOptions.model_validate(keys)
    result = masks.run(options)
    for mask in result.masks.values():
        assert torch.equal(mask.change == 0, ~mask.keep)
        assert torch.all(mask.weights[mask.keep] > 0)
        visible = result.masks[masks.NO_MASK].weights * mask.keep
        proportions = visible / visible.sum(dim=1, keepdim=True).clamp(min=1e-30)
        torch.testing.assert_close(mask.weights, proportions)
    n_masked = {name: mask.n_fully_masked for name, mask in result.masks.items()}
    expected = dict.fromkeys(n_masked, 0) | {masks.QUERY_LENGTHS: 1}
    expected[masks.COMBINED] = max(0, options.padding - options.reach)
    assert n_masked == expected
    even = f"{1 / visible.shape[1]:.6g}"
    assert [*result.fully_masked.values()] == ["nan", even, "0"]  # ours alone gives zeros


def test_each_mask_keeps_what_its_name_says() -> None:
    options = masks.MasksOptions(sentence="a b c", padding=1, reach=1)
    keep = masks.make_masks(options, torch.Generator())
    for name, rows in (
        (masks.PADDING, "1110 1110 1110 1110"),
        (masks.CAUSAL, "1000 1100 1110 1111"),
        (masks.WINDOW, "1100 1110 0111 0011"),
        (masks.COMBINED, "1000 1100 0110 0010"),
    ):
        assert ["".join(map(str, row)) for row in keep[name].int().tolist()] == rows.split()
    assert sorted(keep[masks.QUERY_LENGTHS].sum(dim=1).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [8, 38])
def test_steps_are_rotations_and_similarity_is_of_distance(size: int) -> None:
    options = {"size": size, "length": 97, "columns": (1,)}
    result = positions.run(positions.PositionsOptions(**options, positions=9))
    assert result.residuals.max() < 1e-12 < 0.5 < result.wrong_residuals.min()
    assert result.encoding.shape == (97, size)
    waves = 2 * np.pi * 10_000 ** (2 / size * np.arange(size // 2))
    np.testing.assert_allclose(result.wavelengths, waves)
    assert result.similarity[0] == pytest.approx(1)
    assert result.similarity_spread < 1e-12
    assert np.all(result.similarity[1:] < 0.99)
    bits = np.asarray(result.content()["bits_of_0_to_15"])
    assert (bits @ [1, 2, 4, 8]).tolist() == list(range(16))


def test_sinusoids_alone_are_unique_bounded_and_even() -> None:
    codes = positions.compare_encodings(200, 32)
    assert codes["i"].norm == 199
    shares, bits, waves = codes["i / n"], codes["bits of i"], codes["sinusoidal"]
    assert (shares.nearest, shares.shift) == pytest.approx((1 / 200, 199 / 400))
    assert bits.nearest == 1 < waves.nearest
    assert waves.norm == pytest.approx(4)
    assert waves.unevenness < 1e-9 < 0.5 < bits.unevenness
    assert waves.shift == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_without_the_factor_the_softmax_becomes_a_choice(seed: int) -> None:
    result = scaling.run(scaling.ScalingOptions(seed=seed, sizes=(4, 32, 256, 1024), draws=5))
    dot, scaled, additive = (
        {name: result.statistics(kind, name)["mean"] for name in scaling.MEASURES}
        for kind in ("dot", "scaled_dot", "additive")
    )
    sizes = np.array(result.options.sizes)
    np.testing.assert_allclose(dot["variance"], sizes, rtol=0.25)
    np.testing.assert_allclose(dot["variance"], scaled["variance"] * sizes, rtol=1e-5)
    assert np.ptp(additive["variance"]) < 0.5
    assert np.all(np.diff(dot["entropy"]) < 0)
    assert dot["entropy"][-1] < 0.3 < 2.7 < min(*scaled["entropy"], *additive["entropy"])
    assert dot["median_gradient"][-1] < 0.05 * dot["median_gradient"][0]
    assert dot["gradient"][-1] < 0.5 * dot["gradient"][0]
    for kind in (scaled, additive):
        assert 0.7 < kind["median_gradient"][-1] / kind["median_gradient"][0] < 1.5


def test_the_gradient_is_the_jacobians_norm() -> None:
    scores = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    measures, jacobian = scaling.measure(scores), torch.autograd.functional.jacobian
    norms = [float(jacobian(lambda x: x.softmax(dim=-1), row).norm()) for row in scores]
    assert measures["gradient"] == pytest.approx(np.mean(norms))
    assert measures["median_gradient"] == pytest.approx(np.median(norms))
    assert measures["variance"] == pytest.approx(scores.var(dim=1).mean().item())
    assert scaling.measure(torch.zeros(3, 11))["entropy"] == pytest.approx(math.log(11), rel=1e-6)
    choice = scaling.measure(torch.tensor([[1000.0, 0.0, 0.0]]))
    assert (choice["entropy"], choice["gradient"]) == (0, 0)


def test_no_name_stands_twice_in_a_memory() -> None:
    memories = draw_memories(11, KeySizeOptions(items=5, names=7), torch.default_generator)
    assert memories.names.shape == memories.answers.shape == (11, 5)
    assert all(len({*row}) == 5 and max(row) < 7 for row in memories.names.tolist())
    assert memories.answers.max() < 8


def test_a_cold_look_up_by_cosine_is_the_exact_one() -> None:
    for name, price in retrieval.SHOP.items():
        result = retrieval.run(retrieval.RetrievalOptions(query=name))
        assert (result.exact_price, result.best_product("cosine")) == (price, name)
        assert result.prices["cosine"][0].item() == pytest.approx(price, abs=1e-6)


@pytest.mark.parametrize("score", retrieval.SCORES)
def test_weights_are_a_softmax_and_even_when_hot(score: retrieval.Score) -> None:
    query, keys = retrieval.vectors("thin red winter jacket")
    temperatures = [0.01, 0.1, 0.5, 1.0, 5.0, 1e9]
    weights = torch.stack([retrieval.look_up(query, keys, score, t) for t in temperatures])
    scores = torch.stack([retrieval.compare(query, keys, score) / t for t in temperatures])
    torch.testing.assert_close(weights, scores.softmax(dim=1))
    assert torch.all(torch.special.entr(weights).sum(dim=1).diff() > 0)
    unknown = retrieval.vectors("garden gnome")  # no word of it is in the shop
    for even in (weights[-1:], retrieval.look_up(*unknown, score, 0.01)):
        torch.testing.assert_close(even.flatten(), torch.full_like(scores[0], 1 / len(keys)))


def test_a_dot_product_is_both_lengths_times_the_cosine() -> None:
    result = retrieval.run(retrieval.RetrievalOptions())
    assert result.identity_error < 1e-14
    assert result.exact_price is None
    assert result.best_product("dot") == list(retrieval.SHOP)[int(result.lengths.argmax())]
    assert result.best_product("cosine") == "red winter jacket"


@pytest.mark.parametrize("options", [{}, {"seed": 2, "size": 38, "heads": 19}, {"heads": 1}])
def test_only_attention_without_positions_is_equivariant(options: dict[str, int]) -> None:
    result = lab.run(lab.EquivarianceOptions(permutations=10, **options))
    greatest = {name: layer.max_difference for name, layer in result.layers.items()}
    assert max(greatest[lab.BARE_ATTENTION], greatest[lab.ATTENTION]) < 5e-6
    assert greatest[lab.RECURRENCE] > 0.05
    assert greatest[lab.POSITIONS] > 0.3
    assert greatest[lab.DENSE] > 1
    assert not np.triu(result.layers[lab.RECURRENCE].weights, 1).any()
    attention, full, order = (
        result.layers[lab.ATTENTION],
        result.layers[lab.DENSE],
        [*result.order],
    )
    assert sorted(order) != order
    shuffled = attention.weights[np.ix_(order, order)]
    np.testing.assert_allclose(attention.shuffled_weights, shuffled, atol=1e-6)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(full.shuffled_weights, full.weights)


@pytest.mark.parametrize("seed", [1, 2])
def test_scores_are_symmetric_unless_queries_and_keys_differ(seed: int) -> None:
    result = lab.run(lab.EquivarianceOptions(seed=seed, permutations=1, heads=1))
    bare, one, two = map(result.scores.get, (lab.BARE_SCORES, lab.ONE_MATRIX, lab.TWO_MATRICES))
    assert max(bare.asymmetry, one.asymmetry) < 1e-6 < 0.1 < two.asymmetry
    diagonal = result.layers[lab.BARE_ATTENTION].weights.diagonal()
    np.testing.assert_allclose(bare.self_weights, diagonal, atol=1e-6)
    assert two.self_weights.mean() < diagonal.mean()
    weights = torch.tensor(two.scores).softmax(dim=1)
    np.testing.assert_allclose(result.layers[lab.ATTENTION].weights, weights, atol=1e-5)


def test_only_the_full_layer_depends_on_the_length() -> None:
    short, long = (
        lab.run(lab.EquivarianceOptions(sentence=sentence, permutations=1)).layers
        for sentence in ("one two", "one two three four")
    )
    assert (short[lab.DENSE].parameters, long[lab.DENSE].parameters) == (
        32 * 33,
        64 * 65,
    )
    assert "48" in long[lab.DENSE].shorter_input  # three words of 16 numbers; the layer takes 64
    for name in (lab.ATTENTION, lab.POSITIONS):
        assert short[name].parameters == long[name].parameters
        assert long[name].shorter_input == "works"


@pytest.mark.parametrize("seed", [1, 3])
def test_sgd_finds_the_width_that_the_grid_finds(seed: int) -> None:
    result = kernels.run(kernels.KernelOptions(seed=seed, draws=1))
    mean, fixed, learned = map(result.estimates.get, (kernels.AVERAGE, "fixed", "learned"))
    assert learned.rmse < 0.75 * fixed.rmse < 0.75 * mean.rmse
    assert learned.loss < fixed.loss < mean.loss
    torch.testing.assert_close(mean.curve, result.y.mean().expand_as(mean.curve))
    ours, theirs = learned.content(), fixed.content()
    assert ours["points_used"] < 0.6 * theirs["points_used"]
    assert ours["largest_weight"] > 1.5 * theirs["largest_weight"]
    assert ours["change_of_slope"] > 2 * theirs["change_of_slope"]
    widths = torch.logspace(-0.5, 1.5, 41).tolist()
    grid = {kernels.estimate(result.x, result.y, "gaussian", width).loss: width for width in widths}
    assert result.learned_width == pytest.approx(grid[min(grid)], rel=0.3)
    assert learned.loss < 1.02 * min(grid)
    losses = result.learning.losses
    assert (losses[0], losses[-1]) == pytest.approx((fixed.loss, learned.loss))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("gaussian", [math.exp(-0.5 * (0.25 * i) ** 2) for i in range(6)]),
        ("boxcar", [1, 1, 1, 1, 0, 0]),
        ("epanechnikov", [1 - (0.25 * i) ** 2 for i in range(5)] + [0]),
        ("constant", [1] * 6),
    ],
)
def test_each_kernel_has_its_shape(kernel: kernels.Kernel, expected: list[float]) -> None:
    keys = torch.arange(6, dtype=torch.float64) / 8
    keep = ~torch.eye(6, dtype=torch.bool)
    weights, n_isolated = kernels.kernel_weights(keys[:1], keys, keep[:1] | True, kernel, 2.0)
    shape = torch.tensor([expected], dtype=torch.float64)
    torch.testing.assert_close(weights, shape / shape.sum())
    assert n_isolated == 0
    # boxcar: the key itself
    weights, _ = kernels.kernel_weights(8 * keys, 8 * keys, keep, kernel, 3.0)
    assert torch.all(weights.diagonal() == 0)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones_like(keys))


@pytest.mark.parametrize("kernel", ["boxcar", "epanechnikov"])
def test_an_isolated_query_gets_the_mean_and_is_counted(kernel: kernels.Kernel) -> None:
    result = kernels.run(kernels.KernelOptions(kernel=kernel, width=40, epochs=1, draws=1))
    fixed = result.estimates["fixed"]
    far = (kernels.QUERIES[:, None] - result.x).abs().amin(dim=1) >= 1 / 40
    assert fixed.n_isolated == int(far.sum()) > 0
    assert torch.isfinite(fixed.curve).all()
    torch.testing.assert_close(fixed.curve[far], result.y.mean().expand(fixed.n_isolated))
