"""Sentence pairs that are passed to `train` in memory, which the run keeps as files."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import DataError
from nmt.runs.directory import RunDirectory
from nmt.settings.config_file import Override, with_overrides
from nmt.storage.atomic import write_text
from nmt.storage.run_files import check_tree
from nmt.training.resume import has_checkpoint

Pairs = Iterable[tuple[str, str]]
_NO_FIELD = re.compile("[\t\n\r\ud800-\udfff]")


def store_pairs(config: RunConfig, run: Path, splits: Mapping[str, Pairs | None]) -> RunConfig:
    """Write the pairs of each split to a file of the locked run; return `config` with the files.

    Raises TypeError for an item that is not a pair of str. Raises DataError for a text that a TSV
    cannot hold, and for pairs that differ from the pairs that the run was begun with. Raises
    ConfigError if `config` contradicts the splits.
    """
    check_tree(run)
    overrides = []
    for name, pairs in splits.items():
        if pairs is not None:
            lines = [_line(pair, f"{name} pairs[{index}]") for index, pair in enumerate(pairs)]
            # Readers remove one byte order mark, and a text may begin with another.
            text = "".join(["\ufeff", *lines])
            path = run / "pairs" / f"{name}.tsv"
            if not path.exists() or path.read_bytes() != text.encode():
                if path.exists() and has_checkpoint(RunDirectory(run)):
                    cure = "give the same pairs, or train in another `run`"
                    raise DataError(f"{name} pairs: differ from the pairs of {run}; {cure}")
                path.parent.mkdir(exist_ok=True)
                write_text(path, text)
            overrides.append(Override(f"data.{name}", {"file": str(path)}, f"{name} pairs"))
    return with_overrides(config, overrides)


def _line(pair: object, where: str) -> str:
    match pair:
        case [str(source), str(target)]:
            if _NO_FIELD.search(source + target):
                got = reprlib.repr(pair)
                raise DataError(f"{where}: got {got}, allowed: Unicode without tabs and line ends")
            return f"{source}\t{target}\n"
    raise TypeError(f"{where}: got {reprlib.repr(pair)}, allowed: a pair of str")
