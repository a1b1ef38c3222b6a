"""Laws of one update: what it depends on, when it refuses, and what an error leaves behind."""

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
import torch
from training.toy import toy_state

from nmt.batches.batching import Batch, make_batch
from nmt.optim.losses import CrossEntropy, Loss, LossSum, RDrop
from nmt.training.distributed import ALONE, Ranks
from nmt.training.state import TrainingState
from nmt.training.step import (
    DivergedError,
    LossFunction,
    StepResult,
    StepSettings,
    train_step,
    translation_loss,
)

PAIRS = [((5, 6, 7), (8,)), ((9,), (4, 5, 6, 7)), ((4, 4), (6, 5)), ((8, 7), (9, 9, 9))]


def batch(first: int = 0, last: int | None = None) -> Batch:
    return make_batch(*zip(*PAIRS[first:last], strict=True))


def sgd_state() -> TrainingState:
    """Plain SGD with a rate of 1: a change of a weight is its gradient."""
    torch.manual_seed(3)
    state = toy_state(optimizer={"kind": "sgd"}, lr=1.0)
    state.model.train()
    return state


def step(
    state: TrainingState,
    group: Sequence[Batch],
    loss_function: LossFunction = translation_loss,
    **settings: Any,
) -> StepResult:
    options = StepSettings(**settings)
    return train_step(state.model, state.optimizer, group, options, loss_function)


def everything(state: TrainingState) -> dict[str, torch.Tensor]:
    """Copies of the weights and of the optimiser's tensors."""
    tensors, _ = state.state_dict()
    optimizer = {name: t for name, t in tensors.items() if name.startswith("optimizer.")}
    return deepcopy({**state.model.state_dict(), **optimizer})


def assert_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=0)


@pytest.mark.parametrize("loss", [CrossEntropy(), RDrop(0.1, 5.0)])
@pytest.mark.parametrize("cuts", [(0, 4), (0, 1, 4), (0, 2, 4), (0, 1, 2, 3, 4)])
def test_an_update_does_not_depend_on_how_its_tokens_are_cut(
    cuts: tuple[int, ...], loss: Loss
) -> None:
    """Micro-batches give the same gradient and the same loss, and a scaler changes nothing."""
    unsplit, parts = sgd_state(), sgd_state()
    expected = step(unsplit, [batch()], clip_norm=0.5, loss=loss)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    group = [batch(first, last) for first, last in pairwise(cuts)]
    result = step(parts, group, clip_norm=0.5, scaler=scaler, loss=loss)
    assert result.n_tokens == expected.n_tokens == sum(len(tgt) + 1 for _, tgt in PAIRS)
    assert result.nll_sum == pytest.approx(expected.nll_sum, rel=1e-6)
    assert result.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    weights = unsplit.model.state_dict()
    torch.testing.assert_close(parts.model.state_dict(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip_norm", [None, 0.01, 1e6])
def test_the_loss_and_the_norm_are_those_of_the_weights_before(clip_norm: float | None) -> None:
    """The change is minus the gradient, but no longer than `clip_norm`."""
    state = sgd_state()
    loss = translation_loss(state.model, batch(), StepSettings())
    (loss.loss_sum / batch().n_tokens).backward()  # type: ignore[no-untyped-call]
    gradients = {n: p.grad for n, p in state.model.named_parameters() if p.grad is not None}
    state.optimizer.zero_grad()
    before = everything(state)
    result = step(state, [batch()], clip_norm=clip_norm)
    assert result.nll_sum == float(loss.nll_sum)
    assert result.loss == float(loss.nll_sum) / batch().n_tokens
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
    assert result.grad_norm == pytest.approx(norm, rel=1e-5)
    share = min(clip_norm / norm, 1.0) if clip_norm else 1.0
    for name, gradient in gradients.items():
        change = state.model.get_parameter(name) - before[name]
        torch.testing.assert_close(change, -share * gradient, rtol=1e-3, atol=1e-6)


def poisoned(value: float, in_loss: bool) -> Any:
    """The loss, with `value` in its sum or in the gradient alone."""

    def loss_function(model: Any, micro_batch: Batch, settings: StepSettings) -> LossSum:
        loss = translation_loss(model, micro_batch, settings)
        if in_loss:
            return loss._replace(nll_sum=loss.nll_sum * value)
        return loss._replace(loss_sum=loss.loss_sum * value)

    return loss_function


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("in_loss", "what"), [(True, "loss is "), (False, "gradient norm is ")])
def test_nan_is_refused_before_anything_changes(value: float, in_loss: bool, what: str) -> None:
    state = toy_state()  # Adam
    step(state, [batch()])
    before = everything(state)
    with pytest.raises(DivergedError, match=what):
        step(state, [batch(0, 2), batch(2)], poisoned(value, in_loss))
    assert_same(everything(state), before)


def test_a_scaler_skips_an_overflow_and_lowers_its_scale() -> None:
    state = toy_state()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    weights = deepcopy(state.model.state_dict())
    result = step(state, [batch()], poisoned(math.inf, in_loss=False), scaler=scaler)
    assert not math.isfinite(result.grad_norm)
    assert math.isfinite(result.loss)
    assert scaler.get_scale() == 32.0
    assert_same(state.model.state_dict(), weights)


def test_a_rank_without_a_micro_batch_can_have_a_scaler() -> None:
    """Also in the first update of a process, when the scaler has no scale on the device yet."""

    class Second(Ranks):
        """The other rank's share has all tokens and all gradients."""

        def sum(self, *values: float) -> list[float]:
            return [7.0 for _ in values]

        def sum_gradients(self, parameters: Any, model: Any) -> None:
            for parameter in parameters:
                parameter.grad = 64.0 * torch.ones_like(parameter)

    state, before = sgd_state(), sgd_state().model.state_dict()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    step(state, [], scaler=scaler, ranks=Second(1, 2, 1))
    for name, parameter in state.model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] - 1.0)


def test_an_error_before_the_change_leaves_all_as_it_was() -> None:
    """In a micro-batch after another, or as a rank is lost."""

    class Lost(Ranks):
        def sum(self, *values: float) -> list[float]:
            raise ZeroDivisionError

    def failing(model: Any, micro_batch: Batch, settings: StepSettings) -> LossSum:
        if any(p.grad is not None for p in model.parameters()):
            raise ZeroDivisionError
        return translation_loss(model, micro_batch, settings)

    state = sgd_state()
    before = everything(state)
    for loss_function, ranks in ((failing, ALONE), (translation_loss, Lost(0, 2, 0))):
        with pytest.raises(ZeroDivisionError):
            step(state, [batch(0, 2), batch(2)], loss_function, ranks=ranks)
        assert_same(everything(state), before)
        assert all(p.grad is None for p in state.model.parameters())
        for parameter in state.model.parameters():
            parameter.grad = torch.ones_like(parameter)
