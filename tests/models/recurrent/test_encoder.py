"""Recurrent layers over padded sentences."""

import pytest
import torch
from torch import nn

from nmt.models.initialisation import initialise
from nmt.models.recurrent.encoder import PaddedGRU, PaddedLayers, PaddedLSTM

LENGTHS = (4, 7, 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_an_lstm_reads_each_sentence_as_torchs_reads_it_alone(bidirectional: bool) -> None:
    torch.manual_seed(0)
    layers = PaddedLSTM(3, 5, 2, 0.0, bidirectional).double()
    alone = nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=bidirectional).double()
    alone.load_state_dict(layers.state_dict())
    x = torch.randn(3, 7, 3, dtype=torch.float64)
    values, final, final_cell = layers.read(x, torch.tensor(LENGTHS))
    for i, length in enumerate(LENGTHS):
        outputs, (hidden, cell) = alone(x[i, :length])
        torch.testing.assert_close(values[i, :length], outputs)
        assert (values[i, length:] == 0).all()
        for found, last in ((final, hidden), (final_cell, cell)):
            expected = last.unflatten(0, (2, -1)).flatten(1)
            torch.testing.assert_close(found[i], expected)


@pytest.mark.parametrize("kind", [PaddedGRU, PaddedLSTM])
def test_first_weights_of_layers_are_those_of_a_cell(kind: type[PaddedLayers]) -> None:
    torch.manual_seed(0)
    layers = kind(16, 16, 2, 0.0, True)
    initialise(layers)
    n_gates = 3 if kind is PaddedGRU else 4
    for layer in range(2):
        for w_ih, w_hh, b_ih, b_hh in layers.weights_by_direction(layer):
            for gate in w_hh.chunk(n_gates):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(16), atol=1e-5, rtol=0)
            for gate in w_ih.chunk(n_gates):
                assert gate.abs().max() <= (6 / sum(gate.shape)) ** 0.5
            assert (b_hh == 0).all()
            ones = 16 if kind is PaddedLSTM else 0  # of the forget gate
            assert [bias.sum().item() for bias in b_ih.chunk(n_gates)][:2] == [0, ones]
            assert b_ih.sum() == ones
