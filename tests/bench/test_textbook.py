"""The textbook's loop is the plain model, number for number."""

import pytest
import torch

from nmt.bench.textbook import TextbookSeq2Seq, textbook_loss, textbook_of
from nmt.data.batching import Batch, make_batch
from nmt.decoding.search import search
from nmt.decoding.search_config import SearchConfig
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths
from nmt.training.loss import cross_entropy

SRC, TGT = 37, 41
CONFIG = RNNConfig(embedding=7, hidden=11, dropout=0.0)

Pair = tuple[Seq2Seq, TextbookSeq2Seq]


@pytest.fixture
def pair() -> Pair:
    """The two, in fp64, with weights large enough to matter."""
    torch.manual_seed(1)
    plain = build_model(CONFIG, SRC, TGT).double()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return plain, textbook_of(plain, CONFIG, SRC, TGT)


@pytest.fixture
def batch() -> Batch:
    return make_batch([(4, 5, 6, 7), (8,), (9, 10)], [(11, 12), (13, 14, 15, 16, 17), (18,)])


def forward(model: Seq2Seq, batch: Batch) -> torch.Tensor:
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    return model(batch.src_ids, keep, batch.tgt_in).logits


def test_logits_and_weights_are_the_same(pair: Pair, batch: Batch) -> None:
    plain, textbook = pair
    torch.testing.assert_close(forward(textbook, batch), forward(plain, batch))
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    weights = [model(batch.src_ids, keep, batch.tgt_in, True).weights for model in pair]
    torch.testing.assert_close(weights[1], weights[0])


def test_losses_and_gradients_are_the_same(pair: Pair, batch: Batch) -> None:
    plain, textbook = pair
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    args = batch.src_ids, keep, batch.tgt_in
    loss = cross_entropy(plain(*args), batch.tgt_out)
    (loss.loss_sum / loss.n_tokens).backward()
    own = textbook_loss(textbook.logits(*args), batch.tgt_out)
    own.backward()
    assert float(own.detach()) == pytest.approx(
        float((loss.loss_sum / loss.n_tokens).detach()), rel=1e-6
    )
    of_plain = dict(plain.named_parameters())
    for name, other in [
        ("W_k.weight", "decoder.attention.W_k.weight"),
        ("W_q.weight", "decoder.attention.W_q.weight"),
        ("w_v.weight", "decoder.attention.w_v.weight"),
        ("cell.weight_hh", "decoder.cell.hidden_gates.weight"),
        ("encoder.weight_hh_l0_reverse", "encoder.rnn.weight_hh_l0_reverse"),
        ("first.bias", "decoder.initial.W_s.0.bias"),
    ]:
        mine, its = textbook.get_parameter(name).grad, of_plain[other].grad
        assert float(its.abs().max()) > 1e-6
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-7)


def test_they_find_the_same_translations(pair: Pair, batch: Batch) -> None:
    config = SearchConfig(beam=3)
    found = [search(model.eval(), batch.src_ids, batch.src_lengths, config) for model in pair]
    assert [[h.ids for h in hypotheses] for hypotheses in found[0]] == [
        [h.ids for h in hypotheses] for hypotheses in found[1]
    ]


def test_the_keys_are_projected_at_every_step(pair: Pair, batch: Batch) -> None:
    calls: list[int] = []
    pair[1].W_k.register_forward_hook(lambda *_: calls.append(1))
    forward(pair[1], batch)
    assert len(calls) == batch.tgt_in.shape[1]
