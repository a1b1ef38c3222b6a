"""Attention records as files for other programs: JSON Lines and NumPy's npz.

docs/attention-dump.md describes both, field by field.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import DataError
from nmt.storage.output import atomic_output
from nmt.translation.record import AttentionRecord, SelfAttentionRecord
from nmt.types import Encoded, FilePath

FORMAT = "nmt-attention"
VERSION = 1
_HEADER: dict[str, object] = {
    "format": FORMAT,
    "version": VERSION,
    "axes": ("target", "source"),
}
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


def to_json(record: AttentionRecord, reference: str | None = None) -> str:
    """The record as one line of JSON, without the newline.

    Weights have the fewest digits from which the same float32 is read back. A `reference`
    translation is a field of its own.
    """
    fields = _fields(record, lambda _, array: _decimals(array))
    return _dumps(_HEADER | fields | ({} if reference is None else {"reference": reference}))


def from_json(line: bytes, where: str) -> AttentionRecord:
    """The record of a line. Raises DataError, which names the line by `where`, for another."""
    return _record(_loads(line, where), lambda values: values, where)


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
    with (
        atomic_output(Path(path), force) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):

        def write(name: str, array: np.ndarray) -> str:
            # A constant date, so that equal records give equal bytes.
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
            return name

        text = _dumps({**_HEADER, "records": [_fields(record, write) for record in records]})
        write("index", np.frombuffer(text.encode(), dtype=np.uint8))


def read_npz(path: FilePath) -> Iterator[AttentionRecord]:
    """The records of an npz dump, one by one. Raises DataError for another file."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as dump:
            for fields in _loads(dump["index"].tobytes(), str(path))["records"]:
                yield _record(fields, dump.__getitem__, f"{path}: {fields['weights']}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (*_MALFORMED, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an npz of {FORMAT}: {error}") from error


def _decimals(array: np.ndarray) -> list[Any]:
    # str of a float32 is the shortest decimal that is that float32 and no other.
    return [_decimals(part) if part.ndim else float(str(part)) for part in array]


def _fields(
    record: AttentionRecord, write: Callable[[str, np.ndarray], object]
) -> dict[str, object]:
    """A record as a JSON object, with what `write` returns for each named array."""
    place = f"{record.sentence:06d}_{record.rank}"
    fields: dict[str, object] = {
        "sentence": record.sentence,
        "rank": record.rank,
        "forced": record.forced,
        "level": record.level,
        "score": _finite(record.score),
        "finished": record.finished,
        "source": _side(record.source_text, record.source),
        "target": _side(record.target_text, record.target),
        "log_probs": [_finite(value) for value in record.log_probs],
        **({"head_names": record.head_names} if record.head_names else {}),
        "weights": write(f"weights_{place}", record.weights),
    }
    if record.heads is not None:
        fields["heads"] = write(f"heads_{place}", record.heads)
    if record.self_attention:
        fields["self_attention"] = {
            name: {
                "labels": attention.labels,
                "head_names": attention.head_names,
                "heads": write(f"{name}_{place}", attention.heads),
            }
            for name, attention in record.self_attention.items()
        }
    return fields


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


def _record(fields: dict[str, Any], read: Callable[[Any], Any], where: str) -> AttentionRecord:
    """The record of JSON `fields`. `read` returns the array of what `_fields` had written.

    Raises DataError if a field is missing or shapes do not fit.
    """

    def array(value: object) -> np.ndarray:
        return np.array(read(value), dtype=np.float32)

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
            weights=array(fields["weights"]),
            log_probs=tuple(-math.inf if p is None else float(p) for p in fields["log_probs"]),
            score=-math.inf if fields["score"] is None else float(fields["score"]),
            finished=bool(fields["finished"]),
            head_names=tuple(map(str, fields.get("head_names", ()))),
            heads=array(fields["heads"]) if "heads" in fields else None,
            self_attention={
                str(name): SelfAttentionRecord(
                    tuple(map(str, attention["labels"])),
                    tuple(map(str, attention["head_names"])),
                    array(attention["heads"]),
                )
                for name, attention in fields.get("self_attention", {}).items()
            },
        )
    except _MALFORMED as error:
        raise DataError(f"{where}: not a record of {FORMAT}: {error!r}") from error
    sides = (record.target, record.source)
    shape = tuple(len(s.words if record.level == "word" else s.pieces) for s in sides)
    _check_shape(record.weights, shape, f"{where}: weights")
    if record.heads is not None or record.head_names:
        _check_shape(record.heads, (len(record.head_names), *shape), f"{where}: heads")
    for name, attention in record.self_attention.items():
        n_labels = len(attention.labels)
        shape = (len(attention.head_names), n_labels, n_labels)
        _check_shape(attention.heads, shape, f"{where}: {name} heads")
    return record


def _check_shape(array: np.ndarray | None, expected: tuple[int, ...], name: str) -> None:
    shape = () if array is None else array.shape
    if shape != expected:
        raise DataError(f"{name} have shape {shape}, not {expected}")


def _encoded(side: dict[str, Any]) -> Encoded:
    return Encoded(
        pieces=tuple(side["pieces"]),
        ids=tuple(side["ids"]),
        words=tuple(side["words"]),
        word_spans=tuple((start, end) for start, end in side["word_spans"]),
    )
