"""Attention records as files for other programs: JSON Lines and NumPy's npz.

docs/attention-dump.md describes both, field by field.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from nmt.errors import DataError
from nmt.storage.output import atomic_output, write_lines
from nmt.translation.record import AttentionRecord, SelfAttentionRecord
from nmt.types import Encoded, FilePath

FORMAT = "nmt-attention"
VERSION = 1
AXES = ("target", "source")


def to_json(record: AttentionRecord, reference: str | None = None) -> str:
    """The record as one line of JSON, without the newline.

    Weights have the fewest digits from which the same float32 is read back. A `reference`
    translation is a field of its own.
    """
    header = {"format": FORMAT, "version": VERSION, "axes": AXES}
    arrays: dict[str, object] = {"weights": _rows(record.weights)}
    if record.heads is not None:
        arrays["heads"] = [_rows(weights) for weights in record.heads]
    arrays |= _self_attention(
        record,
        {name: [*map(_rows, attention.heads)] for name, attention in record.self_attention.items()},
    )
    if reference is not None:
        arrays["reference"] = reference
    return _dumps({**header, **_fields(record), **arrays})


def from_json(line: bytes, where: str) -> AttentionRecord:
    """The record of a line. Raises DataError, which names the line by `where`, for another."""
    fields = _loads(line, where)
    return _record(fields, fields.get("weights"), fields.get("heads"), where)


def write_jsonl(records: Iterable[AttentionRecord], path: FilePath, force: bool = False) -> None:
    """Write a line per record, one at a time, to `path`, which must be new unless `force`.

    Raises DataError if `path` cannot be written.
    """
    write_lines(map(to_json, records), Path(path), force)


def read_jsonl(path: FilePath) -> Iterator[AttentionRecord]:
    """The records of a JSON Lines dump, one by one.

    Raises DataError (file:line) for a line that is not a record of this format.
    """
    try:
        with open(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                yield from_json(line, f"{path}:{number}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def write_npz(records: Iterable[AttentionRecord], path: FilePath, force: bool = False) -> None:
    """Write the arrays of each record, `weights` and those of heads, and their JSON `index`.

    Memory holds the weights of one record at a time. Equal records give equal bytes.
    `path` must be new unless `force`. Raises DataError if it cannot be written.
    """
    index = []
    with (
        atomic_output(Path(path), force) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for record in records:
            arrays = {"weights": record.weights}
            if record.heads is not None:
                arrays["heads"] = record.heads
            keys = {name: record.key(name) for name in arrays}
            self_heads = {
                name: attention.heads for name, attention in record.self_attention.items()
            }
            for name, array in {**arrays, **self_heads}.items():
                _write_member(archive, record.key(name), array)
            of_self = _self_attention(record, {name: record.key(name) for name in self_heads})
            index.append({**_fields(record), **keys, **of_self})
        text = _dumps({"format": FORMAT, "version": VERSION, "axes": AXES, "records": index})
        _write_member(archive, "index", np.frombuffer(text.encode(), dtype=np.uint8))


def read_npz(path: FilePath) -> Iterator[AttentionRecord]:
    """The records of an npz dump, one by one. Raises DataError for another file."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as dump:
            header = _loads(dump["index"].tobytes(), str(path))
            for fields in header["records"]:
                heads = dump[fields["heads"]] if "heads" in fields else None
                for attention in fields.get("self_attention", {}).values():
                    attention["heads"] = dump[attention["heads"]]
                where = f"{path}: {fields['weights']}"
                yield _record(fields, dump[fields["weights"]], heads, where)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        raise DataError(f"{path}: not an npz of {FORMAT}: {error}") from error


def _rows(weights: Float32[np.ndarray, "T S"]) -> list[list[float]]:
    # str of a float32 is the shortest decimal that is that float32 and no other.
    return [[float(str(weight)) for weight in row] for row in weights]


def _fields(record: AttentionRecord) -> dict[str, object]:
    """A record as a JSON object, without its arrays."""
    names = {"head_names": record.head_names} if record.head_names else {}
    return {
        "sentence": record.sentence,
        "rank": record.rank,
        "forced": record.forced,
        "level": record.level,
        "score": _finite(record.score),
        "finished": record.finished,
        "source": _side(record.source_text, record.source),
        "target": _side(record.target_text, record.target),
        "log_probs": [_finite(value) for value in record.log_probs],
        **names,
    }


def _self_attention(record: AttentionRecord, heads: dict[str, Any]) -> dict[str, object]:
    """The field `self_attention`, with `heads` for its arrays; none for a record without it."""
    self_attention = {
        name: {"labels": attention.labels, "head_names": attention.head_names, "heads": heads[name]}
        for name, attention in record.self_attention.items()
    }
    return {"self_attention": self_attention} if self_attention else {}


def _side(text: str, encoded: Encoded) -> dict[str, object]:
    return {
        "text": text,
        "pieces": encoded.pieces,
        "ids": encoded.ids,
        "words": encoded.words,
        "word_spans": encoded.word_spans,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: a log-probability of minus infinity is written as null."""
    return value if math.isfinite(value) else None


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _loads(text: bytes, where: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises DataError for another format or version."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    is_object = isinstance(value, dict)
    format_, version = (value.get("format"), value.get("version")) if is_object else (None, None)
    if (format_, version) != (FORMAT, VERSION):
        raise DataError(
            f"{where}: got format {format_}, version {version}; "
            f"this nmt reads {FORMAT}, version {VERSION}"
        )
    return dict(value)


def _record(fields: dict[str, Any], weights: object, heads: object, where: str) -> AttentionRecord:
    """The record of JSON `fields`. Raises DataError if one is missing or shapes do not fit."""
    try:
        record = AttentionRecord(
            sentence=int(fields["sentence"]),
            rank=int(fields["rank"]),
            forced=bool(fields["forced"]),
            level=fields["level"],
            source_text=str(fields["source"]["text"]),
            source=_encoded(fields["source"]),
            target_text=str(fields["target"]["text"]),
            target=_encoded(fields["target"]),
            weights=np.array(weights, dtype=np.float32, ndmin=2),
            log_probs=tuple(-math.inf if p is None else float(p) for p in fields["log_probs"]),
            score=-math.inf if fields["score"] is None else float(fields["score"]),
            finished=bool(fields["finished"]),
            head_names=tuple(map(str, fields.get("head_names", ()))),
            heads=None if heads is None else np.array(heads, dtype=np.float32, ndmin=3),
            self_attention={
                str(name): SelfAttentionRecord(
                    tuple(map(str, attention["labels"])),
                    tuple(map(str, attention["head_names"])),
                    np.array(attention["heads"], dtype=np.float32, ndmin=3),
                )
                for name, attention in fields.get("self_attention", {}).items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{where}: not a record of {FORMAT}: {error!r}") from error
    sides = (record.target, record.source)
    expected = tuple(len(s.words if record.level == "word" else s.pieces) for s in sides)
    if record.weights.shape != expected:
        raise DataError(f"{where}: weights have shape {record.weights.shape}, not {expected}")
    shape = (0,) if record.heads is None else record.heads.shape
    expected = (len(record.head_names), *expected) if record.head_names else (0,)
    if shape != expected:
        raise DataError(f"{where}: heads have shape {shape}, not {expected}")
    for name, attention in record.self_attention.items():
        expected = (len(attention.head_names), len(attention.labels), len(attention.labels))
        if attention.heads.shape != expected:
            raise DataError(
                f"{where}: {name} heads have shape {attention.heads.shape}, not {expected}"
            )
    return record


def _encoded(side: dict[str, Any]) -> Encoded:
    return Encoded(
        pieces=tuple(side["pieces"]),
        ids=tuple(side["ids"]),
        words=tuple(side["words"]),
        word_spans=tuple((start, end) for start, end in side["word_spans"]),
    )


def _write_member(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    """Add an array as numpy does, with a constant date, so that equal records give equal bytes."""
    member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    member.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(member, "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)
