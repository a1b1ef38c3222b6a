import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nmt.attention_maps.packed import pack, unpack

SHAPES = st.tuples(st.integers(0, 7), st.integers(0, 11))
WEIGHTS = arrays(np.float32, SHAPES, elements=st.floats(0, 1, width=32))


@given(WEIGHTS)
def test_a_weight_comes_back_within_half_a_step_of_its_row(weights: np.ndarray) -> None:
    back = unpack(pack(weights), weights.shape[1])
    assert back.dtype == np.float32
    assert back.shape == weights.shape
    greatest = weights.max(axis=1, initial=0, keepdims=True).astype(np.float64)
    error = np.abs(back.astype(np.float64) - weights)
    assert (error <= greatest / 510 + 2**-24 * greatest + 2**-149).all()


@given(WEIGHTS)
def test_the_greatest_weight_of_a_row_is_exact(weights: np.ndarray) -> None:
    back = unpack(pack(weights), weights.shape[1])
    np.testing.assert_array_equal(back.max(axis=1, initial=0), weights.max(axis=1, initial=0))


def test_a_weight_takes_a_byte() -> None:
    packed = pack(np.full((30, 40), 1 / 40, dtype=np.float32))
    assert len(packed["weights"]) == 30 * 40 * 4 // 3
    assert len(packed["scales"]) == 30 * 4 * 4 // 3
