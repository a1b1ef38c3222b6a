"""The sample translations of each validation, with their attention: a file a validation.

A line is a record of docs/attention-dump.md at level `word`, with the field `reference`. Nothing
of a training reads them: a resumed run writes those of its validations again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import CheckpointError, DataError
from nmt.storage.bounded import MAX_JSON_BYTES, read_bytes, stay_inside
from nmt.training.validation import Sample
from nmt.translation.dump import from_json, to_json
from nmt.translation.record import AttentionRecord, records


@dataclass(frozen=True)
class KeptSample:
    """A sample as it was written: its record, and the reference."""

    record: AttentionRecord
    reference: str


def sample_file(step: int) -> str:
    """The file of the samples of a validation, in the run directory."""
    return f"samples/step-{step:06d}.jsonl"


def samples_text(samples: Sequence[Sample]) -> str:
    """The lines of such a file; a sample without a piece in its source has none."""
    return "".join(
        f"{to_json(record, sample.ref_text)}\n"
        for number, sample in enumerate(samples, start=1)
        for record in records(sample.translation, number, "word")[:1]
    )


def read_samples(run: Path, step: int) -> list[KeptSample]:
    """The samples of a validation; none where the run has kept none.

    Raises CheckpointError for a file that is not what `samples_text` gives.
    """
    path = run / sample_file(step)
    stay_inside(path, run, CheckpointError)
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


def _sample(line: bytes, where: str) -> KeptSample:
    record = from_json(line, where)
    reference = json.loads(line).get("reference")
    if record.level != "word" or not isinstance(reference, str):
        raise CheckpointError(f"{where}: not a sample: not by word, or no reference")
    if not ((record.weights >= 0) & (record.weights <= 1.001)).all():
        raise CheckpointError(f"{where}: a weight is not in 0 to 1")
    return KeptSample(record, reference)
