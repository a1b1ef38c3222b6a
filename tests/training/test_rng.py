"""All that chance draws from comes back; so do the numbers that it gives."""

import random

import numpy as np
import pytest
import torch

from nmt.training import rng

CPU = torch.device("cpu")


def _draw() -> list[float]:
    """From each generator; the normal ones keep a second number back."""
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        float(torch.rand(())),
        float(torch.randn(())),
    ]


def test_what_was_drawn_is_drawn_again() -> None:
    rng.seed_all(2**62)
    _draw()
    tensors, numbers = rng.pack_rng(CPU)
    after = _draw()
    _draw()
    rng.unpack_rng(tensors, numbers, CPU)
    assert _draw() == after


def test_the_seed_decides() -> None:
    rng.seed_all(5)
    first = _draw()
    rng.seed_all(6)
    assert not set(_draw()) & set(first)
    rng.seed_all(5)
    assert _draw() == first


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_the_generator_of_the_device_is_saved_and_only_that(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    device = torch.device(kind, 1) if kind == "cuda" else torch.device(kind)
    owner = torch.cuda if kind == "cuda" else torch.mps
    state = torch.arange(3, dtype=torch.uint8)
    monkeypatch.setattr(owner, "get_rng_state", lambda *at: (seen.append(at), state)[1])
    monkeypatch.setattr(owner, "set_rng_state", lambda *given: seen.append(given))
    tensors, numbers = rng.pack_rng(device)
    assert torch.equal(tensors[f"rng.{kind}"], state)
    rng.unpack_rng(tensors, numbers, device)
    got = seen[1]
    assert isinstance(got, tuple)
    assert torch.equal(got[0], state)
    if kind == "cuda":
        assert seen[0] == (device,)
        assert got[1] == device
    # From a CPU's checkpoint there is nothing to put back: the seed stands.
    rng.unpack_rng(rng.pack_rng(CPU)[0], numbers, device)
    assert len(seen) == 2
