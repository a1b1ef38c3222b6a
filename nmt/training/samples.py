"""Files with the sample translations of a validation and their attention.

A line is a record at level `word` (docs/attention-dump.md) with the additional field `reference`.
Training does not read these files. If a resumed run repeats a validation, it writes the file again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import CheckpointError, DataError
from nmt.storage.bounded import MAX_JSON_BYTES, check_inside, read_bytes
from nmt.training.validation import Sample
from nmt.translation.dump import from_json, to_json
from nmt.translation.record import AttentionRecord, records


@dataclass(frozen=True)
class SavedSample:
    """A sample read from a file: the attention record and the reference translation."""

    record: AttentionRecord
    reference: str


def sample_file(step: int) -> str:
    """Return the path, within the run, of the samples of the validation after `step` updates."""
    return f"samples/step-{step:06d}.jsonl"


def samples_text(samples: Sequence[Sample]) -> str:
    """Return the content of a sample file. A sample with an empty source gets no line."""
    return "".join(
        f"{to_json(record, sample.ref_text)}\n"
        for number, sample in enumerate(samples, start=1)
        for record in records(sample.translation, number, "word")[:1]
    )


def read_samples(run: Path, step: int) -> list[SavedSample]:
    """Return the samples of the validation after `step` updates.

    A missing file gives an empty list. Raises CheckpointError if the file is no sample file.
    """
    path = run / sample_file(step)
    check_inside(path, run, CheckpointError)
    try:
        content = read_bytes(path, MAX_JSON_BYTES, CheckpointError)
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        return [_sample(line, f"{path}:{i}") for i, line in enumerate(lines, start=1)]
    except FileNotFoundError:
        return []
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except (RecursionError, OverflowError) as error:
        raise CheckpointError(f"{path}: not samples: {error}") from None


def _sample(line: bytes, where: str) -> SavedSample:
    record = from_json(line, where)
    reference = json.loads(line).get("reference")
    if record.level != "word" or not isinstance(reference, str):
        raise CheckpointError(f"{where}: not a sample: not at level word, or without a reference")
    if not ((record.weights >= 0) & (record.weights <= 1.001)).all():
        raise CheckpointError(f"{where}: an attention weight is not between 0 and 1")
    return SavedSample(record, reference)
