"""The textbook's loop is the plain model, number for number, and its operations are as counted."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.bench.flops import Amount, forward_flops, training_flops
from nmt.bench.material import fixed_shape
from nmt.bench.sizes import Sizes, sizes_of
from nmt.bench.textbook import textbook_loss, textbook_of
from nmt.data.batching import make_batch
from nmt.decoding.search import search
from nmt.decoding.search_config import SearchConfig
from nmt.errors import ConfigError
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.recurrent.rnn_config import EncoderConfig
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import cross_entropy

SIZES = Sizes(batch=3, src=5, tgt=7, embedding=11, hidden=13, vocabulary=129)
SRC, TGT = 37, 41


def test_losses_gradients_and_translations_are_the_same() -> None:
    """In fp64, with weights large enough to matter; the keys are projected at every step."""
    torch.manual_seed(1)
    config = RNNConfig(embedding=7, hidden=11, dropout=0.0)
    plain = build_model(config, SRC, TGT).double()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    textbook = textbook_of(plain, config, SRC, TGT)
    calls: list[int] = []
    textbook.W_k.register_forward_hook(lambda *_: calls.append(1))
    batch = make_batch([(4, 5, 6, 7), (8,), (9, 10)], [(11, 12), (13, 14, 15, 16, 17), (18,)])
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    inputs = batch.src_ids, keep, batch.tgt_in
    outputs = [model(*inputs, True) for model in (plain, textbook)]
    assert len(calls) == batch.tgt_in.shape[1]
    torch.testing.assert_close(outputs[1].logits, outputs[0].logits)
    torch.testing.assert_close(outputs[1].weights, outputs[0].weights)
    loss = cross_entropy(plain(*inputs), batch.tgt_out)
    mean = loss.loss_sum / loss.n_tokens
    mean.backward()
    simple = textbook_loss(textbook.logits(*inputs), batch.tgt_out)
    simple.backward()
    torch.testing.assert_close(simple, mean, rtol=1e-6, atol=0)
    parameters = dict(plain.named_parameters())
    for name, twin in (
        ("W_k.weight", "decoder.attention.W_k.weight"),
        ("w_v.weight", "decoder.attention.w_v.weight"),
        ("cell.weight_hh", "decoder.cell.hidden_gates.weight"),
        ("encoder.weight_hh_l0_reverse", "encoder.rnn.weight_hh_l0_reverse"),
        ("first.bias", "decoder.initial.W_s.0.bias"),
    ):
        gradient, expected = textbook.get_parameter(name).grad, parameters[twin].grad
        assert float(expected.abs().max()) > 1e-6
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-7)
    results = [
        search(model.eval(), batch.src_ids, batch.src_lengths, SearchConfig(beam=3))
        for model in (plain, textbook)
    ]
    ids = [[[h.ids for h in hypotheses] for hypotheses in result] for result in results]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("encoder_hidden", "attention_size", "bidirectional"),
    [(None, None, True), (17, None, False), (None, 19, False), (17, 19, True)],
)
def test_the_count_is_torchs(
    encoder_hidden: int | None, attention_size: int | None, bidirectional: bool
) -> None:
    """On the reference: the fused operations repeat some going backward."""
    config = SIZES.model()
    encoder = EncoderConfig(hidden=encoder_hidden, bidirectional=bidirectional)
    attention = config.attention.model_copy(update={"size": attention_size})
    parts = {"encoder": encoder, "attention": attention, "backend": "reference"}
    config = config.model_copy(update=parts)
    material = fixed_shape(SIZES)
    [batch] = material.batches
    model = build_model(config, SIZES.vocabulary, SIZES.vocabulary).double()
    with FlopCounterMode(display=False) as counter:
        keep = keep_from_lengths(batch.src_lengths, SIZES.src)
        logits = model(batch.src_ids, keep, batch.tgt_in).logits
        forward = counter.get_total_flops()
        logits.sum().backward()
    assert forward_flops(config, material.amount, SIZES.vocabulary) == forward
    # Nobody asks for the gradient of the encoder's first states.
    reader = config.encoder.hidden or config.hidden
    not_needed = 2 * SIZES.batch * reader * 3 * config.memory_size
    counted = training_flops(config, material.amount, SIZES.vocabulary)
    assert counted - not_needed == counter.get_total_flops()


def test_amounts_and_sizes() -> None:
    batch = make_batch([(4, 5, 6), (7,)], [(8,), (9, 10, 11, 12)])
    assert Amount.of([batch]) == Amount(sentences=2, src=4 + 2, tgt=2 + 5, pairs=4 * 2 + 2 * 5)
    assert Amount.of([batch, batch]).tokens == 2 * 13
    [batch] = fixed_shape(SIZES).batches
    assert batch.src_ids.shape == (3, 5)
    assert batch.tgt_in.shape == batch.tgt_out.shape == (3, 7)
    assert fixed_shape(SIZES).amount == Amount(3, 15, 21, 105)
    assert torch.equal(batch.src_ids, fixed_shape(SIZES).batches[0].src_ids)
    assert int(batch.src_ids.max()) < SIZES.vocabulary
    assert sizes_of("standard", []) == Sizes()
    assert (sizes_of("gpu", ["batch=7"]).batch, sizes_of("gpu", []).vocabulary) == (7, 32000)
    with pytest.raises(ConfigError, match="`sizes`: got 'huge', allowed: standard, long, gpu"):
        sizes_of("huge", [])
