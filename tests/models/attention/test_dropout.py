"""Dropout on attention weights: when it acts, what it leaves as it is, and with which code."""

import pytest
import torch
from laws.family import ATTENTIONS, KINDS

from nmt.models.attention.scores import AdditiveConfig
from nmt.models.base import Memory
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths
from tests.ops.conftest import NEEDS_NATIVE

QUERY, MEMORY = 7, 11


def _memory() -> Memory:
    torch.manual_seed(3)
    keep = keep_from_lengths(torch.tensor([5, 2]), 5)
    return Memory(torch.randn(2, 5, MEMORY), keep, torch.zeros(2, 1, MEMORY))


def test_weights_are_dropped_and_the_others_scaled() -> None:
    """Of one-dimensional unit vectors the context is the weights themselves, after dropout."""
    torch.manual_seed(0)
    attention = AdditiveConfig(dropout=0.4).build(3, 5).train()
    one_hot = torch.eye(5).unsqueeze(0)
    state = attention.begin(Memory(one_hot, torch.ones(1, 5).bool(), one_hot[:, :1]))
    output = attention(torch.randn(1, 1, 3).expand(1, 5000, 3), state)
    torch.testing.assert_close(output.heads.sum(-1), torch.ones(1, 1, 5000))
    used, weights = output.context, output.heads[:, 0]
    dropped = used == 0
    torch.testing.assert_close(used[~dropped], (weights / 0.6)[~dropped])
    assert float(dropped.float().mean()) == pytest.approx(0.4, abs=0.02)
    torch.testing.assert_close(used.mean(1), weights.mean(1), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "name", [*(kind for kind in KINDS if kind != "none"), "general-local_p", "dot-sum"]
)
def test_every_kind_drops_in_training_only(name: str) -> None:
    """The same query then has different contexts, as d2l.ai's classes do; otherwise one."""
    config = ATTENTIONS[name].model_copy(update={"dropout": 0.5})
    conflicts = any(True for _ in config.conflicts(QUERY, MEMORY))
    size = MEMORY if conflicts and config.kind != "multi_head" else QUERY
    torch.manual_seed(0)
    attention = config.build(size, MEMORY)
    query, state = torch.randn(2, 1, size), attention.begin(_memory())
    first, *others = (attention.train()(query, state) for _ in range(9))
    assert any(not torch.allclose(first.context, other.context) for other in others)
    assert all(torch.equal(first.heads, other.heads) for other in others)
    state = attention.eval().begin(_memory())
    first, second = (attention(query, state) for _ in range(2))
    assert torch.equal(first.context, second.context)


def test_every_backend_trains_with_the_same_dropout() -> None:
    losses = []
    for backend in ("reference", "fused"):
        torch.manual_seed(0)
        losses.append(_training_logits(backend))
    torch.testing.assert_close(*losses)


@NEEDS_NATIVE
def test_native_trains_with_the_same_dropout() -> None:
    torch.testing.assert_close(_training_logits("native"), _training_logits("reference"))


def _training_logits(backend: str) -> torch.Tensor:
    sizes = {"embedding": 3, "hidden": 5, "dropout": 0.0, "backend": backend}
    attention = {"kind": "additive", "dropout": 0.5}
    torch.manual_seed(0)
    model = build_model(RNNConfig.model_validate({**sizes, "attention": attention}), 11, 11)
    args = torch.tensor([[5, 6, 3]]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[2, 5]])
    trained = model.train()(*args).logits
    assert not torch.equal(trained, model(*args).logits)
    model.eval()
    assert torch.equal(model(*args).logits, model(*args).logits)
    return trained.detach()
