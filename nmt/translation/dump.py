"""Write and read attention records as JSON Lines and as NumPy's npz, for other programs.

docs/attention-dump.md describes the fields of both formats.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import DataError
from nmt.storage.output import atomic_output
from nmt.translation.record import AttentionRecord, AttributionRecord, SelfAttentionRecord
from nmt.types import Encoded, FilePath

FORMAT = "nmt-attention"
VERSION = 1
_HEADER: dict[str, object] = {"format": FORMAT, "version": VERSION, "axes": ("target", "source")}
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


def to_json(record: AttentionRecord, reference: str | None = None) -> str:
    """Return the record as a line of JSON, without the newline.

    Weights have the fewest digits that give the same float32. `reference` becomes a field, if any.
    """
    fields = _fields(record, lambda _, array: _decimals(array))
    return _dumps(_HEADER | fields | ({} if reference is None else {"reference": reference}))


def from_json(line: bytes, where: str) -> AttentionRecord:
    """Parse a line of a JSON Lines dump. Raises DataError, beginning with `where`, if invalid."""
    return _record(_loads(line, where), lambda values: values, where)


def read_jsonl(path: FilePath) -> Iterator[AttentionRecord]:
    """Yield the records of a JSON Lines dump. Raises DataError (file:line) if one is invalid."""
    try:
        with open(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                yield from_json(line, f"{path}:{number}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def write_npz(records: Iterable[AttentionRecord], path: FilePath, force: bool = False) -> None:
    """Write the attention arrays of each record, and a JSON `index` of all records, to an npz file.

    Memory holds the weights of one record at a time. Equal records give equal bytes. `path` must
    not exist, unless `force`. Raises DataError if `path` cannot be written.
    """
    with (
        atomic_output(Path(path), force) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):

        def write(name: str, array: np.ndarray) -> str:
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))  # constant
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
            return name

        text = _dumps({**_HEADER, "records": [_fields(record, write) for record in records]})
        write("index", np.frombuffer(text.encode(), dtype=np.uint8))


def read_npz(path: FilePath) -> Iterator[AttentionRecord]:
    """Yield the records of an npz dump. Raises DataError if the file is not such a dump."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as dump:
            for fields in _loads(dump["index"].tobytes(), str(path))["records"]:
                yield _record(fields, dump.__getitem__, f"{path}: {fields['weights']}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (*_MALFORMED, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an npz of {FORMAT}: {error}") from error


def _decimals(array: np.ndarray) -> list[Any]:
    # str of a float32 is the shortest decimal that identifies it.
    return [_decimals(part) if part.ndim else float(str(part)) for part in array]


def _fields(
    record: AttentionRecord, write: Callable[[str, np.ndarray], object]
) -> dict[str, object]:
    """Return a record as a JSON object, in which `write(name, array)` replaces each array."""
    number = f"{record.sentence:06d}_{record.rank}"
    fields: dict[str, object] = {
        "sentence": record.sentence,
        "rank": record.rank,
        "forced": record.forced,
        "level": record.level,
        "score": _finite(record.score),
        "finished": record.finished,
        "source": {"text": record.source_text, **asdict(record.source)},
        "target": {"text": record.target_text, **asdict(record.target)},
        "log_probs": [_finite(value) for value in record.log_probs],
        **({"head_names": record.head_names} if record.head_names else {}),
        "weights": write(f"weights_{number}", record.weights),
    }
    if record.heads is not None:
        fields["heads"] = write(f"heads_{number}", record.heads)
    if record.self_attention:
        fields["self_attention"] = {
            name: {
                "labels": attention.labels,
                "head_names": attention.head_names,
                "heads": write(f"{name}_{number}", attention.heads),
            }
            for name, attention in record.self_attention.items()
        }
    if (attribution := record.attribution) is not None:
        share = attribution.source_share
        fields["attribution"] = {
            "method": attribution.method,
            "contrast": attribution.contrast,
            "scores": write(f"scores_{number}", attribution.scores),
            "prefix_labels": attribution.prefix_labels,
            "prefix_scores": write(f"prefix_{number}", attribution.prefix_scores),
            "source_share": None if share is None else _decimals(share),
        }
    return fields


def _finite(value: float) -> float | None:
    """Return `value`, or None for minus infinity, which JSON lacks."""
    return value if math.isfinite(value) else None


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _loads(text: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object. Raises DataError if its format or version is not supported."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    fields = dict(value) if isinstance(value, dict) else {}
    format_, version = fields.get("format"), fields.get("version")
    if (format_, version) != (FORMAT, VERSION):
        allowed = f"this nmt reads {FORMAT}, version {VERSION}"
        raise DataError(f"{where}: got format {format_}, version {version}; {allowed}")
    return fields


def _record(fields: dict[str, Any], read: Callable[[Any], Any], where: str) -> AttentionRecord:
    """Build a record from JSON `fields`. `read` is the inverse of the `write` of `_fields`.

    Raises DataError if a field is missing or shapes do not fit.
    """

    def array(value: object) -> np.ndarray:
        return np.array(read(value), dtype=np.float32)

    try:
        weights = array(fields["weights"])
        record = AttentionRecord(
            sentence=int(fields["sentence"]),
            rank=int(fields["rank"]),
            forced=bool(fields["forced"]),
            level=fields["level"],
            source_text=str(fields["source"]["text"]),
            source=_encoded(fields["source"]),
            target_text=str(fields["target"]["text"]),
            target=_encoded(fields["target"]),
            weights=weights,
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
            attribution=_attribution(fields.get("attribution"), array, weights.shape, where),
        )
    except _MALFORMED as error:
        raise DataError(f"{where}: not a record of {FORMAT}: {error!r}") from error
    sides = (record.target, record.source)
    shape = tuple(len(side.words if record.level == "word" else side.pieces) for side in sides)
    _check_shape(record.weights, shape, f"{where}: weights")
    if record.heads is not None or record.head_names:
        _check_shape(record.heads, (len(record.head_names), *shape), f"{where}: heads")
    for name, attention in record.self_attention.items():
        n_labels = len(attention.labels)
        shape = (len(attention.head_names), n_labels, n_labels)
        _check_shape(attention.heads, shape, f"{where}: {name} heads")
    return record


def _attribution(
    fields: dict[str, Any] | None,
    array: Callable[[object], np.ndarray],
    shape: tuple[int, ...],
    where: str,
) -> AttributionRecord | None:
    """Return the attribution of a record whose weights have this shape; None without `fields`."""
    if fields is None:
        return None
    labels, share = tuple(map(str, fields["prefix_labels"])), fields["source_share"]
    scores, prefix_scores = array(fields["scores"]), array(fields["prefix_scores"])
    source_share = None if share is None else np.array(share, dtype=np.float32)
    _check_shape(scores, shape, f"{where}: scores")
    _check_shape(prefix_scores, (shape[0], len(labels)), f"{where}: prefix_scores")
    if labels:
        _check_shape(source_share, shape[:1], f"{where}: source_share")
    method, contrast = fields["method"], fields["contrast"]
    return AttributionRecord(method, contrast, scores, labels, prefix_scores, source_share)


def _check_shape(array: np.ndarray | None, expected: tuple[int, ...], name: str) -> None:
    shape = () if array is None else array.shape
    if shape != expected:
        raise DataError(f"{name} have shape {shape}, not {expected}")


def _encoded(side: dict[str, Any]) -> Encoded:
    spans = tuple((start, end) for start, end in side["word_spans"])
    return Encoded(tuple(side["pieces"]), tuple(side["ids"]), tuple(side["words"]), spans)
