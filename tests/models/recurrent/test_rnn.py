"""The GRU encoder-decoder: the paper's size, its options, and what it refuses."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from nmt.config import load_config
from nmt.models.base import Memory
from nmt.models.catalog import build_model
from nmt.models.quantized import in_int8
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.decoder import RNNState
from nmt.models.recurrent.rnn import RNNConfig, RNNSeq2Seq
from nmt.models.vocabulary import DeepReadout, DeepReadoutConfig, padded_rows
from nmt.ops.masks import keep_from_lengths
from nmt.text.word_tokenizer import WordConfig
from tests.ops.conftest import NEEDS_NATIVE


def _model(**options: object) -> RNNSeq2Seq:
    torch.manual_seed(0)
    config = RNNConfig.model_validate({"hidden": 7, "embedding": 5, **options})
    model = build_model(config, 29, 31)
    assert isinstance(model, RNNSeq2Seq)
    return model


def test_parameters_of_rnnsearch_are_the_papers() -> None:
    """Derived from arXiv 1409.0473, appendix A.1 and A.2 (K words, m, n, n', l):

    embeddings        K m (source) + K m (target)
    encoder           2 directions x (W, W_z, W_r: n m each; U, U_z, U_r: n n each)
    decoder           W, W_z, W_r: n m; U, U_z, U_r: n n; C, C_z, C_r: n 2n; W_s: n n
    alignment         W_a: n' n, U_a: n' 2n, v_a: n'
    output            U_o: 2l n, V_o: 2l m, C_o: 2l 2n, W_o: K l

    The paper leaves biases out "for readability"; ours are counted apart, and so are the rows
    that pad the tables to a multiple of 64.
    """
    K, m, n, n_align, l = 30_000, 620, 1000, 1000, 500  # noqa: E741
    encoder = 2 * 3 * (n * m + n * n)
    decoder = 3 * (n * m + n * n + n * 2 * n) + n * n
    alignment = n_align * n + n_align * 2 * n + n_align
    output = 2 * l * (n + m + 2 * n) + K * l
    expected = 2 * K * m + encoder + decoder + alignment + output
    assert expected == 80_401_000

    config = load_config(Path(__file__).parents[3] / "configs/rnnsearch50.yaml")
    assert isinstance(config.tokenizer, WordConfig)
    assert config.tokenizer.max_size == K
    with torch.device("meta"):
        built = build_model(config.model, K, K)
    weights = sum(p.numel() for p in built.parameters() if p.dim() == 2)
    padding = (padded_rows(K) - K) * (2 * m + l)
    assert weights - padding == expected
    biases = sum(p.numel() for p in built.parameters() if p.dim() == 1)
    assert biases - (padded_rows(K) - K) == 2 * 6 * n + 6 * n + n + 2 * l + K


def test_a_search_projects_the_annotations_once_where_nothing_else_reads_them() -> None:
    keep = torch.ones(2, 3, dtype=torch.bool)
    memory = Memory(values=torch.randn(2, 3, 22), keep=keep, final=torch.randn(2, 1, 22))
    for setting, is_in_gates in (
        ({}, True),
        ({"attention": {"kind": "multi_head", "heads": 11}}, False),
        ({"decoder": {"kind": "bahdanau", "readout": {"kind": "deep"}}}, False),
        ({"decoder": {"kind": "luong"}}, False),
        ({"decoder": {"kind": "conditional"}}, True),
        ({"decoder": {"kind": "conditional", "readout": {"kind": "deep"}}}, False),
    ):
        config = RNNConfig.model_validate({"embedding": 5, "hidden": 11, **setting})
        model = build_model(config, 13, 13)
        state = model.init_search_state(memory)
        assert isinstance(state, RNNState)
        assert state.context_is_gates == is_in_gates
        values = state.attention.values if is_in_gates else None
        assert values is None or values.shape == (2, 3, 33)


def test_maxout_takes_the_larger_of_each_two_units() -> None:
    readout = DeepReadout(DeepReadoutConfig(size=2), hidden=3, embedding=3, context=3)
    with torch.no_grad():
        for parameter in readout.parameters():
            parameter.zero_()
        readout.U_o.bias.copy_(torch.tensor([1.0, 4.0, 3.0, 2.0]))
    zeros = torch.zeros(1, 3)
    assert readout(zeros, zeros, zeros).tolist() == [[4.0, 3.0]]


def test_encoder_final_is_the_state_after_the_last_word_of_each_direction() -> None:
    model = _model(layers=2, dropout=0.0).eval()
    src_ids = torch.randint(4, 29, (2, 5))
    keep = keep_from_lengths(torch.tensor([5, 3]), 5)
    memory = model.encode(src_ids, keep)
    top = memory.final[:, -1]
    for row, length in enumerate((5, 3)):
        torch.testing.assert_close(top[row, :7], memory.values[row, length - 1, :7])
        torch.testing.assert_close(top[row, 7:], memory.values[row, 0, 7:])


def test_dropout_acts_in_training_only() -> None:
    model = _model(dropout=0.5)
    args = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[2, 5]])
    assert not torch.equal(model(*args).logits, model(*args).logits)
    model.eval()
    assert torch.equal(model(*args).logits, model(*args).logits)


@pytest.mark.parametrize("layers", [1, 2])
def test_layer_dropout_acts_between_layers_alone(layers: int) -> None:
    model = _model(layers=layers, dropout=0.0, layer_dropout=0.5).train()
    args = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[2, 5]])
    assert torch.equal(model(*args).logits, model(*args).logits) == (layers == 1)
    memory = model.encode(*args[:2])
    steps = [model.step(args[2][:, 0], model.init_state(memory)).logits for _ in range(2)]
    assert torch.equal(*steps) == (layers == 1)


PLACES = {
    "embedding_dropout": (True, True),
    "annotation_dropout": (True, False),
    "readout_dropout": (False, True),
    "state_dropout": (True, True),
    "src_word_dropout": (True, False),
    "tgt_word_dropout": (False, True),
}
"""Whether each acts on the annotations of a sentence, and on a step of the decoder."""


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("key", PLACES)
def test_a_dropout_acts_at_its_place_alone(key: str, backend: str) -> None:
    model = _model(dropout=0.0, backend=backend, **{key: 0.6}).train()
    src, tgt_in = torch.randint(4, 29, (2, 5)), torch.randint(4, 31, (2, 3))
    memory, other = (model.encode(src, torch.ones(2, 5, dtype=torch.bool)) for _ in range(2))
    state = model.init_state(memory)
    outputs = [model.teacher_forced(tgt_in, state).features for _ in range(2)]
    changes = not torch.equal(memory.values, other.values), not torch.equal(*outputs)
    assert changes == PLACES[key]
    model.eval()
    again = [model.teacher_forced(tgt_in, state).features for _ in range(2)]
    assert torch.equal(*again)


@pytest.mark.parametrize(
    "backend", ["reference", "fused", pytest.param("native", marks=NEEDS_NATIVE)]
)
def test_variational_masks_stay_over_the_steps_whatever_computes(backend: str) -> None:
    model = _model(backend=backend, dropout=0.5, variational_dropout=True, hidden=64).train()
    src, tgt_in = torch.randint(4, 29, (3, 5)), torch.randint(4, 31, (3, 7))
    memory = model.encode(src, torch.ones(3, 5, dtype=torch.bool))
    features = model.teacher_forced(tgt_in, model.init_state(memory)).features
    for masks in (memory.values == 0, features == 0):
        assert (masks == masks[:, :1]).all()
        assert 0.2 < masks.float().mean() < 0.8
        assert not torch.equal(masks[0], masks[1])


def test_options_combine_and_int8_is_near_them() -> None:
    cells = {"encoder": {"cell": "lstm"}, "decoder": {"kind": "luong", "cell": "lstm"}}
    model = _model(layer_norm=True, residual=True, layers=2, hidden=64, **cells).eval()
    args = torch.randint(4, 29, (2, 5)), torch.ones(2, 5).bool(), torch.randint(4, 31, (2, 3))
    with torch.inference_mode():
        exact, rounded = model(*args).logits, in_int8(model)(*args).logits
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(rounded, exact, atol=0.2, rtol=0)


def test_a_residual_layer_of_the_decoder_reads_the_sum_of_all_layers_below() -> None:
    model, inputs = _model(layers=3, residual=True).eval(), []
    for layer in model.decoder.upper:
        layer.input_gates.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    memory = model.encode(torch.randint(4, 29, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
    after = model.step(torch.tensor([2, 2]), model.init_state(memory)).state
    assert isinstance(after, RNNState)
    sums = after.hidden.cumsum(dim=1)
    torch.testing.assert_close(torch.stack(inputs, dim=1), sums[:, :2])


@pytest.mark.parametrize("cell", CELLS)
def test_all_options_train_under_autocast(cell: CellKind) -> None:
    model = _model(
        **dict.fromkeys(PLACES, 0.2),
        variational_dropout=True,
        layer_norm=True,
        residual=True,
        layers=2,
        encoder={"cell": cell},
        decoder={"kind": "bahdanau", "cell": cell, "initial_state": "mean"},
    )
    keep = keep_from_lengths(torch.tensor([3, 1]), 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(torch.tensor([[5, 6, 3], [3, 0, 0]]), keep, torch.tensor([[2, 7], [2, 8]]))
    output.logits[..., :29].float().logsumexp(-1).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_tied_embeddings_are_one_table() -> None:
    readout = {"kind": "deep", "size": 5, "activation": "tanh"}
    tied = _model(tie_embeddings="all", decoder={"kind": "bahdanau", "readout": readout})
    assert tied.encoder.embedding.weight is tied.decoder.output.weight
    assert tied.decoder.embedding.weight is tied.decoder.output.weight


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"decoder": {"kind": "bahdanau", "initial_state": "copy"}},
            "needs encoder states of the decoder's size: got 14",
        ),
        (
            {
                "decoder": {"kind": "bahdanau", "initial_state": "tanh_backward"},
                "encoder": {"bidirectional": False},
            },
            "needs encoder.bidirectional: true",
        ),
        (
            {
                "decoder": {"kind": "bahdanau", "initial_state": "copy", "cell": "lstm"},
                "encoder": {"bidirectional": False},
            },
            "needs an encoder of the same cell: got 'gru'",
        ),
        (
            {"decoder": {"kind": "conditional", "initial_state": "copy"}},
            "needs encoder states of the decoder's size: got 14",
        ),
        (
            {"decoder": {"kind": "conditional"}, "tie_embeddings": "target"},
            "needs a readout as wide as the embedding: got 7 and 5",
        ),
        ({"tie_embeddings": "target"}, "needs a readout as wide as the embedding: got 7 and 5"),
        ({"residual": True}, "got true with layers 1, allowed: at least 2 layers"),
        ({"hidden": 0}, "greater than 0"),
        ({"dropout": 1.0}, "less than 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        _model(**options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    model = _model(dropout=0.0).to(dtype)
    keep = keep_from_lengths(torch.tensor([2, 1]), 2)
    output = model(torch.tensor([[5, 6], [7, 0]]), keep, torch.tensor([[2], [2]]))
    assert output.logits.dtype == dtype
    assert torch.isfinite(output.logits).all()


def test_without_attention_all_the_weight_is_on_the_end() -> None:
    model = _model(attention={"kind": "none"}, dropout=0.0).eval()
    keep = keep_from_lengths(torch.tensor([4, 2]), 4)
    tgt_in = torch.tensor([[2, 5, 6], [2, 7, 8]])
    output = model(torch.randint(4, 29, (2, 4)), keep, tgt_in, with_weights=True)
    expected = torch.tensor([[0.0, 0, 0, 1], [0, 1, 0, 0]]).unsqueeze(1).expand(2, 3, 4)
    assert torch.equal(output.weights, expected)


def _fixed_context(model: RNNSeq2Seq, memory: Memory) -> torch.Tensor:
    state = model.init_state(memory)
    look = model.decoder.attention(state.hidden[:, -1:], state.attention)
    return look.context.squeeze(1).detach()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_without_attention_the_context_is_where_each_direction_ends(
    bidirectional: bool, layers: int
) -> None:
    options = {"encoder": {"bidirectional": bidirectional}, "layers": layers, "dropout": 0.0}
    model = _model(attention={"kind": "none"}, **options).eval()
    lengths = torch.tensor([4, 2])
    memory = model.encode(torch.randint(4, 29, (2, 4)), keep_from_lengths(lengths, 4))
    expected = memory.values[torch.arange(2), lengths - 1].clone()
    if bidirectional:
        expected[:, 7:] = memory.values[:, 0, 7:]
    assert torch.equal(_fixed_context(model, memory), expected)


def test_without_attention_both_halves_of_the_context_have_read_the_words() -> None:
    model = _model(attention={"kind": "none"}, dropout=0.0).eval()
    keep = keep_from_lengths(torch.tensor([4, 4]), 4)
    one, other = _fixed_context(
        model, model.encode(torch.tensor([[5, 6, 7, 3], [8, 9, 10, 3]]), keep)
    )
    assert (one - other)[:7].abs().max() > 0.01, "what was read forwards"
    assert (one - other)[7:].abs().max() > 0.01, "what was read backwards"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("initial_state", ["tanh", "tanh_backward", "mean", "copy", "learned"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_initial_state_trains_under_autocast(
    cell: CellKind, initial_state: str, layers: int, dtype: torch.dtype
) -> None:
    encoder, hidden = {"cell": cell}, 7
    if initial_state == "copy":
        encoder, hidden = {"cell": cell, "hidden": 4}, 8
    decoder = {"kind": "bahdanau", "cell": cell, "initial_state": initial_state}
    model = _model(encoder=encoder, decoder=decoder, hidden=hidden, layers=layers, dropout=0.0)
    keep = keep_from_lengths(torch.tensor([3, 1]), 3)
    args = torch.tensor([[5, 6, 3], [3, 0, 0]]), keep, torch.tensor([[2, 7], [2, 8]])
    with torch.autocast("cpu", dtype=dtype):
        output = model(*args)
    output.logits[..., :29].float().logsumexp(-1).sum().backward()
    torch.testing.assert_close(output.logits.float(), model(*args).logits, atol=0.05, rtol=0.05)
