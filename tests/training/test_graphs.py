"""Updates by CUDA graphs are those without, on a GPU, real or pretend."""

import random

import pytest
import torch
from devices import IS_CPU
from laws.family import RECORDED, TGT_VOCAB, UNORDERED, model_of

from nmt.batches.batching import Batch, make_batch
from nmt.optim.losses import CrossEntropy, Loss, RDrop
from nmt.optim.optimizers import AdamConfig
from nmt.training.graphs import TrainingGraphs
from nmt.training.step import StepSettings, queue_step, read_results, train_step

pytestmark = pytest.mark.skipif(IS_CPU, reason="CUDA graphs are for a GPU")


def batches(n: int) -> list[Batch]:
    """Of two padded shapes, in turn."""
    draw = random.Random(1)

    def side(*lengths: int) -> list[tuple[int, ...]]:
        return [tuple(draw.choices(range(4, TGT_VOCAB), k=length)) for length in lengths]

    pairs = [(side(5, 2, 3 + i % 2 * 6), side(4, 6, 1)) for i in range(n)]
    return [make_batch(*pair).pad_to_multiple((12, 8)) for pair in pairs]


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *((name, CrossEntropy(0.1)) for name in RECORDED),
        ("rnn", RDrop(0.1, 5.0)),
        ("rnn-hard", RDrop(0.1, 5.0)),
        ("transformer-relative", RDrop(0.1, 5.0)),
    ],
)
def test_graphs_leave_the_bits_of_updates_without(name: str, loss: Loss) -> None:
    weights, losses, recorded = [], [], 0
    for has_graphs in (False, True):
        model = model_of(name, dropout=0.2).train()
        optimizer = AdamConfig().build(model.named_parameters(), 1e-2)
        graphs = TrainingGraphs(model) if has_graphs else None
        settings = StepSettings(loss=loss, clip_norm=1.0, graphs=graphs)
        torch.manual_seed(4)
        losses.append(
            [train_step(model, optimizer, [batch], settings).nll_sum for batch in batches(9)]
        )
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
        recorded = len(graphs._graphs) if graphs else 0
    assert recorded == 2
    if name in UNORDERED:
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
        return
    assert losses[0] == losses[1]
    assert all(map(torch.equal, *weights))


def test_results_are_read_later() -> None:
    results = []
    for is_queued in (False, True):
        model = model_of("rnn").train()
        optimizer = AdamConfig().build(model.named_parameters(), 1e-2)
        step = queue_step if is_queued else train_step
        done = [step(model, optimizer, [batch], StepSettings()) for batch in batches(4)]
        results.append(read_results(done) if is_queued else done)  # type: ignore[arg-type]
    assert results[0] == results[1]
