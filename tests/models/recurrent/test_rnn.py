"""The GRU encoder-decoder: the paper's size, its options, and what it refuses."""

from pathlib import Path

import pytest
import torch
from devices import DEVICE
from laws.family import model_of
from pydantic import ValidationError

from nmt.config import load_config
from nmt.models.base import Memory
from nmt.models.catalog import build_model
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.decoder import SearchState
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import DeepReadout, DeepReadoutConfig, padded_rows
from nmt.ops.masks import keep_from_lengths


def test_parameters_of_rnnsearch_are_the_papers() -> None:
    """Derived from arXiv 1409.0473, appendix A.1 and A.2, with its names.

    The paper leaves biases out "for readability"; they are counted apart here, and so are the rows
    that pad the tables to a multiple of 64.
    """
    K, m, n, n_align, l = 30_000, 620, 1000, 1000, 500  # noqa: E741
    encoder = 2 * 3 * (n * m + n * n)  # of both directions: W, W_z, W_r; U, U_z, U_r
    decoder = 3 * (n * m + n * n + n * 2 * n) + n * n  # W, U and C, of three gates each; W_s
    alignment = n_align * n + n_align * 2 * n + n_align  # W_a, U_a, v_a
    output = 2 * l * (n + m + 2 * n) + K * l  # U_o, V_o, C_o; W_o
    expected = 2 * K * m + encoder + decoder + alignment + output
    assert expected == 80_401_000
    config = load_config(Path(__file__).parents[3] / "configs/rnnsearch50.yaml")
    assert config.tokenizer.max_size == K
    with torch.device("meta"):
        parameters = list(build_model(config.model, K, K).parameters())
    padding = padded_rows(K) - K
    weights = sum(p.numel() for p in parameters if p.dim() == 2)
    assert weights - padding * (2 * m + l) == expected
    biases = sum(p.numel() for p in parameters if p.dim() == 1)
    assert biases - padding == 2 * 6 * n + 6 * n + n + 2 * l + K


def test_a_search_projects_once_annotations_nothing_else_reads() -> None:
    keep = torch.ones(2, 3, dtype=torch.bool)
    memory = Memory(values=torch.randn(2, 3, 14), keep=keep, final=torch.randn(2, 1, 14))
    for setting, is_in_gates in (
        ({}, True),
        ({"attention": {"kind": "multi_head", "heads": 7}}, False),
        ({"decoder": {"kind": "bahdanau", "readout": {"kind": "deep"}}}, False),
        ({"decoder": {"kind": "luong"}}, False),
        ({"decoder": {"kind": "conditional"}}, True),
        ({"decoder": {"kind": "conditional", "readout": {"kind": "deep"}}}, False),
    ):
        state = model_of("rnn", **setting).init_search_state(memory)
        assert isinstance(state, SearchState) == is_in_gates
        values = state.attention.values if is_in_gates else None
        assert values is None or values.shape == (2, 3, 21)


def test_maxout_takes_the_larger_of_each_two_units() -> None:
    readout = DeepReadout(DeepReadoutConfig(size=2), hidden=3, embedding=3, context=3)
    with torch.no_grad():
        for parameter in readout.parameters():
            parameter.zero_()
        readout.U_o.bias.copy_(torch.tensor([1.0, 4.0, 3.0, 2.0]))
    zeros = torch.zeros(1, 3)
    assert readout(zeros, zeros, zeros).tolist() == [[4.0, 3.0]]


@pytest.mark.parametrize("layers", [1, 2])
def test_layer_dropout_acts_between_layers_alone(layers: int) -> None:
    model = model_of("rnn", layers=layers, dropout=0.0, layer_dropout=0.5).train()
    args = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[2, 5]])
    memory, other = (model.encode(*args[:2]) for _ in range(2))
    assert torch.equal(memory.values, other.values) == (layers == 1)
    steps = [model.step(args[2][:, 0], model.init_state(memory)).logits for _ in range(2)]
    assert torch.equal(*steps) == (layers == 1)


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_dropout_acts_in_training_alone(backend: str) -> None:
    model = model_of("rnn", dropout=0.6, backend=backend).train()
    src, tgt_in = torch.randint(4, 29, (2, 5)), torch.randint(4, 29, (2, 3))
    keep = torch.ones(2, 5, dtype=torch.bool)
    for is_training in (True, False):
        memory, other = (model.train(is_training).encode(src, keep) for _ in range(2))
        state = model.init_state(memory)
        outputs = [model.teacher_forced(tgt_in, state).features for _ in range(2)]
        assert torch.equal(memory.values, other.values) != is_training
        assert torch.equal(*outputs) != is_training


@pytest.mark.parametrize(
    ("cell", "initial_state", "layers", "dtype"),
    [
        ("gru", "tanh", 1, torch.bfloat16),
        ("gru", "mean", 2, torch.float16),
        ("gru", "tanh", 2, torch.bfloat16),
        ("lstm", "tanh_backward", 2, torch.bfloat16),
        ("lstm", "copy", 2, torch.float16),
        ("lstm", "mean", 1, torch.float16),
    ],
)
def test_every_initial_state_trains_under_autocast(
    cell: CellKind, initial_state: str, layers: int, dtype: torch.dtype
) -> None:
    model = model_of(
        "rnn",
        encoder={"cell": cell, "hidden": 4},
        decoder={"kind": "bahdanau", "cell": cell, "initial_state": initial_state},
        hidden=8,
        layers=layers,
        dropout=0.0,
    )
    keep = keep_from_lengths(torch.tensor([3, 1]), 3)
    args = torch.tensor([[5, 6, 3], [3, 0, 0]]), keep, torch.tensor([[2, 7], [2, 8]])
    with torch.autocast(DEVICE, dtype=dtype):
        output = model(*args)
    output.logits[..., :29].float().logsumexp(-1).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    torch.testing.assert_close(output.logits.float(), model(*args).logits, atol=0.05, rtol=0.05)


def test_a_decoder_layer_reads_the_state_of_the_layer_below() -> None:
    model, inputs = model_of("rnn", layers=3).eval(), []
    for layer in model.decoder.upper:
        layer.input_gates.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    memory = model.encode(torch.randint(4, 29, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
    after = model.step(torch.tensor([2, 2]), model.init_state(memory)).state
    torch.testing.assert_close(torch.stack(inputs, dim=1), after.hidden[:, :2])


_BACKWARD = {"kind": "bahdanau", "initial_state": "tanh_backward"}
_COPIED = {"kind": "conditional", "initial_state": "copy"}
_HEADS = {"kind": "multi_head"}
_HARD = {"kind": "hard"}
_PENALTY = {"kind": "additive", "doubly_stochastic": 1.0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decoder": _COPIED}, "size: got 14"),
        ({"decoder": _BACKWARD, "encoder": {"bidirectional": False}}, "encoder.bidirectional: tr"),
        (
            {"decoder": {**_COPIED, "cell": "lstm"}, "encoder": {"bidirectional": False}},
            "same cell: got 'gru'",
        ),
        ({"tie_embeddings": "target"}, "got 7 and 5"),
        ({"attention": {"kind": "dot"}}, "attention.kind: 'dot' .*got 7 .* 14 "),
        ({"attention": {"kind": "scaled_dot"}}, "attention.kind: 'scaled_dot' .*got 7 .* 14 "),
        ({"attention": {"kind": "gaussian"}}, "attention.kind: 'gaussian' .*got 7 .* 14 "),
        ({"attention": {"kind": "cosine"}}, "attention.kind: 'cosine' .*got 7 .* 14 "),
        ({"attention": {**_HEADS, "heads": 2, "size": 15}}, "size: 2 heads .* 15"),
        ({"attention": {**_HEADS, "over": {"kind": "location"}}}, "over.kind: 'location'"),
        ({"attention": {**_HEADS, "over": {"kind": "dot", "weights": _HARD}}}, "over.weights"),
        ({"attention": {**_PENALTY, "weights": _HARD}}, "doubly_stochastic: weights 'hard'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RNNConfig.model_validate({"hidden": 7, "embedding": 5, **options})


@pytest.mark.parametrize(("bidirectional", "layers"), [(True, 1), (False, 2), (True, 2)])
def test_without_attention_the_context_is_the_directions_ends(
    bidirectional: bool, layers: int
) -> None:
    """All the weight is on the end."""
    options = {"encoder": {"bidirectional": bidirectional}, "layers": layers, "dropout": 0.0}
    model = model_of("rnn", attention={"kind": "none"}, **options).eval()
    src_ids, lengths = torch.randint(4, 29, (2, 4)), torch.tensor([4, 2])
    keep = keep_from_lengths(lengths, 4)
    memory = model.encode(src_ids, keep)
    expected = memory.values[torch.arange(2), lengths - 1].clone()
    if bidirectional:
        expected[:, 7:] = memory.values[:, 0, 7:]
    state = model.init_state(memory)
    look = model.decoder.attention(state.hidden[:, -1:], state.attention)
    assert torch.equal(look.context.squeeze(1), expected)
    output = model(src_ids, keep, torch.tensor([[2, 5, 6], [2, 7, 8]]), with_weights=True)
    ends = torch.tensor([[0.0, 0, 0, 1], [0, 1, 0, 0]]).unsqueeze(1).expand(2, 3, 4)
    assert torch.equal(output.weights, ends)
