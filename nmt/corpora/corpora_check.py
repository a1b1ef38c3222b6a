"""A check, without training, that the corpora of a config can be read."""

from nmt.corpora.corpora import read_examples, resolve_split, split_files, stream_split
from nmt.corpora.entries import RUN_SPLITS
from nmt.corpora.sources import DataConfig, PairsConfig
from nmt.errors import ConfigError, DataError

MAX_READ_BYTES = 50 << 20
"""Splits with larger files are not read, since that would take too long."""


def check_corpora(data: DataConfig) -> list[str]:
    """A line for each named corpus that is not on disk and can be fetched.

    Raises ConfigError with a line for each other fault that would stop a training. Splits of up
    to MAX_READ_BYTES are read to the end.
    """
    faults: list[str] = []
    absent: list[str] = []
    for name in RUN_SPLITS:
        split = None
        try:
            split = resolve_split(data, name)
            if split is not None:
                _read(split, data)
        except DataError as error:
            if split is not None and split.corpus is not None:
                absent.append(str(error))
            else:
                faults.append(f"data.{name}: {error}")
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return list(dict.fromkeys(absent))


def _read(split: PairsConfig, data: DataConfig) -> None:
    size = sum(file.stat().st_size for file in split_files(split, data))
    if split.corpus is not None or size > MAX_READ_BYTES:
        return
    if isinstance(split.tgt, tuple):
        read_examples(split, data)
    else:
        for _ in stream_split(split, data):
            pass
