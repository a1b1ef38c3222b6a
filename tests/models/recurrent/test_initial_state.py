"""The decoder's first states, the cell's included."""

import torch

from nmt.models.base import Memory
from nmt.models.recurrent.initial_state import InitialState

B, S, L, M, H = 3, 5, 2, 14, 7


def _memory(size: int = M) -> Memory:
    torch.manual_seed(1)
    keep = torch.ones(B, S, dtype=torch.bool)
    final, cell = torch.randn(2, B, L, size)
    return Memory(torch.randn(B, S, size), keep, final, cell)


def test_a_cell_state_is_copied_from_the_encoders_cell_state() -> None:
    memory = _memory(H)
    hidden, cell = InitialState("copy", H, H, L, has_cell=True)(memory)
    assert torch.equal(hidden, memory.final)
    assert torch.equal(cell, memory.final_cell)
    assert InitialState("copy", H, H, L, has_cell=False)(memory)[1] is None


def test_the_backward_state_alone_is_read() -> None:
    memory = _memory()
    initial = InitialState("tanh_backward", M, H, L, has_cell=True)
    forward_changed = memory.final.clone()
    forward_changed[..., : M // 2] += 1
    other = Memory(memory.values, memory.keep, forward_changed)
    for one, same in zip(initial(memory), initial(other), strict=True):
        assert torch.equal(one, same)


def test_the_mean_counts_no_padding() -> None:
    memory, initial = _memory(), InitialState("mean", M, H, L, has_cell=True)
    keep = torch.tensor([[True] * n + [False] * (S - n) for n in (5, 2, 1)])
    states = initial(Memory(memory.values, keep, memory.final))
    means = torch.stack([memory.values[i, :n].mean(dim=0) for i, n in enumerate((5, 2, 1))])
    for i in range(L):
        torch.testing.assert_close(states[0][:, i], torch.tanh(initial.W_s[i](means)))
        torch.testing.assert_close(states[1][:, i], torch.tanh(initial.W_c[i](means)))
