"""The decoder's first states, the cell's included."""

import pytest
import torch

from nmt.models.base import Memory
from nmt.models.recurrent.initial_state import InitialState, InitialStateKind
from nmt.ops.masks import keep_from_lengths

B, S, L, M, H = 3, 5, 2, 14, 7


def test_a_cell_state_is_copied_from_the_encoders_cell_state() -> None:
    final, cell = torch.randn(2, B, L, H)
    memory = Memory(torch.randn(B, S, H), torch.ones(B, S).bool(), final, cell)
    states = InitialState("copy", H, H, L, has_cell=True)(memory)
    assert all(map(torch.equal, states, (final, cell)))
    assert InitialState("copy", H, H, L, has_cell=False)(memory)[1] is None


@pytest.mark.parametrize("kind", ["tanh", "tanh_backward", "mean"])
def test_first_states_are_the_formulas(kind: InitialStateKind) -> None:
    """A layer over the last states, over their backward half, or over the mean without padding."""
    torch.manual_seed(1)
    lengths, values, final = (5, 2, 1), torch.randn(B, S, M), torch.randn(B, L, M)
    initial = InitialState(kind, M, H, L, has_cell=True)
    states = initial(Memory(values, keep_from_lengths(torch.tensor(lengths), S), final))
    means = torch.stack([values[i, :n].mean(dim=0) for i, n in enumerate(lengths)])
    for state, layers in zip(states, (initial.W_s, initial.W_c), strict=True):
        for i, layer in enumerate(layers):
            backward = final[:, i, M // 2 :]
            x = {"tanh": final[:, i], "tanh_backward": backward, "mean": means}[kind]
            torch.testing.assert_close(state[:, i], torch.tanh(layer(x)))
