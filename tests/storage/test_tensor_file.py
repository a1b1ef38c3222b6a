"""A file of tensors keeps its word, or is refused before anything but its header is read."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import CheckpointError
from nmt.storage.tensor_file import Spec, check_finite, read_safetensors, specs_of


def pack(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def entry(dtype: str, shape: list[object], start: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_a_file_of_the_library_is_told_as_it_is(tmp_path: Path) -> None:
    tensors = {
        "a": torch.zeros(2, 3, 5),
        "half": torch.zeros(7, dtype=torch.bfloat16),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "bytes": torch.zeros(11, dtype=torch.uint8),
        "flags": torch.zeros(3, dtype=torch.bool),
    }
    raw = safetensors.torch.save(tensors, metadata={"format": "pt"})
    (tmp_path / "x").write_bytes(raw)
    assert read_safetensors(tmp_path / "x", specs_of(tensors), CheckpointError) == raw
    assert specs_of(tensors)["half"] == Spec("BF16", (7,))
    assert str(specs_of(tensors)["a"]) == "F32 (2, 3, 5)"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "damaged: not a safetensors file (header too small"),
        (b"PK\x03\x04\0\0\0\0" + b"\0" * 9000, "a header of 67,324,752 bytes, allowed"),
        (pack(b'{"a": ' * 99999), "invalid JSON in header: recursion limit exceeded"),
        (pack({"a": entry("F4", [2], 0, 1)}, bytes(1)), "'a': got F4 (2,), not supported"),
        (pack({"a": entry("F32", [1] * 9**5, 0, 4)}, bytes(4)), "not supported"),
        (pack({"a": entry("F32", [0, 1 << 63], 0, 0)}), "'a': got F32 (0, 9223372036854775808)"),
        (pack({"a": entry("F32", [2], 4, 12)}, bytes(12)), "invalid offset for tensor `a`"),
        (pack({"a": entry("F32", [2], 0, 8)}, bytes(7)), "incomplete metadata, file not fully"),
        (pack({"a\n\x1b[31m" + "x" * 9999: entry("U8", [2], 4, 6)}), "invalid offset for tensor"),
    ],
)
def test_a_file_that_lies_is_refused_in_a_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_safetensors(path, None, CheckpointError)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < len(str(path)) + 300


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The library accepts every accepted file and describes it in the same way."""
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.arange(5)}
    raw = bytearray(safetensors.torch.save(tensors))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))]) if data.draw(st.booleans()) else raw
    path = tmp_path_factory.mktemp("damage") / "x"
    path.write_bytes(cut)
    try:
        content = read_safetensors(path, specs_of(tensors), CheckpointError)
    except CheckpointError:
        return
    assert specs_of(safetensors.torch.load(content)) == specs_of(tensors)


@pytest.mark.parametrize(("value", "row"), [("nan", 0), ("inf", 1), ("-inf", 0)])
def test_a_number_that_is_none(value: str, row: int) -> None:
    tensors = {"a": torch.ones(2, 3), "n": torch.arange(3), "big": torch.full((3,), 3e38)}
    check_finite(tensors, "x", CheckpointError)  # the sum of `big` alone is infinite
    tensors["a"][row] = float(value)
    with pytest.raises(CheckpointError, match=r"^x: a: 3 of 6 numbers are NaN or infinite$"):
        check_finite(tensors, "x", CheckpointError)
