"""The GRU encoder-decoder: the paper's size, its options, and what it refuses."""

import pytest
import torch
from laws.family import model_of

from nmt.config import load_config
from nmt.models.catalog import build_model
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
    config = load_config("rnnsearch50")
    assert config.tokenizer.max_size == K
    with torch.device("meta"):
        parameters = list(build_model(config.model, K, K).parameters())
    padding = padded_rows(K) - K
    weights = sum(p.numel() for p in parameters if p.dim() == 2)
    assert weights - padding * (2 * m + l) == expected
    biases = sum(p.numel() for p in parameters if p.dim() == 1)
    assert biases - padding == 2 * 6 * n + 6 * n + n + 2 * l + K


def test_maxout_takes_the_larger_of_each_two_units() -> None:
    readout = DeepReadout(DeepReadoutConfig(size=2), hidden=3, embedding=3, context=3)
    with torch.no_grad():
        readout.U_o.bias.copy_(torch.tensor([1.0, 4.0, 3.0, 2.0]))
    assert readout(*torch.zeros(3, 1, 3)).tolist() == [[4.0, 3.0]]


@pytest.mark.parametrize(
    ("options", "acts"),
    [
        ({"dropout": 0.6, "backend": "reference"}, True),
        ({"dropout": 0.6, "backend": "fused"}, True),
        ({"layer_dropout": 0.5, "layers": 2}, True),
        ({"layer_dropout": 0.5, "layers": 1}, False),  # it acts between layers alone
    ],
)
def test_dropout_acts_in_training_alone(options: dict[str, object], acts: bool) -> None:
    model = model_of("rnn", **options)
    src, tgt_in = torch.randint(4, 29, (2, 5)), torch.randint(4, 29, (2, 3))
    keep = torch.ones(2, 5, dtype=torch.bool)
    for is_training in (True, False):
        memory, other = (model.train(is_training).encode(src, keep) for _ in range(2))
        state = model.init_state(memory)
        outputs = [model.teacher_forced(tgt_in, state).features for _ in range(2)]
        steps = [model.step(tgt_in[:, 0], state).logits for _ in range(2)]
        for pair in ((memory.values, other.values), outputs, steps):
            assert torch.equal(*pair) != (is_training and acts)


def test_a_decoder_layer_reads_the_state_of_the_layer_below() -> None:
    model, inputs = model_of("rnn", layers=3).eval(), []
    for layer in model.decoder.upper:
        layer.input_gates.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    memory = model.encode(torch.randint(4, 29, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
    after = model.step(torch.tensor([2, 2]), model.init_state(memory)).state
    torch.testing.assert_close(torch.stack(inputs, dim=1), after.hidden[:, :2])


@pytest.mark.parametrize(("bidirectional", "layers"), [(True, 1), (False, 2), (True, 2)])
def test_without_attention_the_context_is_the_directions_ends(bidirectional, layers: int) -> None:
    """All the weight is on the end."""
    encoder = {"bidirectional": bidirectional}
    model = model_of("rnn-fixed-context", encoder=encoder, layers=layers).eval()
    keep = keep_from_lengths(torch.tensor([4, 2]), 4)
    memory = model.encode(torch.randint(4, 29, (2, 4)), keep)
    expected = memory.values[[0, 1], [3, 1]].clone()
    if bidirectional:
        expected[:, 7:] = memory.values[:, 0, 7:]
    state = model.init_state(memory)
    look = model.decoder.attention(state.hidden[:, -1:], state.attention)
    assert torch.equal(look.context.squeeze(1), expected)
    output = model.teacher_forced(torch.tensor([[2, 5], [2, 7]]), state, with_weights=True)
    assert output.weights.tolist() == [[[0, 0, 0, 1]] * 2, [[0, 1, 0, 0]] * 2]
