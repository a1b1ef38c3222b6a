"""The names `best` and `last` for checkpoints: labels.json, beside the checkpoints' folders.

One small file instead of symbolic links, which do not survive zip, object stores or Windows.
"""

from collections.abc import Mapping
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.storage.atomic import write_json
from nmt.storage.bounded import read_json, stay_inside

FILE = "labels.json"
LABELS = ("best", "last")


def read_labels(checkpoints: Path) -> dict[str, int]:
    """The step that each label means; empty without a file.

    Raises CheckpointError for a damaged file, and for a link out of the run.
    """
    path = checkpoints / FILE
    stay_inside(path, checkpoints.parent, CheckpointError)
    try:
        labels = read_json(path, CheckpointError)
    except FileNotFoundError:
        return {}
    if not isinstance(labels, dict) or not all(map(_is_label, labels.items())):
        raise CheckpointError(
            f'{path}: damaged: allowed: the steps of best and last, as in {{"best": 10, "last": '
            "20}; remove it, and a training that goes on writes it anew"
        )
    return labels


def write_labels(checkpoints: Path, labels: Mapping[str, int]) -> None:
    """Replace all labels in one atomic move."""
    write_json(checkpoints / FILE, dict(sorted(labels.items())))


def _is_label(item: tuple[str, object]) -> bool:
    label, step = item
    return label in LABELS and type(step) is int and 0 <= step < 10**18
