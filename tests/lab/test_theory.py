"""Laws of what experiments show: masks, sinusoids, scores, layers, kernels, cues and heads."""

import math

import numpy as np
import pytest
import torch

from nmt.lab import equivariance as lab
from nmt.lab import heads, masks, positions, retrieval, scaling
from nmt.lab import kernel_regression as kernels
from nmt.lab.cards import CardOptions, draw_cards
from nmt.lab.cues import KINDS, LAYERS, CuesOptions, draw_scenes, train


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
    n_masked = {n: mask.content()["fully_masked_queries"] for n, mask in result.masks.items()}
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


@pytest.mark.parametrize("options", [{}, {"seed": 2, "size": 38, "heads": 19}, {"heads": 1}])
def test_only_attention_without_positions_is_equivariant(options: dict[str, int]) -> None:
    result = lab.run(lab.EquivarianceOptions(permutations=10, **options))
    greatest = {name: layer.max_difference for name, layer in result.layers.items()}
    assert max(greatest[lab.BARE_ATTENTION], greatest[lab.ATTENTION]) < 5e-6
    assert greatest[lab.RECURRENCE] > 0.05
    assert greatest[lab.POSITIONS] > 0.3
    assert greatest[lab.DENSE] > 1
    assert not np.triu(result.layers[lab.RECURRENCE].weights, 1).any()
    attention, full = result.layers[lab.ATTENTION], result.layers[lab.DENSE]
    order = [*result.order]
    assert sorted(order) != order
    shuffled = attention.weights[np.ix_(order, order)]
    np.testing.assert_allclose(attention.shuffled_weights, shuffled, atol=1e-6)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(full.shuffled_weights, full.weights)


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
