"""Laws that every architecture obeys: search, training and maps rely on nothing else."""

from collections.abc import Iterator
from dataclasses import is_dataclass

import pytest
import torch
from devices import IS_CPU, cpu_only
from laws.family import TGT_VOCAB, model_of, perturbed, sources

from nmt.batches.batching import pad_ids
from nmt.models.base import DecoderOutput, Seq2Seq, State
from nmt.models.quantized import quantize_model
from nmt.models.recurrent.cells import CELLS, Cell, CellState
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID

LENGTHS = (11, 2, 5, 1, 7)
B, S, T = len(LENGTHS), max(LENGTHS), 3
SOURCES = sources(LENGTHS)
KEEP = keep_from_lengths(torch.tensor(LENGTHS), S)
SRC_IDS = torch.where(KEEP, pad_ids(SOURCES), 17)  # a piece in the padding, which nobody may see
TGT_IN = torch.randint(4, TGT_VOCAB, (B, T), generator=torch.Generator().manual_seed(4))
TGT_IN[:, 0] = BOS_ID


def _run(model: Seq2Seq) -> DecoderOutput:
    return model(SRC_IDS, KEEP, TGT_IN, with_weights=True)


def _logits_alone(model: Seq2Seq, i: int, source: list[int]) -> torch.Tensor:
    src_ids = torch.tensor([source])
    return model(src_ids, src_ids >= 0, TGT_IN[i : i + 1]).logits[0]


def test_forward_equals_the_steps(model: Seq2Seq) -> None:
    """Steps have not seen the future, so that it is invisible in the forward pass."""
    output = _run(model)
    for start in (model.init_state, model.init_search_state):
        state = start(model.encode(SRC_IDS, KEEP))
        for t in range(T):
            step = model.step(TGT_IN[:, t], state)
            torch.testing.assert_close(step.logits, output.logits[:, t])
            torch.testing.assert_close(step.weights, output.weights[:, t])
            state = step.state


def test_a_batch_equals_its_sentences_one_by_one(model: Seq2Seq) -> None:
    """Logits and every map of attention, whose rows sum to 1, with nothing on padding."""
    together, maps = _run(model), model.attention_weights(SRC_IDS, KEEP, TGT_IN)
    for i, source in enumerate(SOURCES):
        torch.testing.assert_close(_logits_alone(model, i, source), together.logits[i])
        src_ids = torch.tensor([source])
        alone = model.attention_weights(src_ids, src_ids >= 0, TGT_IN[i : i + 1])
        for kind, [weights] in alone.items():
            _, n_rows, n_columns = weights.shape
            rows = maps[kind][i, :, :n_rows]
            torch.testing.assert_close(rows[..., :n_columns], weights)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
            assert (rows[..., n_columns:] == 0).all()
    if "decoder" in maps:
        assert (maps["decoder"].triu(1) == 0).all()


def test_every_source_piece_matters(model: Seq2Seq) -> None:
    source = SOURCES[0]
    plain = _logits_alone(model, 0, source)
    for i, piece in enumerate(source):
        changed = [*source[:i], 4 if piece != 4 else 5, *source[i + 1 :]]
        assert not torch.allclose(plain, _logits_alone(model, 0, changed), atol=1e-9), i


@torch.inference_mode()
def test_rows_of_a_sentence_part_and_meet_again(model: Seq2Seq) -> None:
    """As in a beam: rows multiply, part, trade places and sentences end, step by step."""
    memory = model.encode(SRC_IDS, KEEP)
    state, searched = model.init_state(memory), model.init_search_state(memory)
    origins, prefixes = torch.arange(B), torch.empty(B, 0, dtype=torch.long)
    generator = torch.Generator().manual_seed(6)
    for picks in ([0, 0, 0, 1, 2, 2, 3, 4], [7, 1, 0, 5, 4, 1, 6, 6], [7, 6, 1, 5, 3], [4, 2]):
        rows = torch.tensor(picks)
        last_ids = torch.randint(4, TGT_VOCAB, rows.shape, generator=generator)
        origins, state, searched = origins[rows], state.select(rows), searched.select(rows)
        prefixes = torch.cat([prefixes[rows], last_ids.unsqueeze(1)], dim=1)
        step, fast = model.step(last_ids, state), model.step(last_ids, searched)
        later = model.teacher_forced(TGT_IN[origins], step.state, with_weights=True)
        both = torch.cat([prefixes, TGT_IN[origins]], dim=1)
        expected = model(SRC_IDS[origins], KEEP[origins], both, with_weights=True)
        torch.testing.assert_close(step.logits, expected.logits[:, -T - 1])
        torch.testing.assert_close(fast.logits, expected.logits[:, -T - 1])
        torch.testing.assert_close(step.weights, expected.weights[:, -T - 1])
        torch.testing.assert_close(later.logits, expected.logits[:, -T:])
        torch.testing.assert_close(later.heads, expected.heads[:, :, -T:])
        state, searched = step.state, fast.state


@cpu_only("on a GPU each row has a copy")
def test_a_sentence_is_held_once_for_all_its_rows(model: Seq2Seq) -> None:
    state = model.init_state(model.encode(SRC_IDS, KEEP))
    held = [tensor.data_ptr() for tensor in _keys_and_values(state)]
    assert len(held) >= 2
    spread = state.select(torch.arange(B).repeat_interleave(3))
    assert [tensor.data_ptr() for tensor in _keys_and_values(spread)] == held
    fewer = spread.select(torch.tensor([14, 3, 5]))
    assert [len(tensor) for tensor in _keys_and_values(fewer)] == [2] * len(held)


def _keys_and_values(state: State) -> list[torch.Tensor]:
    """Tensors of the source, which have one more dimension than sentences and positions."""
    return [t for t in _tensors(state) if t.dim() > 2 and t.shape[-2] == S]


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple) or is_dataclass(value):
        for part in value if isinstance(value, tuple) else vars(value).values():
            yield from _tensors(part)


def test_every_parameter_learns_and_padding_rows_do_not(model: Seq2Seq) -> None:
    output = _run(model.train())
    log_likelihoods = output.logits[..., :TGT_VOCAB].log_softmax(-1)[..., 5]
    total = log_likelihoods.sum()
    if output.auxiliary_loss is not None:
        keep = torch.ones_like(log_likelihoods, dtype=torch.bool)
        total = total + output.auxiliary_loss.loss_sum(keep, log_likelihoods.detach())
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
        if parameter.shape[0] == 64:
            assert (parameter.grad[TGT_VOCAB:] == 0).all(), name


def test_weights_are_the_mean_of_the_heads_and_cost_no_change(model: Seq2Seq) -> None:
    plain, output = model(SRC_IDS, KEEP, TGT_IN), _run(model)
    assert plain.weights is None
    assert plain.heads is None
    torch.testing.assert_close(plain.logits, output.logits)
    torch.testing.assert_close(output.heads[:, model.averaged_heads].mean(dim=1), output.weights)
    assert output.heads.shape[1] == len(model.head_names)


def test_every_attention_gives_the_weights_of_its_named_heads(model: Seq2Seq) -> None:
    """A pass stores nothing on the model."""
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    output = _run(model)
    maps = model.attention_weights(SRC_IDS, KEEP, TGT_IN)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    names = model.head_names_by_kind
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    assert maps.keys() == names.keys()
    for kind, weights in maps.items():
        assert weights.shape == (B, len(names[kind]), *sizes[kind])
    all_names = [name for group in names.values() for name in group]
    assert len(set(all_names)) == len(all_names)
    assert names["cross"] == model.head_names
    torch.testing.assert_close(maps["cross"], output.heads)


class TanhCell(Cell):
    """h' = tanh(gates + own), as torch.nn.RNN."""

    n_gates = 1

    @staticmethod
    def next_state(x_gates: torch.Tensor, h_gates: torch.Tensor, state: CellState) -> CellState:
        return torch.tanh(x_gates + h_gates), None


class CoupledCell(Cell):
    """An LSTM whose input gate is 1 - f (arXiv 1503.04069)."""

    n_gates = 3
    has_cell_state = True

    @staticmethod
    def next_state(x_gates: torch.Tensor, h_gates: torch.Tensor, state: CellState) -> CellState:
        f, g, o = (x_gates + h_gates).chunk(3, dim=-1)
        after = torch.lerp(g.tanh(), state[1], f.sigmoid())
        return o.sigmoid() * torch.tanh(after), after


COPY = {"kind": "luong", "initial_state": "copy"}
CASES = [
    {"encoder": {"bidirectional": False}, "decoder": COPY},
    {"decoder": {"kind": "conditional"}},
]


@pytest.mark.parametrize("cell", [TanhCell, CoupledCell])
@pytest.mark.parametrize("options", [{}, {"layers": 2}, *CASES])
def test_a_cell_that_torch_lacks_obeys_the_laws(options, cell: type[Cell], monkeypatch) -> None:
    """A row of CELLS alone works in encoder and decoder."""
    monkeypatch.setitem(CELLS, "gru", cell)  # under the default name
    model, inputs = model_of("rnn", **options).eval(), (SRC_IDS, KEEP, TGT_IN)
    if IS_CPU:  # int8 is refused elsewhere
        logits, rounded = model(*inputs).logits, quantize_model(model)(*inputs).logits
        torch.testing.assert_close(rounded, logits, atol=0.1, rtol=0)
        assert not torch.equal(rounded, logits)
    perturbed(model)
    test_forward_equals_the_steps(model)
    test_a_batch_equals_its_sentences_one_by_one(model)
    test_every_parameter_learns_and_padding_rows_do_not(model)
