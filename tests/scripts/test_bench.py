"""bench.py on tiny sizes: the textbook's loop is the model, operations are torch's."""

import json
from functools import partial

import bench
import measuring
import pytest
import torch
from bench import Sizes, fixed_shape
from measuring import Amount, Reading, forward_flops
from textbook import textbook_loss, textbook_of
from torch.utils.flop_counter import FlopCounterMode

from nmt.batches.batching import make_batch
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.recurrent.rnn_config import EncoderConfig
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import cross_entropy
from nmt.training.step import StepSettings

SIZES = Sizes(batch=3, src=5, tgt=7, embedding=11, hidden=13, vocabulary=129)


def test_textbook_has_the_models_logits_loss_and_gradients() -> None:
    """In fp64, with weights large enough to matter; the keys are projected at every step."""
    torch.manual_seed(1)
    config = RNNConfig(embedding=7, hidden=11, dropout=0.0)
    plain = build_model(config, 37, 41).double().eval()  # in training padding is embedded as 0
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    textbook = textbook_of(plain, config, 37, 41)
    calls: list[int] = []
    textbook.W_k.register_forward_hook(lambda *_: calls.append(1))
    batch = make_batch([(4, 5, 6, 7), (8,), (9, 10)], [(11, 12), (13, 14, 15, 16, 17), (18,)])
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    output = plain(batch.src_ids, keep, batch.tgt_in)
    logits = textbook(batch.src_ids, keep, batch.tgt_in)
    torch.testing.assert_close(logits, output.logits)
    assert len(calls) == batch.tgt_in.shape[1]
    loss = cross_entropy(output, batch.tgt_out)
    loss.loss_sum.backward()
    simple = textbook_loss(textbook, batch, StepSettings())
    simple.loss_sum.backward()
    torch.testing.assert_close(simple.loss_sum, loss.loss_sum, rtol=1e-6, atol=0)
    for name, twin in (
        ("W_k.weight", "decoder.attention.W_k.weight"),
        ("cell.weight_hh", "decoder.cell.hidden_gates.weight"),
        ("first.bias", "decoder.initial.W_s.0.bias"),
    ):
        gradient, expected = textbook.get_parameter(name).grad, plain.get_parameter(twin).grad
        assert gradient is not None
        assert float(gradient.abs().max()) > 1e-6
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("encoder_hidden", "size", "both_ways"), [(None, 19, 1), (17, None, 0)])
def test_the_count_is_torchs(encoder_hidden, size, both_ways) -> None:
    """On the reference: the fused operations repeat some going backward."""
    config = SIZES.model()
    encoder = EncoderConfig(hidden=encoder_hidden, bidirectional=bool(both_ways))
    attention = config.attention.model_copy(update={"size": size})
    parts = {"encoder": encoder, "attention": attention, "backend": "reference"}
    config = config.model_copy(update=parts)
    material = fixed_shape(SIZES)
    assert material.amount == Amount(sentences=3, src=15, tgt=21, pairs=105)
    [batch] = material.batches
    model = build_model(config, SIZES.vocabulary, SIZES.vocabulary).double()
    keep = keep_from_lengths(batch.src_lengths, SIZES.src)
    with FlopCounterMode(display=False) as counter:
        logits = model(batch.src_ids, keep, batch.tgt_in).logits
        forward = counter.get_total_flops()
        logits.sum().backward()
    assert forward_flops(config, material.amount, SIZES.vocabulary) == forward
    # Nobody asks for the gradient of the encoder's first states.
    reader = config.encoder.hidden or config.hidden
    not_needed = 2 * SIZES.batch * reader * 3 * config.memory_size
    assert 3 * forward - not_needed == counter.get_total_flops()


def test_the_report_is_complete_and_strict_fails_when_busy(monkeypatch, capsys) -> None:
    seconds = iter(range(1000))
    busy = 0.4

    def read() -> Reading:
        at = next(seconds)
        return Reading(at=at, busy_seconds=at * busy, own_seconds=0.0)

    monkeypatch.setattr(measuring, "read_cpu", read)
    monkeypatch.setattr(bench, "configure_process", lambda threads: None)
    small = partial(bench.ceiling, sizes=(16,))
    monkeypatch.setattr(bench, "ceiling", lambda precision, device, _: small(precision, device))
    monkeypatch.setattr(bench, "measure_memory", lambda plan: None)
    options = ["--sizes", "tiny", "--rounds", "1", "--precision", "bf16"]
    assert bench.main([*bench.PARTS, *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["sections"]) == 3
    training, decoding = report["sections"][0]["rows"], report["sections"][1]["rows"]
    assert list(training) == ["nmt bf16", "nmt", "plain", "textbook"]
    assert training["textbook"]["times the last"] == 1
    for row in training.values():
        assert row["target tokens/s"] == pytest.approx(row["tokens/s"] * 7 / 12)
    assert decoding["nmt"]["target tokens/s"] == pytest.approx(7 * decoding["nmt"]["sentences/s"])
    assert bench.main(["decoding", *options, "--strict"]) == 1
    busy = 0.0
    assert bench.main(["decoding", *options, "--strict"]) == 0
    assert bench.main(["speed"]) == 2
