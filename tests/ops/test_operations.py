"""Products, the masked softmax, the GRU layer and the loss in parts are torch's."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from devices import DEVICE, IS_CPU, cpu_only
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.ops import products
from nmt.ops.backend import BackendName
from nmt.ops.fused import linear_cross_entropy as fused
from nmt.ops.masks import masked_softmax, softmax_over_kept
from nmt.ops.products import int8_product, product
from tests.ops.conftest import operations_of

FP64, FP32, BF16 = torch.float64, torch.float32, torch.bfloat16
M, K, N = 5, 7, 3


def assert_near(results: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    """Each differs by at most this share of its norm."""
    for result, reference in zip(results, expected, strict=True):
        assert result.shape == reference.shape
        assert (result - reference).norm() <= tolerance * reference.norm()


def _layouts(rows: int, columns: int, dtype: torch.dtype) -> list[Tensor]:
    """Factors of one size: in one piece, turned, and with gaps one way or the other."""
    return [
        torch.randn(rows, columns, dtype=dtype),
        torch.randn(columns, rows, dtype=dtype).t(),
        torch.randn(rows, 2, columns, dtype=dtype)[:, 1],
        torch.randn(columns, 2, rows, dtype=dtype)[:, 1].t(),
        torch.randn(2 * rows, 2 * columns, dtype=dtype)[::2, ::2],
    ]


@pytest.mark.parametrize(("dtype", "tolerance"), [(FP64, 1e-12), (FP32, 1e-5), (BF16, 2e-2)])
def test_products_are_those_of_fp64(dtype: torch.dtype, tolerance: float) -> None:
    for bias in (None, torch.randn(N, dtype=dtype)):
        for left in _layouts(M, K, dtype):
            for right in _layouts(K, N, dtype):
                expected = left.double() @ right.double() + (0 if bias is None else bias.double())
                result = product(left, right, bias)
                assert result.dtype == dtype
                assert torch.equal(product(left, right, bias), result)
                assert_near([result], [expected], tolerance)
    for n in (0, 1):
        assert product(torch.randn(n, K), torch.randn(K, N)).shape == (n, N)
        assert product(torch.randn(M, K), torch.randn(K, n)).shape == (M, n)
    assert torch.equal(product(torch.randn(M, 0), torch.randn(0, N)), torch.zeros(M, N))


def test_without_the_private_product_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.10 to 2.13 have both private operations; without them the results are the same."""
    if (2, 10) <= tuple(map(int, torch.__version__.split(".")[:2])) <= (2, 13):
        assert hasattr(torch, "_int_mm")
        assert products._HAS_ONEDNN or not torch.backends.mkldnn.is_available()
    left, right, bias = torch.randn(M, K), torch.randn(K, N), torch.randn(N)
    expected = product(left, right, bias)
    monkeypatch.setattr(products, "_HAS_ONEDNN", False)
    assert not products.uses_onednn(left)
    torch.testing.assert_close(product(left, right, bias), expected)


@cpu_only("int8 is refused on a GPU")
@pytest.mark.parametrize("has_int_mm", [IS_CPU and products.has_exact_int_mm(), False])
@pytest.mark.parametrize(
    "shape", [(0, 5, 3), (5, 1, 71), (1, 131, 64), (7, 1024, 129), (5, 1041, 5)]
)
def test_products_of_integers_are_exact(shape, has_int_mm: bool, monkeypatch) -> None:
    """Also the largest sums: fp32 holds 2^24, and not the odd sum above it."""
    monkeypatch.setattr(products, "has_exact_int_mm", lambda: has_int_mm)
    rows, inner, columns = shape
    for low, high in ((-127, 128), (127, 128), (-128, -127)):
        left = torch.randint(low, high, (rows, inner), dtype=torch.int8)
        right = torch.randint(low, high, (columns, inner), dtype=torch.int8)
        assert torch.equal(int8_product(left, right.t()), left.int() @ right.int().t())


@pytest.mark.parametrize("lengths", [[2, 3], [[1, 3], [2, 4]]])
def test_masked_softmax_takes_lengths_per_sentence_or_per_query(lengths: list[Any]) -> None:
    scores = torch.randn(2, 2, 4)
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))
    keep = torch.arange(4) < torch.tensor(lengths).view(2, -1, 1)
    expected = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    torch.testing.assert_close(masked_softmax(scores, torch.tensor(lengths)), expected)


@pytest.mark.parametrize("dtype", [torch.float16, BF16, FP32, FP64])
def test_rows_of_huge_scores_and_rows_that_see_nothing(dtype: torch.dtype) -> None:
    scores = torch.tensor([[[6e4, -6e4, 6e4]] * 2], dtype=dtype, requires_grad=True)
    weights = softmax_over_kept(scores, torch.tensor([[[True, True, False], [False] * 3]]))
    assert weights.tolist() == [[[1.0, 0.0, 0.0], [0.0] * 3]]
    weights.square().sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[0, 1] == 0).all()


LENGTHS = torch.tensor([7, 1, 3, 7, 2])
KEEP = torch.arange(7) < LENGTHS.unsqueeze(1)


def _packed(layer: nn.GRU, x: Tensor) -> tuple[Tensor, Tensor]:
    packed = pack_padded_sequence(x, LENGTHS.cpu(), batch_first=True, enforce_sorted=False)
    outputs, last = layer(packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=7)
    return padded, last.transpose(0, 1).flatten(1)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(FP64, 1e-10), (FP32, 1e-5), (BF16, 0.05)])
def test_a_gru_layer_is_torchs_over_packed_sequences(dtype, tolerance, directions, backend) -> None:
    """The content of padding is invisible, and gets no gradient. In bf16 by autocast."""
    layer = nn.GRU(3, 4, batch_first=True, bidirectional=directions == 2).double()
    x = torch.randn(5, 7, 3, dtype=FP64, requires_grad=True)
    shares = torch.randn(5, 7, directions * 4), torch.randn(5, directions * 4)

    def with_gradients(outputs: Sequence[Tensor], inputs: Tensor) -> list[Tensor]:
        total = sum((out * share).sum() for out, share in zip(outputs, shares, strict=True))
        return [*outputs, *torch.autograd.grad(total, [inputs, *layer.parameters()])]

    expected = with_gradients(_packed(layer, x), x)
    noisy = torch.where(KEEP.unsqueeze(2), x.detach(), 100.0)
    wide = FP64 if dtype == FP64 else FP32
    noisy, parameters = noisy.to(wide).requires_grad_(), [*layer.to(wide).parameters()]
    weights = [tuple(parameters[i : i + 4]) for i in range(0, len(parameters), 4)]
    with torch.autocast(DEVICE, BF16, enabled=dtype == BF16):
        outputs = operations_of(backend, dtype).gru_layer(noisy, LENGTHS, weights)
    assert {out.dtype for out in outputs} == {dtype}
    results = with_gradients(outputs, noisy)
    assert_near(results, expected, tolerance)
    assert (results[0][~KEEP] == 0).all()
    assert torch.equal(results[2].abs().sum(-1) > 0, KEEP)


N_TARGETS, ROWS, REAL = 45, 600, 595
"""Some blocks of rows of the compiled loss, the last one not full."""


def _loss_inputs(dtype: torch.dtype) -> tuple[Tensor, ...]:
    x, weight, bias = (torch.randn(n, dtype=dtype) for n in ((N_TARGETS, 5), (ROWS, 5), (ROWS,)))
    bias[REAL:] = -1e4
    learned = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    return *learned, torch.randint(0, REAL, (N_TARGETS,))


@pytest.mark.parametrize("rows_at_once", [1, 3, 100])  # parts of one row, of some, and of all
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("dtype", "tolerance"), [(FP64, 1e-10), (FP32, 1e-5), (BF16, 0.02)])
def test_the_loss_is_torchs(
    dtype, tolerance, smoothing: float, rows_at_once: int, backend: BackendName, monkeypatch
) -> None:
    """In bf16 are the products, by autocast; the sums are in fp32."""
    monkeypatch.setitem(fused._BYTES_AT_ONCE, "cpu", rows_at_once * ROWS * 8)
    *learned, targets = _loss_inputs(FP64 if dtype == FP64 else FP32)
    keep = torch.arange(N_TARGETS) % 3 > 0
    args = *learned, targets, keep, REAL, smoothing
    with torch.autocast(DEVICE, dtype=BF16, enabled=dtype == BF16):
        loss, nlls = operations_of(backend, dtype).linear_cross_entropy(*args)
        with torch.no_grad():
            again = operations_of(backend, dtype).linear_cross_entropy(*args)
    assert all(map(torch.equal, again, (loss, nlls)))
    logits = nn.functional.linear(learned[0][keep], *learned[1:])[:, :REAL]
    expected, nll_sum = (
        nn.functional.cross_entropy(logits, targets[keep], reduction="sum", label_smoothing=share)
        for share in (smoothing, 0.0)
    )
    assert loss.dtype == nlls.dtype == expected.dtype
    assert (nlls[~keep] == 0).all()
    assert_near([loss, nlls.sum()], [expected, nll_sum], tolerance)
    assert_near(*(torch.autograd.grad(3 * total, learned) for total in (loss, expected)), tolerance)


def test_an_all_but_impossible_piece_and_no_piece_at_all(backend: BackendName) -> None:
    linear_cross_entropy = operations_of(backend).linear_cross_entropy
    x, weight, target = torch.ones(1, 1), torch.tensor([[300.0], [-300.0]]), torch.tensor([1])
    loss, _ = linear_cross_entropy(x, weight, torch.zeros(2), target, target > 0, 2, 0.0)
    assert float(loss) == pytest.approx(600)
    x, weight, bias, targets = _loss_inputs(FP32)
    loss, nlls = linear_cross_entropy(x[:0], weight, bias, targets[:0], targets[:0] >= 0, REAL, 0.0)
    loss.backward()
    assert float(loss.detach()) == len(nlls) == weight.grad.count_nonzero() == 0
