"""The count of operations against torch's own counter on the plain model."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.bench.flops import Amount, forward_flops, training_flops
from nmt.bench.material import fixed_shape
from nmt.bench.sizes import Sizes, sizes_of
from nmt.data.batching import make_batch
from nmt.errors import ConfigError
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn_config import EncoderConfig
from nmt.ops.masks import keep_from_lengths

SIZES = Sizes(batch=3, src=5, tgt=7, embedding=11, hidden=13, vocabulary=129)


@pytest.mark.parametrize("encoder_hidden", [None, 17])
@pytest.mark.parametrize("attention_size", [None, 19])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_count_is_torchs(
    encoder_hidden: int | None, attention_size: int | None, bidirectional: bool
) -> None:
    config = SIZES.model().model_copy(
        update={"encoder": EncoderConfig(hidden=encoder_hidden, bidirectional=bidirectional)}
    )
    attention = config.attention.model_copy(update={"size": attention_size})
    # torch counts every product of the reference; the fused operations repeat some going backward.
    config = config.model_copy(update={"attention": attention, "backend": "reference"})
    material = fixed_shape(SIZES)
    (batch,) = material.batches
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


def test_padding_is_not_counted() -> None:
    batch = make_batch([(4, 5, 6), (7,)], [(8,), (9, 10, 11, 12)])
    assert Amount.of([batch]) == Amount(sentences=2, src=4 + 2, tgt=2 + 5, pairs=4 * 2 + 2 * 5)
    assert Amount.of([batch, batch]).tokens == 2 * 13


def test_a_fixed_shape_is_what_the_sizes_say() -> None:
    (batch,) = fixed_shape(SIZES).batches
    assert batch.src_ids.shape == (3, 5)
    assert batch.tgt_in.shape == batch.tgt_out.shape == (3, 7)
    assert fixed_shape(SIZES).amount == Amount(3, 15, 21, 105)
    assert torch.equal(batch.src_ids, fixed_shape(SIZES).batches[0].src_ids)
    assert int(batch.src_ids.max()) < SIZES.vocabulary


def test_sizes_by_name_and_by_key() -> None:
    assert sizes_of("standard", []) == Sizes()
    assert sizes_of("gpu", ["batch=7"]).batch == 7
    assert sizes_of("gpu", ["batch=7"]).vocabulary == 32000


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="`sizes`: got 'huge', allowed: standard, long, gpu"):
        sizes_of("huge", [])
