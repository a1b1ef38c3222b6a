"""Laws that every architecture obeys: search, training and maps rely on nothing else."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import torch
from laws.family import SRC_VOCAB, TGT_VOCAB

from nmt.data.batching import pad_ids
from nmt.models.base import DecoderOutput, Seq2Seq, State
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.types import AttentionKind

Weights = dict[AttentionKind, torch.Tensor]

LENGTHS = (11, 2, 5, 1, 7)
T = 3


def _sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [
        [*torch.randint(4, SRC_VOCAB, (n - 1,), generator=generator).tolist(), EOS_ID]
        for n in LENGTHS
    ]


def _prefixes() -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    pieces = torch.randint(4, TGT_VOCAB, (len(LENGTHS), T - 1), generator=generator)
    return torch.cat([torch.full((len(LENGTHS), 1), BOS_ID), pieces], dim=1)


def _run(model: Seq2Seq, rows: list[list[int]], tgt_in: torch.Tensor) -> DecoderOutput:
    lengths = torch.tensor([len(row) for row in rows])
    src_ids = pad_ids(rows)
    keep = keep_from_lengths(lengths, src_ids.shape[1])
    output: DecoderOutput = model(src_ids, keep, tgt_in, with_weights=True)
    return output


def test_forward_equals_the_steps(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    output = _run(model, sources, tgt_in)
    src_ids = pad_ids(sources)
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    for start in (model.init_state, model.init_search_state):
        state = start(model.encode(src_ids, keep))
        for t in range(T):
            step = model.step(tgt_in[:, t], state)
            torch.testing.assert_close(step.logits, output.logits[:, t])
            torch.testing.assert_close(step.weights, output.weights[:, t])
            state = step.state


def test_a_batch_equals_its_sentences_one_by_one(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    together = _run(model, sources, tgt_in)
    for i, source in enumerate(sources):
        alone = _run(model, [source], tgt_in[i : i + 1])
        torch.testing.assert_close(alone.logits[0], together.logits[i])
        torch.testing.assert_close(alone.weights[0], together.weights[i, :, : len(source)])


def test_padding_is_invisible_whatever_stands_in_it(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    src_ids = pad_ids(sources)
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    noisy = torch.where(keep, src_ids, torch.full_like(src_ids, 17))
    plain, other = model(src_ids, keep, tgt_in, True), model(noisy, keep, tgt_in, True)
    torch.testing.assert_close(plain.logits, other.logits)
    assert (plain.weights[~keep.unsqueeze(1).expand_as(plain.weights)] == 0).all()


def test_weights_sum_to_one(model: Seq2Seq) -> None:
    weights = _run(model, _sources(), _prefixes()).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_the_future_is_invisible(model: Seq2Seq) -> None:
    tgt_in = _prefixes()
    changed = tgt_in.clone()
    changed[:, -1] = (changed[:, -1] + 1 - 4) % (TGT_VOCAB - 4) + 4
    first, second = _run(model, _sources(), tgt_in), _run(model, _sources(), changed)
    torch.testing.assert_close(first.logits[:, :-1], second.logits[:, :-1])
    assert not torch.allclose(first.logits[:, -1], second.logits[:, -1])


def test_every_source_piece_matters(model: Seq2Seq) -> None:
    source, tgt_in = _sources()[0], _prefixes()[:1]
    plain = _run(model, [source], tgt_in).logits
    for i in range(len(source)):
        changed = [*source]
        changed[i] = 4 if source[i] != 4 else 5
        assert not torch.allclose(plain, _run(model, [changed], tgt_in).logits, atol=1e-9), i


def test_rows_that_pad_the_vocabulary_have_no_probability(model: Seq2Seq) -> None:
    output = _run(model, _sources(), _prefixes())
    assert output.logits.shape[-1] == TGT_VOCAB
    table = output.vocabulary.table_logits(output.features)
    assert table.shape[-1] == 64
    assert (table.float().softmax(-1)[..., TGT_VOCAB:] == 0).all()


def test_select_takes_rows_of_a_state(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    src_ids = pad_ids(sources)
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    state = model.step(tgt_in[:, 0], model.init_state(model.encode(src_ids, keep))).state
    rows = torch.tensor([4, 0, 0, 2])
    whole = model.step(tgt_in[:, 1], state)
    chosen = model.step(tgt_in[rows, 1], state.select(rows))
    torch.testing.assert_close(chosen.logits, whole.logits[rows])
    torch.testing.assert_close(chosen.weights, whole.weights[rows])


@torch.inference_mode()
def test_rows_of_a_sentence_part_and_meet_again(model: Seq2Seq) -> None:
    """As in a beam: rows multiply, part, trade places and sentences end, step by step."""
    src_ids, more = pad_ids(_sources()), _prefixes()
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    state = model.init_state(model.encode(src_ids, keep))
    origins, prefixes = torch.arange(len(LENGTHS)), torch.empty(len(LENGTHS), 0, dtype=torch.long)
    generator = torch.Generator().manual_seed(6)
    for chosen in ([0, 0, 0, 1, 2, 2, 3, 4], [7, 1, 0, 5, 4, 1, 6, 6], [7, 6, 1, 5, 3], [4, 2]):
        rows = torch.tensor(chosen)
        last_ids = torch.randint(4, TGT_VOCAB, rows.shape, generator=generator)
        origins, state = origins[rows], state.select(rows)
        prefixes = torch.cat([prefixes[rows], last_ids.unsqueeze(1)], dim=1)
        step = model.step(last_ids, state)
        later = model.teacher_forced(more[origins], step.state, with_weights=True)
        both = torch.cat([prefixes, more[origins]], dim=1)
        expected = model(src_ids[origins], keep[origins], both, with_weights=True)
        torch.testing.assert_close(step.logits, expected.logits[:, -T - 1])
        torch.testing.assert_close(step.weights, expected.weights[:, -T - 1])
        torch.testing.assert_close(later.logits, expected.logits[:, -T:])
        torch.testing.assert_close(later.heads, expected.heads[:, :, -T:])
        state = step.state


def test_a_sentence_is_held_once_for_all_its_rows(model: Seq2Seq) -> None:
    src_ids = pad_ids(_sources())
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    state = model.init_state(model.encode(src_ids, keep))
    held = [tensor.data_ptr() for tensor in _keys_and_values(state)]
    assert len(held) >= 2
    spread = state.select(torch.arange(len(LENGTHS)).repeat_interleave(3))
    assert [tensor.data_ptr() for tensor in _keys_and_values(spread)] == held
    fewer = spread.select(torch.tensor([14, 3, 5]))
    assert [len(tensor) for tensor in _keys_and_values(fewer)] == [2] * len(held)


def _keys_and_values(state: State) -> list[torch.Tensor]:
    """Those of the source: what has one more dimension than sentences and positions."""
    return [t for t in _tensors(state) if t.dim() > 2 and t.shape[-2] == max(LENGTHS)]


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))


def test_every_parameter_learns_and_padding_rows_do_not(model: Seq2Seq) -> None:
    torch.manual_seed(5)
    output = _run(model.train(), _sources(), _prefixes())
    log_likelihoods = output.logits[..., :TGT_VOCAB].log_softmax(-1)[..., 5]
    total = log_likelihoods.sum()
    if output.auxiliary_loss is not None:
        keep = torch.ones_like(log_likelihoods, dtype=torch.bool)
        total = total + output.auxiliary_loss.loss_sum(keep, log_likelihoods.detach().flatten())
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
        if parameter.shape[0] == 64:
            assert (parameter.grad[TGT_VOCAB:] == 0).all(), name


def test_a_pass_stores_nothing_on_the_model(model: Seq2Seq) -> None:
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    _run(model, _sources(), _prefixes())
    _attention_weights(model, _sources(), _prefixes())
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def test_weights_are_the_mean_of_the_heads_and_cost_no_change(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    src_ids = pad_ids(sources)
    keep = keep_from_lengths(torch.tensor(LENGTHS), src_ids.shape[1])
    plain, output = model(src_ids, keep, tgt_in), _run(model, sources, tgt_in)
    assert plain.weights is None
    assert plain.heads is None
    torch.testing.assert_close(plain.logits, output.logits)
    torch.testing.assert_close(output.heads[:, model.shown_heads].mean(dim=1), output.weights)
    assert output.heads.shape[1] == len(model.head_names)


def _attention_weights(model: Seq2Seq, rows: list[list[int]], tgt_in: torch.Tensor) -> Weights:
    src_ids = pad_ids(rows)
    keep = keep_from_lengths(torch.tensor([len(row) for row in rows]), src_ids.shape[1])
    return model.attention_weights(src_ids, keep, tgt_in)


def test_every_attention_gives_the_weights_of_its_named_heads(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    found, names = _attention_weights(model, sources, tgt_in), model.names_by_attention
    sizes = {"encoder": (max(LENGTHS),) * 2, "decoder": (T, T), "cross": (T, max(LENGTHS))}
    assert found.keys() == names.keys()
    for kind, weights in found.items():
        assert weights.shape == (len(LENGTHS), len(names[kind]), *sizes[kind])
    assert len({name for each in names.values() for name in each}) == sum(map(len, names.values()))
    assert names["cross"] == model.head_names
    torch.testing.assert_close(found["cross"], _run(model, sources, tgt_in).heads)


def test_self_attention_sums_to_one_over_what_may_be_seen(model: Seq2Seq) -> None:
    found = _attention_weights(model, _sources(), _prefixes())
    for length, encoder in zip(LENGTHS, found.get("encoder", ()), strict=False):
        rows = encoder[:, :length]
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
        assert (rows[..., length:] == 0).all()
    if "decoder" in found:
        decoder = found["decoder"]
        torch.testing.assert_close(decoder.sum(-1), torch.ones_like(decoder[..., 0]))
        assert (decoder.triu(1) == 0).all()


def test_self_attention_of_a_batch_is_that_of_its_sentences(model: Seq2Seq) -> None:
    sources, tgt_in = _sources(), _prefixes()
    together = _attention_weights(model, sources, tgt_in)
    for i, source in enumerate(sources):
        alone = _attention_weights(model, [source], tgt_in[i : i + 1])
        for kind, weights in alone.items():
            _, _, n_rows, n_columns = weights.shape
            torch.testing.assert_close(weights[0], together[kind][i, :, :n_rows, :n_columns])
