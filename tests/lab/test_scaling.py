"""What the experiment on scaling says is so."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.errors import ConfigError
from nmt.lab.figure import house_style
from nmt.lab.perform import perform
from nmt.lab.scaling import CONFIGS, ScalingOptions, ScalingResult, draw, measure, run


@pytest.fixture(scope="module", params=[1, 2])
def result(request: pytest.FixtureRequest) -> ScalingResult:
    return run(ScalingOptions(seed=request.param, sizes=(4, 32, 256, 1024), draws=5))


def means(result: ScalingResult, kind: str, name: str) -> np.ndarray:
    return result.kinds[kind].measures[name].mean


def test_the_variance_of_dot_is_d_and_the_factor_makes_it_1(result: ScalingResult) -> None:
    sizes = np.array(result.options.sizes)
    np.testing.assert_allclose(means(result, "dot", "variance"), sizes, rtol=0.25)
    np.testing.assert_allclose(means(result, "scaled_dot", "variance"), 1, rtol=0.25)
    np.testing.assert_allclose(
        means(result, "dot", "variance"), means(result, "scaled_dot", "variance") * sizes, rtol=1e-5
    )
    assert np.ptp(means(result, "additive", "variance")) < 0.5


def test_without_the_factor_the_softmax_becomes_a_choice(result: ScalingResult) -> None:
    dot, scaled = (means(result, kind, "entropy") for kind in ("dot", "scaled_dot"))
    assert np.all(np.diff(dot) < 0)
    assert dot[-1] < 0.3 < 2.7 < scaled.min()
    assert means(result, "additive", "entropy").min() > 2.7
    assert result.kinds["dot"].weights[-1, 0] > 0.6 > 0.4 > result.kinds["scaled_dot"].weights.max()


def test_without_the_factor_the_gradient_vanishes(result: ScalingResult) -> None:
    dot, scaled, additive = (
        means(result, kind, "median_gradient") for kind in ("dot", "scaled_dot", "additive")
    )
    assert dot[-1] < 0.05 * dot[0]
    assert means(result, "dot", "gradient")[-1] < 0.5 * means(result, "dot", "gradient")[0]
    for kind in (scaled, additive):
        assert 0.7 < kind[-1] / kind[0] < 1.5


def test_the_bilinear_form_needs_the_factor_as_dot_does() -> None:
    found = run(ScalingOptions(kinds=("general", "concat", "gaussian"), sizes=(16, 256), draws=4))
    assert means(found, "general", "variance")[1] > 8 * means(found, "general", "variance")[0]
    assert means(found, "concat", "variance")[1] < 2 * means(found, "concat", "variance")[0]
    np.testing.assert_allclose(means(found, "gaussian", "variance"), 1, rtol=0.35)


def test_the_gradient_is_the_jacobians_norm() -> None:
    scores = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = measure(scores)
    norms = []
    for row in scores:
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(dim=-1), row)
        norms.append(float(jacobian.norm()))
    assert found["gradient"] == pytest.approx(np.mean(norms))
    assert found["median_gradient"] == pytest.approx(np.median(norms))
    assert found["variance"] == pytest.approx(np.var(scores.numpy(), axis=1, ddof=1).mean())


def test_equal_scores_have_the_greatest_entropy() -> None:
    assert measure(torch.zeros(3, 11))["entropy"] == pytest.approx(math.log(11), rel=1e-6)
    sure = measure(torch.tensor([[1000.0, 0.0, 0.0]]))
    assert (sure["entropy"], sure["gradient"]) == (0, 0)


def test_many_kinds_have_colours_and_titles_apart() -> None:
    kinds = list(CONFIGS)
    options = {"kinds": kinds, "sizes": [1, 2], "draws": 2}
    with house_style():
        figure = draw(run(ScalingOptions.model_validate(options)))
        figure.canvas.draw()
    panels = [axes for axes in figure.axes if axes.get_title("left") in kinds]
    boxes = [axes._left_title.get_window_extent() for axes in panels]
    assert len(boxes) == len(kinds)
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    curves = [line for line in figure.axes[0].get_lines() if line.get_label() in kinds]
    assert len({line.get_color() for line in curves}) == len(curves) == len(kinds)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sizes=[0, 3]", "sizes.0: got 0, allowed: > 0"),
        ("sizes=[]", "sizes: got [], allowed: a list of one or more"),
        ("sizes=3", "sizes: got 3, allowed: a list"),
        ("kinds=[dott]", "kinds.0: got 'dott', allowed: 'dot', 'scaled_dot', 'additive', 'ge"),
        ("draws=1", "draws: got 1, allowed: >= 2"),
    ],
)
def test_wrong_options_are_a_line(override: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        perform("scaling", [override], tmp_path)
    assert str(error.value).startswith(f"override {override}: {message}")
    assert "\n" not in str(error.value)
