"""Whether the corpora of a config can be read, checked without training."""

from nmt.data.corpora import read_examples, resolve_split, split_files, stream_split
from nmt.data.entries import RUN_SPLITS
from nmt.data.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError

MAX_READ_BYTES = 50 << 20
"""The files of a split that are larger together are not read through: it would take too long."""


def check_corpora(data: DataConfig) -> list[str]:
    """Raise ConfigError, a line for each fault, for what a training would refuse of its corpora.

    Files of up to MAX_READ_BYTES a split are read to their ends. A named corpus that is not on the
    disk is not an error: a line for each is returned.
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


def _read(split: SplitConfig, data: DataConfig) -> None:
    size = sum(file.stat().st_size for file in split_files(split, data))
    if split.corpus is not None or size > MAX_READ_BYTES:
        return
    if isinstance(split.tgt, tuple):
        read_examples(split, data)
    else:
        for _ in stream_split(split, data):
            pass
